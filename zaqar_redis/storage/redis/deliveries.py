# SPDX-License-Identifier: Apache-2.0
"""Deliveries in Redis: a stream of entries for each queue, and its pending deliveries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys, slot_indexes
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.deliveries import (
    DeliveryCount,
    DeliveryEntry,
    DeliveryLease,
    DeliveryListener,
    DeliveryReads,
    DeliveryStep,
    EnteredMessage,
    PendingDelivery,
    SettledDeliveries,
)
from zaqar_redis.storage.redis import decoding, sweeper
from zaqar_redis.storage.redis.feed import PubSubChannels
from zaqar_redis.storage.redis.pending_records import (
    ERROR_MAX,
    FAILED,
    WAITS,
    decoded,
    encoded,
    state_fields,
)
from zaqar_redis.storage.redis.resource import RedisResource

_TAKE = Script("delivery_take")
_STEP = Script("delivery_step")
_RELEASE = Script("delivery_release")
_BACKLOG = Script("delivery_backlog")
_MADE = Script("delivery_made")
_WAITING = Script("delivery_waiting")

#: Indexes read in one call: half a millisecond.
_INDEXES = 2048
#: Queues read of an index at once.
_LIMIT = 100


class RedisDeliveries(RedisResource):
    def __init__(self, client: AsyncClient, now: Clock) -> None:
        super().__init__(client, now)
        self._channels = PubSubChannels[bytes](client, bytes, b"")

    async def close(self) -> None:
        await self._channels.close()

    async def watch(self, listener: DeliveryListener) -> None:
        def on_message(name: bytes) -> None:
            if name:  # else some were missed: they are found in the index
                listener(*keys.queue_of(name))

        await self._channels.watch(keys.DELIVERIES, on_message)

    async def due(self, late_ms: int = 0, *, turn: float = 0) -> AsyncIterator[tuple[str, str]]:
        if turn and not await self.client.call(sweeper.take_turn(keys.NOTIFIER, turn)):
            return
        indexes = slot_indexes.of_deliveries()
        for at in range(0, len(indexes), _INDEXES):
            page = indexes[at : at + _INDEXES]
            for name in await sweeper.listed(self.client, page, self._now(), _LIMIT, late_ms):
                yield keys.queue_of(name)

    @verb
    def take(self, project: str, queue: str, lease: DeliveryLease) -> Steps[bool]:
        taken = yield _TAKE(
            keys.of_queue(project, queue), now=self._now(), token=lease.token, lease=lease.ms
        )
        return bool(taken)

    @verb
    def step(
        self,
        project: str,
        queue: str,
        lease: DeliveryLease,
        settled: SettledDeliveries,
        reads: DeliveryReads,
    ) -> Steps[DeliveryStep | None]:
        answer = yield _STEP(
            keys.of_queue(project, queue),
            *_settling(settled),
            now=self._now(),
            token=lease.token,
            lease=lease.ms,
            after=reads.after,
            limit=reads.limit,
            due_limit=reads.due_limit,
        )
        if not answer:
            return None
        now, version, entries, due, *next_due = answer
        pairs = list(zip(due[::2], due[1::2], strict=True))
        return DeliveryStep(
            now=now,
            version=int(version or 0),
            entries=[_entry(*each) for each in zip(entries[::2], entries[1::2], strict=True)],
            due=[decoded(now, id, record) for id, record in pairs if record is not None],
            holds=[id.decode() for id, _ in pairs if b" " not in id],
            next_due=next_due[0] if next_due else None,
        )

    @verb
    def waiting(self, project: str, queue: str, after: str, limit: int) -> Steps[Sequence[str]]:
        ids = yield _WAITING(
            keys.of_queue(project, queue), now=self._now(), after=after, limit=limit
        )
        return [id.decode() for id in ids]

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
        return [decoded(now, id, record) for id, record in zip(flat[::2], flat[1::2], strict=True)]

    @verb
    def made(self, project: str, queue: str, ids: Sequence[str]) -> Steps[int]:
        count = yield _MADE(keys.of_queue(project, queue), *ids, now=self._now())
        return int(count)

    @verb
    def release(self, project: str, queue: str, lease: DeliveryLease) -> Steps[None]:
        yield _RELEASE(keys.of_queue(project, queue), now=self._now(), token=lease.token)


def _settling(settled: SettledDeliveries) -> list[Argument]:
    """Returns the lists of `delivery_step`, each behind its length."""
    stored = [(each, WAITS, "" if each.due is None else each.due) for each in settled.pending]
    stored += [(each, FAILED, "failed") for each in settled.failed]
    counts, last = _count_fields(settled.counts)
    holds = [(id, "" if until is None else until) for id, until in settled.holds]
    return [
        *_list(settled.entries),
        *_rows((each.id, due, each.expires, encoded(each, kind)) for each, kind, due in stored),
        *_list(settled.made),
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
        added += [(field, n) for field, n in zip(state_fields(id), changes, strict=False) if n]
        if not (count.error or any(changes)):  # a notice: it ends a run of failures, too
            added.append((f"{id} delivered", 0))
        if count.error:
            last.append((f"{id} last", f"{count.status} {count.error[:ERROR_MAX]}"))
    return added, last


def _list(values: Sequence[Argument]) -> tuple[Argument, ...]:
    return (len(values), *values)


def _rows(rows: Iterable[tuple[Argument, ...]]) -> list[Argument]:
    found = list(rows)
    return [len(found), *(value for row in found for value in row)]


def _entry(id: bytes, posted: bytes) -> DeliveryEntry:
    epoch, messages = decoding.posted(posted)
    return DeliveryEntry(id, epoch, [EnteredMessage(*each) for each in messages], len(posted))
