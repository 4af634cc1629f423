# SPDX-License-Identifier: Apache-2.0
"""Deltas in Fossil's format: instructions that turn one text into another.

``<size>\\n``, then ``<n>@<offset>,`` copies and ``<n>:<bytes>`` inserts, and ``<checksum>;`` at
the end; numbers have digits of base 64.  The format does not say how to find equal pieces.
Fossil uses a rolling hash; here blocks of fixed size are looked up directly, as Python hashes a
slice faster than it computes a rolling hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
#: Bytes that must be equal for a piece to be found; at the ends of a text fewer will do.
_BLOCK = 16
#: Bytes from which copying is shorter than inserting.
_MIN_COPY = 10
#: Offsets of an equal block that are tried: the best is mostly among the first.
_CANDIDATES_MAX = 8
#: Lookups after which the rest is inserted as it is: some 3 ms.
_LOOKUPS_MAX = 8192
#: Trying one candidate takes as long as this many lookups.
_CANDIDATE_COST = 16
#: Bytes by which a UTF-8 character may extend across a border.
_UTF8_BACKTRACK = 3


class _Copy(NamedTuple):
    """*size* bytes of the target that are at *source_offset* in the source."""

    target_offset: int
    source_offset: int
    size: int


def create(source: bytes, target: bytes) -> bytes:
    """Returns the delta, which never splits a UTF-8 character."""
    parts = [_number(len(target)), b"\n"]
    done = 0
    for copy in _copies(source, target):
        if copy.target_offset > done:
            parts += _number(copy.target_offset - done), b":", target[done : copy.target_offset]
        parts += _number(copy.size), b"@", _number(copy.source_offset), b","
        done = copy.target_offset + copy.size
    if done < len(target):
        parts += _number(len(target) - done), b":", target[done:]
    parts += _number(_checksum(target)), b";"
    return b"".join(parts)


def _copies(source: bytes, target: bytes) -> Iterator[_Copy]:
    """Yields copies in the order of the target: its head, what is found between, its tail."""
    most = min(len(source), len(target))
    head = _common_prefix(source, 0, target, 0, most)
    tail = _common_prefix(source[::-1], 0, target[::-1], 0, most - head)
    begin, end = head, len(target) - tail
    copies = (
        _Copy(0, 0, head),
        *_find_copies(source[: len(source) - tail], target[:end], begin),
        _Copy(end, len(source) - tail, tail),
    )
    for copy in copies:
        trimmed = _trim_to_characters(target, copy)
        if trimmed.size >= _MIN_COPY:
            yield trimmed


def _find_copies(source: bytes, target: bytes, begin: int) -> Iterator[_Copy]:
    """Yields copies for the target from *begin* on."""
    candidates: dict[bytes, list[int]] = {}
    if len(target) - begin >= _BLOCK:
        for source_offset in range(begin, len(source) - _BLOCK + 1, _BLOCK):
            candidates.setdefault(source[source_offset : source_offset + _BLOCK], []).append(
                source_offset
            )
    target_offset, lookups = begin, 0
    while candidates and target_offset + _BLOCK <= len(target) and lookups < _LOOKUPS_MAX:
        found = candidates.get(target[target_offset : target_offset + _BLOCK])
        if found is None:
            target_offset += 1
            lookups += 1
            continue
        copies = [
            _extended(source, target, begin, target_offset, source_offset)
            for source_offset in found[:_CANDIDATES_MAX]
        ]
        best = max(copies, key=lambda copy: copy.size)
        yield best
        begin = target_offset = best.target_offset + best.size
        lookups += _CANDIDATE_COST * len(copies)


def _extended(
    source: bytes, target: bytes, begin: int, target_offset: int, source_offset: int
) -> _Copy:
    """Extends an equal block to both sides, not before *begin* in the target."""
    end = target_offset + _common_prefix(
        source,
        source_offset,
        target,
        target_offset,
        min(len(source) - source_offset, len(target) - target_offset),
    )
    while (
        target_offset > begin
        and source_offset > 0
        and source[source_offset - 1] == target[target_offset - 1]
    ):
        target_offset, source_offset = target_offset - 1, source_offset - 1
    return _Copy(target_offset, source_offset, end - target_offset)


def _common_prefix(one: bytes, i: int, other: bytes, j: int, most: int) -> int:
    """Returns how many bytes are equal from these offsets on, *most* at most."""
    size, step = 0, 64
    while size < most:
        step = min(step, most - size)
        if one[i + size : i + size + step] != other[j + size : j + size + step]:
            break
        size, step = size + step, step * 2
    else:
        return most
    while step > 1:  # the first different byte is among these
        half = step // 2
        if one[i + size : i + size + half] == other[j + size : j + size + half]:
            size, step = size + half, step - half
        else:
            step = half
    return size


def _trim_to_characters(target: bytes, copy: _Copy) -> _Copy:
    """Removes partial characters from both ends: a delta may have to be valid UTF-8."""
    begin, end = copy.target_offset, copy.target_offset + copy.size
    for _ in range(_UTF8_BACKTRACK):
        begin += begin < end and _is_continuation_byte(target, begin)
    for _ in range(_UTF8_BACKTRACK):
        end -= begin < end < len(target) and _is_continuation_byte(target, end)
    return _Copy(begin, copy.source_offset + begin - copy.target_offset, end - begin)


def _is_continuation_byte(target: bytes, target_offset: int) -> bool:
    """Returns whether this byte continues a UTF-8 character."""
    return target[target_offset] & 0xC0 == 0x80


def _number(value: int) -> bytes:
    digits = [_DIGITS[value & 63]]
    while value := value >> 6:
        digits.append(_DIGITS[value & 63])
    return bytes(reversed(digits))


def _checksum(text: bytes) -> int:
    """Returns the sum of the 32-bit words, the last one padded with zeros."""
    padded = text + bytes(-len(text) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF
