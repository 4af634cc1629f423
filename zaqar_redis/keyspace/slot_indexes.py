# SPDX-License-Identifier: Apache-2.0
"""Indexes of queues by a time, one for each slot of a Redis Cluster.

So the scripts of a queue may write to that of its slot.  Its tag is the smallest number that is
in this slot.
"""

from __future__ import annotations

import functools
import itertools
from binascii import crc_hqx

from redis.crc import key_slot

#: Slots of a Redis Cluster.
_SLOTS = 16384

_SWEEPS = b"zr:due:"
_DELIVERIES = b"zr:deliveries:"
#: How the keys of all indexes begin.
PREFIXES = (_SWEEPS, _DELIVERIES)


def slot_of(tag: bytes) -> int:
    """Returns the Redis Cluster slot of a hash tag: by CRC-16, XMODEM's."""
    return crc_hqx(tag, 0) % _SLOTS


def slot_of_key(key: bytes | str | int) -> int:
    """Returns the Redis Cluster slot of a key."""
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def of_sweeps() -> tuple[bytes, ...]:
    """Returns the sweep index of each slot: a zset of its queues by their next sweep."""
    return _indexes(_SWEEPS)


def of_deliveries() -> tuple[bytes, ...]:
    """Returns the delivery index of each slot: a zset of its queues by their next delivery."""
    return _indexes(_DELIVERIES)


@functools.cache
def _indexes(prefix: bytes) -> tuple[bytes, ...]:
    return tuple(prefix + b"{%b}" % tag for tag in _tags())


@functools.cache  # to compute it takes as long as to import a large module
def _tags() -> tuple[bytes, ...]:
    """Returns the tag of each slot."""
    found: dict[int, bytes] = {}
    for number in itertools.count():
        tag = b"%d" % number
        found.setdefault(slot_of(tag), tag)
        if len(found) == _SLOTS:
            return tuple(found[slot] for slot in range(_SLOTS))
    raise AssertionError("numbers do not end")
