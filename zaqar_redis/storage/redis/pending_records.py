# SPDX-License-Identifier: Apache-2.0
"""Pending deliveries as they are stored."""

from __future__ import annotations

import msgspec

from zaqar_redis.records import Record
from zaqar_redis.storage.deliveries import EnteredMessage, PendingDelivery
from zaqar_redis.storage.redis import decoding, identity

#: Bytes of an error that are stored.
ERROR_MAX = 512


class _StoredDelivery(Record, frozen=True, array_like=True):
    attempts: int
    due: int | None
    status: int
    error: str
    expires: int
    epoch: str
    rank: int
    envelope: bytes
    notice: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StoredDelivery).decode
#: The first byte of a record says what it is, to scripts too.
WAITS, FAILED, REPLAYED = b"p", b"f", b"r"


def encoded(pending: PendingDelivery, kind: bytes) -> bytes:
    stored = pending.stored
    return (REPLAYED if pending.replayed and kind == WAITS else kind) + _encode(
        _StoredDelivery(
            pending.attempts,
            pending.due,
            pending.status,
            pending.error[:ERROR_MAX],
            pending.expires,
            pending.epoch,
            stored.message.rank if stored else 0,
            stored.envelope if stored else b"",
            pending.notice,
        )
    )


def decoded(now: int, id: bytes, record: bytes) -> PendingDelivery:
    subscription, _, key = id.decode().partition(" ")
    read = _decode(record[1:])
    stored = None
    if read.envelope:
        prefix = identity.prefix(read.epoch)
        message = decoding.message(now, prefix, read.rank, read.envelope, None)
        stored = EnteredMessage(message, read.envelope)
    return PendingDelivery(
        subscription=subscription,
        key=key,
        expires=read.expires,
        epoch=read.epoch,
        stored=stored,
        notice=read.notice,
        attempts=read.attempts,
        due=read.due,
        status=read.status,
        error=read.error,
        replayed=record[:1] == REPLAYED,
    )


#: The first three are counts.
_STATE_FIELDS = ("delivered", "failed", "retried", "last", "failing")


def state_fields(subscription: str) -> list[str]:
    return [f"{subscription} {what}" for what in _STATE_FIELDS]
