# SPDX-License-Identifier: Apache-2.0
"""Deliveries in Redis: a stream of entries for each queue, and its pending deliveries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Argument, Call, RedisCommand, Script, Steps, verb
from zaqar_redis.records import Record
from zaqar_redis.storage.deliveries import (
    DeliveryCount,
    DeliveryEntry,
    DeliveryListener,
    DeliveryState,
    DeliveryStep,
    EnteredMessage,
    PendingDelivery,
    SettledDeliveries,
)
from zaqar_redis.storage.redis import decoding, identity, sweeper
from zaqar_redis.storage.redis.feed import PubSubChannels

_TAKE = Script("delivery_take")
_STEP = Script("delivery_step")
_RELEASE = Script("delivery_release")
_BACKLOG = Script("delivery_backlog")
_ENQUEUE = Script("delivery_enqueue")
_REPLAY = Script("delivery_replay")

#: Indexes read in one call: a fraction of a millisecond.
_INDEXES = 256
#: Queues read of an index at once.
_LIMIT = 100
#: Deliveries that were given up read in one step of a replay: a millisecond of Redis' time.
_REPLAY_STEP = 200
#: Bytes of an error that are stored.
_ERROR_MAX = 512


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
_WAITS, _FAILED, _REPLAYED = b"p", b"f", b"r"


class RedisDeliveries:
    def __init__(self, client: AsyncClient, now: Clock) -> None:
        self.client: Any = client
        self._now = now
        self._channels = PubSubChannels[bytes](client, bytes, b"")

    async def close(self) -> None:
        await self._channels.close()

    async def watch(self, listener: DeliveryListener) -> None:
        def on_message(name: bytes) -> None:
            if name:  # else some were missed: they are found in the index
                listener(*keys.queue_of(name))

        await self._channels.watch(keys.DELIVERIES, on_message)

    async def due(self) -> AsyncIterator[tuple[str, str]]:
        indexes = keys.delivery_indexes()
        for at in range(0, len(indexes), _INDEXES):
            page = indexes[at : at + _INDEXES]
            for name in await self.client.call(
                Call(sweeper.LIST, tuple(page), (self._now(), _LIMIT))
            ):
                yield keys.queue_of(name)

    @verb
    def take(self, project: str, queue: str, token: str, lease_ms: int) -> Steps[bool]:
        taken = yield _TAKE(
            keys.of_queue(project, queue), now=self._now(), token=token, lease=lease_ms
        )
        return bool(taken)

    @verb
    def step(
        self,
        project: str,
        queue: str,
        token: str,
        lease_ms: int,
        settled: SettledDeliveries,
        *,
        after: bytes,
        limit: int,
        due_limit: int,
    ) -> Steps[DeliveryStep | None]:
        answer = yield _STEP(
            keys.of_queue(project, queue),
            *_settling(settled),
            now=self._now(),
            token=token,
            lease=lease_ms,
            after=after,
            limit=limit,
            due_limit=due_limit,
        )
        if not answer:
            return None
        now, version, entries, due, *next_due = answer
        pairs = list(zip(due[::2], due[1::2], strict=True))
        return DeliveryStep(
            now=now,
            version=int(version or 0),
            entries=[_entry(*each) for each in zip(entries[::2], entries[1::2], strict=True)],
            due=[_pending(now, id, record) for id, record in pairs if record is not None],
            holds=[id.decode() for id, _ in pairs if b" " not in id],
            next_due=next_due[0] if next_due else None,
        )

    @verb
    def backlog(
        self, project: str, queue: str, subscription: str, after: str, limit: int
    ) -> Steps[Sequence[PendingDelivery]]:
        now, flat = yield _BACKLOG(
            keys.of_queue(project, queue),
            now=self._now(),
            id=subscription,
            after=after,
            limit=limit,
        )
        return [_pending(now, id, record) for id, record in zip(flat[::2], flat[1::2], strict=True)]

    @verb
    def release(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _RELEASE(keys.of_queue(project, queue), now=self._now(), token=token)

    @verb
    def send_notice(
        self, project: str, queue: str, subscription: str, notice: bytes, ttl: int
    ) -> Steps[bool]:
        now = yield from self._time()
        expires = now + ttl * 1000
        key = f"notice-{identity.new_claim()}"
        pending = PendingDelivery(subscription, key, expires, notice=notice, due=now)
        return (yield from self._enqueue(project, queue, subscription, pending))

    @verb
    def resume(self, project: str, queue: str, subscription: str) -> Steps[None]:
        yield from self._enqueue(project, queue, subscription, None)

    @verb
    def replay(self, project: str, queue: str, subscription: str) -> Steps[int]:
        cursor: bytes = b"0"
        total = 0
        while True:
            cursor, count = yield _REPLAY(
                keys.of_queue(project, queue),
                now=self._now(),
                id=subscription,
                cursor=cursor,
                limit=_REPLAY_STEP,
            )
            total += int(count)
            if cursor == b"0":
                return total

    @verb
    def states(
        self, project: str, queue: str, subscriptions: Sequence[str]
    ) -> Steps[Sequence[DeliveryState]]:
        of_queue = keys.of_queue(project, queue)
        answers = yield [
            command
            for id in subscriptions
            for command in (
                RedisCommand("HMGET", of_queue.delivery_states, *_state_fields(id)),
                RedisCommand("ZLEXCOUNT", of_queue.pending_ids, f"[{id} ", f"({id}!"),
            )
        ]
        return [_state(*each) for each in zip(answers[::2], answers[1::2], strict=True)]

    def _time(self) -> Steps[int]:
        now = self._now()
        if now:
            return now
        seconds, micros = yield RedisCommand("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def _enqueue(
        self, project: str, queue: str, subscription: str, pending: PendingDelivery | None
    ) -> Steps[bool]:
        known = yield _ENQUEUE(
            keys.of_queue(project, queue),
            now=self._now(),
            id=subscription,
            key=pending.key if pending else "",
            ends=pending.expires if pending else 0,
            record=_record(pending, _WAITS) if pending else b"",
        )
        return bool(known)


def _state_fields(subscription: str) -> list[str]:
    return [f"{subscription} {what}" for what in ("delivered", "failed", "retried", "last")]


def _state(fields: Sequence[bytes | None], pending: int) -> DeliveryState:
    *counts, last = fields
    delivered, failed, retried = (int(count or 0) for count in counts)
    at, status, error = (last or b"0 0 ").split(b" ", 2)
    return DeliveryState(delivered, failed, retried, pending, int(at), error.decode(), int(status))


def _settling(settled: SettledDeliveries) -> list[Argument]:
    """Returns the lists of `delivery_step`, each behind its length."""
    stored = [(each, _WAITS, "" if each.due is None else each.due) for each in settled.pending]
    stored += [(each, _FAILED, "failed") for each in settled.failed]
    counts, last = _count_fields(settled.counts)
    holds = [(id, "" if until is None else until) for id, until in settled.holds]
    return [
        *_list(settled.entries),
        *_list(settled.made),
        *_rows((each.id, due, each.expires, _record(each, kind)) for each, kind, due in stored),
        *_rows(holds),
        *_rows(counts),
        *_rows(last),
    ]


def _count_fields(
    counts: Iterable[tuple[str, DeliveryCount]],
) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    added: list[tuple[str, int]] = []
    last: list[tuple[str, str]] = []
    for id, count in counts:
        changes = (count.delivered, count.failed, count.retried)
        added += [(field, n) for field, n in zip(_state_fields(id), changes, strict=False) if n]
        if count.error:
            last.append((f"{id} last", f"{count.status} {count.error[:_ERROR_MAX]}"))
    return added, last


def _list(values: Sequence[Argument]) -> tuple[Argument, ...]:
    return (len(values), *values)


def _rows(rows: Iterable[tuple[Argument, ...]]) -> list[Argument]:
    found = list(rows)
    return [len(found), *(value for row in found for value in row)]


def _entry(id: bytes, posted: bytes) -> DeliveryEntry:
    epoch, messages = decoding.posted(posted)
    return DeliveryEntry(id, epoch, [EnteredMessage(*each) for each in messages])


def _record(pending: PendingDelivery, kind: bytes) -> bytes:
    stored = pending.stored
    return (_REPLAYED if pending.replayed and kind == _WAITS else kind) + _encode(
        _StoredDelivery(
            pending.attempts,
            pending.due,
            pending.status,
            pending.error[:_ERROR_MAX],
            pending.expires,
            pending.epoch,
            stored.message.rank if stored else 0,
            stored.envelope if stored else b"",
            pending.notice,
        )
    )


def _pending(now: int, id: bytes, record: bytes) -> PendingDelivery:
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
        replayed=record[:1] == _REPLAYED,
    )
