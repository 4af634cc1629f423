# SPDX-License-Identifier: Apache-2.0
"""Decoding of the scripts' answers into records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Message, MessageCounters
from zaqar_redis.storage.redis import identity

#: How many counters a queue has stored, in the order of `counters`.
COUNTERS = 8
_BLANK = ord(" ")


def counters(total: int, stored: Sequence[bytes | None]) -> MessageCounters:
    """Returns the counters of a queue with *total* messages; None: nothing was counted yet."""
    posted, claimed, released, *gone, refused = (int(n or 0) for n in stored)
    expired, purged, dead_lettered, dropped = gone
    return MessageCounters(
        posted=posted,
        claimed=claimed,
        released=released,
        # Not counted: all that are gone and went no other way.
        deleted=max(0, posted - total - sum(gone)),
        expired=expired,
        purged=purged,
        dead_lettered=dead_lettered,
        dropped=dropped,
        refused=refused,
    )


def messages(now: int, epoch: bytes, flat: Sequence[Any]) -> list[Message]:
    """Returns messages from rank, envelope, hold, rank, envelope, hold, …

    A hold is as lua/shared/hold.lua has it, with a blank in the place of a claim that has ended.
    """
    prefix = identity.prefix(epoch.decode())
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [message(now, prefix, int(rank), stored, hold) for rank, stored, hold in triples]


def posted(payload: bytes) -> tuple[str, list[tuple[Message, bytes]]]:
    """Decodes what shared/append.lua publishes: the epoch, and each message with its envelope."""
    epoch_part, _, rest = payload.partition(b":")
    first, _, packed = rest.partition(b":")
    epoch = epoch_part.decode()
    prefix = identity.prefix(epoch)
    return epoch, [
        # The message is just posted: its age is 0.
        (message(envelope.head(stored)[0], prefix, rank, stored, None), stored)
        for rank, stored in enumerate(envelope.split(packed), int(first))
    ]


def message(now: int, prefix: str, rank: int, stored: bytes, hold: bytes | None) -> Message:
    created, expires, ttl, delay, flags, client, origin_length = envelope.head(stored)
    origin, checksum, body = envelope.rest(stored, origin_length)
    claim, count, past = None, 0, b""
    if hold:
        if hold[0] == _BLANK:
            number, _, past = hold[1:].partition(b" ")
        else:
            claim = hold[:32].decode()
            number, _, past = hold[32:].partition(b" ")
        count = int(number)
    attributes = None
    if flags and envelope.has_attributes(flags):
        attributes, body = envelope.with_attributes(body)
    # Positional arguments: keywords take half as long again.
    return Message(
        identity.message_id(prefix, rank),
        rank,
        (now - created) // 1000 if now > created else 0,  # `clock.age`, without the call
        ttl,
        body,
        created,
        expires,
        claim,
        count,
        delay,
        client,
        checksum,
        origin,
        envelope.is_encrypted(flags),
        attributes,
        envelope.hops(flags),
        past,
    )
