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
from zaqar_redis.storage.contract import ProgressCallback
from zaqar_redis.storage.redis.queues import RedisQueues

#: also used to list queues with deliveries that are due
LIST = Script("sweep_list")

#: Keys that Redis reads in one SCAN: a millisecond or so.
_SCAN = 1000
_PAGE = 100
#: Indexes read in one call: a fraction of a millisecond, or some when all queues are due.
_INDEXES = 256
#: Queues read of an index in a round: a million and a half in all of a store.
_LIMIT = 100
#: Queues swept in one write: a few milliseconds of Redis' time at most.
_CONCURRENT_QUEUES = 8
#: Items of each kind swept in one step: fewer mean that nothing is left.
_STEP = 100


class RedisSweeper:
    def __init__(self, client: AsyncClient, queues: RedisQueues, now: Clock) -> None:
        self._client = client
        self._queues = queues
        self._now = now

    async def sweep(self, turn: float, on_progress: ProgressCallback = str) -> int:
        if not turn:
            return await self._sweep_listed(on_progress) + await self._sweep_due(0, on_progress)
        if await self._client.command("SET", keys.SWEEPER, os.getpid(), "NX", "PX", _ms(turn)):
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
            found = await self._client.call(Call(LIST, tuple(page), (self._now(), _LIMIT, 0)))
            settled += await self._step(found, unfinished, on_progress)
            if found and turn:  # while there is work, no other process begins a round
                await self._client.command("SET", keys.SWEEPER, os.getpid(), "PX", _ms(turn))
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
                if step < _STEP:
                    on_progress(keys.queue_of(entry)[1])
                else:
                    unfinished.append(entry)
            settled += sum(steps)
            await asyncio.sleep(time.monotonic() - begun)
        return settled

    async def _sweep_step(self, entry: bytes) -> int:
        with contextlib.suppress(
            errors.MoveLocked
        ):  # it is being moved, and is swept in its new store
            return await self._queues.sweep(*keys.queue_of(entry))
        return 0

    async def _sweep_listed(self, on_progress: ProgressCallback) -> int:
        """Sweeps every queue, whether it is in the index or not."""
        settled = 0
        cursor = b"0"
        while True:
            cursor, found = await self._client.command(
                "SCAN", cursor, "MATCH", keys.LISTS, "COUNT", _SCAN
            )
            for listing in found:
                settled += await self._sweep_list(listing, on_progress)
            if cursor == b"0":
                return settled

    async def _sweep_list(self, listing: bytes, on_progress: ProgressCallback) -> int:
        project, topics = keys.project_of(listing), keys.lists_topics(listing)
        settled, after = 0, ""
        while True:
            page = await self._queues.list(project, after, _PAGE, None, topics=topics)
            for queue in page.items:
                with contextlib.suppress(errors.MoveLocked):  # being moved, swept in its new store
                    while step := await self._queues.sweep(project, queue.name):
                        settled += step
                on_progress(queue.name)
            if len(page.items) < _PAGE:
                return settled
            after = page.marker


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
