# SPDX-License-Identifier: Apache-2.0
"""The sweeper: cleans up queues that nobody uses; verbs clean up only what they touch.

The sweep index of its slot has each queue with the time when it is to be swept next.
The scripts that add something with an end note the time in the same step, and the one that
sweeps a queue notes the next time, so the index is never later than the truth, whatever
process dies whenever.  It may be too early, after deletions: then a queue is swept in vain.

A round reads nothing but the index: a process that dies in its round leaves in it what it
had not done, for the next round.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys, slot_indexes
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Call, Script
from zaqar_redis.storage.contract import ProgressCallback, no_progress
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.scanning import lists

_LIST = Script("sweep_list")
_TAKE_TURN = Script("turn_take")

_PAGE = 100
#: Indexes read in one call: a fraction of a millisecond, or some when all queues are due.
_INDEXES = 256
#: Queues read of an index in a round: a million and a half in all of a store.
_LIMIT = 100
#: Queues swept in one write: a millisecond or two of Redis' time, which posts wait for.
_CONCURRENT_QUEUES = 4
#: Items of each kind swept in one step: fewer mean that nothing is left.
_STEP = 100


class RedisSweeper:
    def __init__(
        self, client: AsyncClient, queues: RedisQueues, messages: RedisMessages, now: Clock
    ) -> None:
        self._client = client
        self._queues = queues
        self._messages = messages
        self._now = now

    async def sweep(self, turn: float, on_progress: ProgressCallback = no_progress) -> int:
        if not turn:
            return await self._sweep_listed(on_progress) + await self._sweep_due(0, on_progress)
        if await self._client.call(take_turn(keys.SWEEPER, turn)):
            return await self._sweep_due(turn, on_progress)
        return 0

    async def _sweep_due(self, turn: float, on_progress: ProgressCallback) -> int:
        """Sweeps each due queue one step, then the rest, for *turn* seconds at most.

        What is left then is still due in the next round.
        """
        end = time.monotonic() + turn
        settled, unfinished = 0, deque[bytes]()
        indexes = slot_indexes.of_sweeps()
        for at in range(0, len(indexes), _INDEXES):
            page = indexes[at : at + _INDEXES]
            found = await listed(self._client, page, self._now(), _LIMIT, 0)
            settled += await self._step(found, unfinished, on_progress)
            if found and turn:  # while there is work, no other process begins a round
                await self._client.call(take_turn(keys.SWEEPER, turn, goes_on=True))
        while unfinished and (not turn or time.monotonic() < end):
            found = [unfinished.popleft() for _ in range(min(_CONCURRENT_QUEUES, len(unfinished)))]
            settled += await self._step(found, unfinished, on_progress)
        return settled

    async def _step(
        self, found: Sequence[bytes], unfinished: deque[bytes], on_progress: ProgressCallback
    ) -> int:
        """Sweeps each a step; then sleeps as long: half of Redis' time is left to requests."""
        settled = 0
        for at in range(0, len(found), _CONCURRENT_QUEUES):
            entries = found[at : at + _CONCURRENT_QUEUES]
            begun = time.monotonic()
            steps = await asyncio.gather(*map(self._sweep_step, entries))
            for entry, step in zip(entries, steps, strict=True):
                _, queue = keys.queue_of(entry)
                if step:
                    on_progress(queue, step)
                if step < _STEP:
                    on_progress(queue, 0)
                else:
                    unfinished.append(entry)
            settled += sum(steps)
            await asyncio.sleep(time.monotonic() - begun)
        return settled

    async def _sweep_step(self, entry: bytes) -> int:
        with contextlib.suppress(errors.MoveLocked):  # being moved, swept in its new store
            project, queue = keys.queue_of(entry)
            return await self._queues.sweep(project, queue, self._messages.move_exhausted)
        return 0

    async def _sweep_listed(self, on_progress: ProgressCallback) -> int:
        """Sweeps every queue, whether it is in the index or not."""
        settled = 0
        async for project, topics in lists(self._client):
            settled += await self._sweep_list(project, topics, on_progress)
        return settled

    async def _sweep_list(self, project: str, topics: bool, on_progress: ProgressCallback) -> int:
        settled, after = 0, ""
        while True:
            page = await self._queues.list(project, after, _PAGE, None, topics=topics)
            for queue in page.items:
                with contextlib.suppress(errors.MoveLocked):  # being moved, swept in its new store
                    while step := await self._queues.sweep(
                        project, queue.name, self._messages.move_exhausted
                    ):
                        settled += step
                        on_progress(queue.name, step)
                on_progress(queue.name, 0)
            if len(page.items) < _PAGE:
                return settled
            after = page.marker


def take_turn(work: bytes, seconds: float, *, goes_on: bool = False) -> Call:
    """Returns the call that takes the turn at some work for a time; it answers 1 or 0."""
    period = max(1, round(1000 * seconds))
    return _TAKE_TURN((work,), process=os.getpid(), period=period, goes_on=int(goes_on))


async def listed(
    client: AsyncClient, indexes: Sequence[bytes], now: int, limit: int, late_ms: int
) -> list[bytes]:
    """Returns the queues that are due in indexes, of sweeps or of deliveries.

    *limit*: of each index; *late_ms*: for how long they have been due.
    """
    parts = client.by_node(indexes)
    # One call may not test keys of several slots of a cluster at once.
    args = (now, limit, late_ms, int(parts[0][0] is client))
    calls = (node.call(Call(_LIST, (), (*args, *names))) for node, names in parts)
    return [queue for found in await asyncio.gather(*calls) for queue in found]
