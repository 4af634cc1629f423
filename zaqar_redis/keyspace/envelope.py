# SPDX-License-Identifier: Apache-2.0
"""The stored form of a message: a msgpack array whose numbers have fixed offsets.

======= ========= ==========================================================
 byte   msgpack   field
======= ========= ==========================================================
 0      fixarray  9 elements
 1      uint64    created, ms since the epoch
 10     uint64    expires, ms since the epoch
 19     uint32    ttl, seconds
 24     uint32    delay, seconds
 29     uint8     flags: 1 = the body is encrypted; 2 = there are attributes; the
                  four high bits: how often it was forwarded
 31     bin8      client, 16 bytes
 49     str8      origin: the queue that a dead letter came from
 51+o   bin8      checksum: MD5 of the body, or empty
 53+o+c bin32     body: JSON text; before it, if there are attributes, four
                  bytes with the length of these, and these: a msgpack map
                  that begins with those of `message_fields`
======= ========= ==========================================================

The first four are written by Redis, which knows the time (``lua/shared/
envelope.lua`` reads and writes them), except for messages that are imported with
theirs; the rest is written here.
"""

from __future__ import annotations

import functools
import struct
import uuid
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from zaqar_redis import message_fields
from zaqar_redis.records import Attributes, NewMessage

_HEAD = struct.Struct(">xxQxQxIxIxBxx16sxB")
_FRONT = struct.Struct(">BBQBQBIBI")
_TAIL = struct.Struct(">BBBB16sBB")
_BODY = struct.Struct(">BI")

_ARRAY, _UINT64, _UINT32 = 0x99, 0xCF, 0xCE
_UINT8, _BIN8, _STR8, _BIN32 = 0xCC, 0xC4, 0xD9, 0xC6
_ENCRYPTED, _HAS_ATTRIBUTES = 1, 2
_HOPS_SHIFT = 4
_LENGTH = struct.Struct(">I")
_encode_attributes = msgspec.msgpack.Encoder().encode
_decode_attributes = msgspec.msgpack.Decoder(dict[str, Any]).decode
_ORIGIN = _HEAD.size


def front(created: int, expires: int, ttl: int, delay: int) -> bytes:
    """Returns the part of the envelope before `tail`; times in ms, the others in seconds."""
    return _FRONT.pack(_ARRAY, _UINT64, created, _UINT64, expires, _UINT32, ttl, _UINT32, delay)


def tail(draft: NewMessage, client: bytes) -> bytes:
    """Returns the part of the envelope behind the delay."""
    if not (
        draft.origin or draft.checksum or draft.encrypted or draft.attributes or draft.hops
    ):  # mostly
        return opening(client) + closing(draft.body)
    flags, body = draft.encrypted * _ENCRYPTED | draft.hops << _HOPS_SHIFT, draft.body
    if draft.attributes:
        flags |= _HAS_ATTRIBUTES
        attributes = _encode_attributes(message_fields.first(draft.attributes))
        body = b"".join((_LENGTH.pack(len(attributes)), attributes, body))
    return _opening(client, flags, draft.origin.encode(), draft.checksum) + closing(body)


def _opening(client: bytes, flags: int, origin: bytes, checksum: bytes) -> bytes:
    start = _TAIL.pack(_UINT8, flags, _BIN8, 16, client, _STR8, len(origin))
    return b"".join((start, origin, bytes((_BIN8, len(checksum))), checksum))


@functools.lru_cache(maxsize=4096)  # a client posts many times
def opening(client: bytes) -> bytes:
    """Returns the start of a `tail` without origin and checksum, up to the body."""
    return _opening(client, 0, b"", b"")


def closing(body: bytes) -> bytes:
    """Returns the end of a `tail`, behind its `opening`."""
    return _BODY.pack(_BIN32, len(body)) + body


def body_size(tail: bytes) -> int:
    """Returns the bytes of the body in a `tail`, with its attributes."""
    checksum = _TAIL.size + tail[_TAIL.size - 1]
    return len(tail) - (checksum + 2 + tail[checksum + 1] + _BODY.size)


#: Returns created, expires, ttl, delay, flags, client, length of the origin.
head = _HEAD.unpack_from


def rest(envelope: bytes, origin_length: int) -> tuple[str, bytes, bytes]:
    """Returns origin, checksum, and the body behind the attributes, if `has_attributes`."""
    if origin_length == 0 and envelope[_ORIGIN + 1] == 0:  # the common case
        return "", b"", envelope[_ORIGIN + 7 :]
    at = _ORIGIN + origin_length
    end = at + 2 + envelope[at + 1]
    return envelope[_ORIGIN:at].decode(), envelope[at + 2 : end], envelope[end + 5 :]


def split(packed: bytes) -> Iterator[bytes]:
    """Yields the envelopes of a concatenation."""
    start = 0
    while start < len(packed):
        checksum = start + _ORIGIN + packed[start + _ORIGIN - 1]
        size = checksum + 2 + packed[checksum + 1]
        end = size + _BODY.size + _BODY.unpack_from(packed, size)[1]
        yield packed[start:end]
        start = end


def is_encrypted(flags: int) -> bool:
    return bool(flags & _ENCRYPTED)


def has_attributes(flags: int) -> bool:
    return bool(flags & _HAS_ATTRIBUTES)


def hops(flags: int) -> int:
    return flags >> _HOPS_SHIFT


def with_attributes(body: bytes) -> tuple[Attributes, bytes]:
    """Returns the attributes that are before a body, and the body."""
    end = _LENGTH.size + _LENGTH.unpack_from(body)[0]
    return _decode_attributes(body[_LENGTH.size : end]), body[end:]


def attributes(stored: bytes) -> Attributes | None:
    """Returns the attributes in an envelope; None: it has none."""
    *_, flags, _, origin_length = head(stored)
    if not has_attributes(flags):
        return None
    return with_attributes(rest(stored, origin_length)[2])[0]


@functools.lru_cache(maxsize=4096)  # a client posts many times
def client_bytes(client: str) -> bytes:
    """Returns sixteen bytes for a client id: a UUID's own, or a digest of any other text."""
    try:
        return uuid.UUID(client).bytes
    except ValueError:
        return blake2b(client.encode(), digest_size=16).digest()
