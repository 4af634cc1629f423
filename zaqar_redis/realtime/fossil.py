# SPDX-License-Identifier: Apache-2.0
"""Deltas in Fossil's format: what makes one text of another.

``<size>\\n``, then ``<n>@<offset>,`` copies and ``<n>:<bytes>`` inserts, and ``<checksum>;`` at
the end; numbers have digits of base 64.  How equal pieces are found is left open.  Fossil
rolls a hash over the text; here blocks of the same size are looked up as they are, as Python
hashes a slice faster than it rolls anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
#: Bytes that must be equal for a piece to be found; at the ends of a text fewer will do.
_BLOCK = 16
#: Bytes from which copying is shorter than inserting.
_WORTH = 10
#: Places where an equal block may be that are tried: the best is mostly among the first.
_PLACES = 8
#: Bytes that are looked for, after which the rest is taken as it is: some 3 ms.
_LOOKS = 8192
#: Trying a place takes as long as so many looks.
_PLACE_LOOKS = 16
#: How far back a character of UTF-8 may begin.
_CHARACTER = 3


class _Copy(NamedTuple):
    """So many bytes of the target, which are at *place* in the source."""

    at: int
    place: int
    size: int


def create(source: bytes, target: bytes) -> bytes:
    """The delta; whole characters of UTF-8 stay whole in it."""
    made = [_number(len(target)), b"\n"]
    done = 0
    for copy in _copies(source, target):
        if copy.at > done:
            made += _number(copy.at - done), b":", target[done : copy.at]
        made += _number(copy.size), b"@", _number(copy.place), b","
        done = copy.at + copy.size
    if done < len(target):
        made += _number(len(target) - done), b":", target[done:]
    made += _number(_checksum(target)), b";"
    return b"".join(made)


def _copies(source: bytes, target: bytes) -> Iterator[_Copy]:
    """In the order of the target: its beginning, what is found between, its end."""
    most = min(len(source), len(target))
    head = _same(source, 0, target, 0, most)
    tail = _same(source[::-1], 0, target[::-1], 0, most - head)
    begin, end = head, len(target) - tail
    given = (
        _Copy(0, 0, head),
        *_between(source[: len(source) - tail], target[:end], begin),
        _Copy(end, len(source) - tail, tail),
    )
    for copy in given:
        whole = _of_characters(target, copy)
        if whole.size >= _WORTH:
            yield whole


def _between(source: bytes, target: bytes, begin: int) -> Iterator[_Copy]:
    """Of the rest of the target."""
    places: dict[bytes, list[int]] = {}
    if len(target) - begin >= _BLOCK:
        for place in range(begin, len(source) - _BLOCK + 1, _BLOCK):
            places.setdefault(source[place : place + _BLOCK], []).append(place)
    at, looks = begin, 0
    while places and at + _BLOCK <= len(target) and looks < _LOOKS:
        found = places.get(target[at : at + _BLOCK])
        if found is None:
            at += 1
            looks += 1
            continue
        copies = [_extended(source, target, begin, at, place) for place in found[:_PLACES]]
        best = max(copies, key=lambda copy: copy.size)
        yield best
        begin = at = best.at + best.size
        looks += _PLACE_LOOKS * len(copies)


def _extended(source: bytes, target: bytes, begin: int, at: int, place: int) -> _Copy:
    """To both sides of an equal block, not before *begin* in the target."""
    end = at + _same(source, place, target, at, min(len(source) - place, len(target) - at))
    while at > begin and place > 0 and source[place - 1] == target[at - 1]:
        at, place = at - 1, place - 1
    return _Copy(at, place, end - at)


def _same(one: bytes, i: int, other: bytes, j: int, most: int) -> int:
    """How many bytes are equal from these places on, of at most so many."""
    size, step = 0, 64
    while size < most:
        step = min(step, most - size)
        if one[i + size : i + size + step] != other[j + size : j + size + step]:
            break
        size, step = size + step, step * 2
    else:
        return most
    while step > 1:  # the first one that is not is among these
        half = step // 2
        if one[i + size : i + size + half] == other[j + size : j + size + half]:
            size, step = size + half, step - half
        else:
            step = half
    return size


def _of_characters(target: bytes, copy: _Copy) -> _Copy:
    """Without characters that are not all in it: a delta may have to be a text."""
    begin, end = copy.at, copy.at + copy.size
    for _ in range(_CHARACTER):
        begin += begin < end and _goes_on(target, begin)
    for _ in range(_CHARACTER):
        end -= begin < end < len(target) and _goes_on(target, end)
    return _Copy(begin, copy.place + begin - copy.at, end - begin)


def _goes_on(target: bytes, at: int) -> bool:
    """Whether this byte is inside of a character."""
    return target[at] & 0xC0 == 0x80


def _number(value: int) -> bytes:
    digits = [_DIGITS[value & 63]]
    while value := value >> 6:
        digits.append(_DIGITS[value & 63])
    return bytes(reversed(digits))


def _checksum(text: bytes) -> int:
    """The sum of its words of 32 bits, the last one filled up with zeros."""
    padded = text + bytes(-len(text) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF
