# SPDX-License-Identifier: Apache-2.0
"""Tidies queues that nobody uses: the verbs tidy only what they touch.

A queue is noted in the index of its slot with the time when something of it is due next.
The scripts that make something due note it in the same step, and the one that tidies a
queue notes what is next, so the index never says later than what is true, whoever dies,
and whenever.  Too early it may be, by what was deleted: then a queue is looked at in vain.

The index is all that a turn goes by: a process that died in its turn leaves what it had
not done in it, for the next one.
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
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Call, Script
from zaqar_redis.storage.driver import Told
from zaqar_redis.storage.drivers.redis.queues import Queues

_LIST = Script("due_list")

#: Keys that Redis looks at in one SCAN: a millisecond or so.
_SCAN = 1000
_PAGE = 100
#: Indexes read in one call: a fraction of a millisecond, or some when all is due.
_INDEXES = 256
#: Queues read of an index in a turn: those of a million and a half in a store.
_LIMIT = 100
#: Queues tidied in one write: a few milliseconds of Redis' time at most.
_TOGETHER = 8
#: What tidying does in one step of each kind: less than that, and nothing is left.
_STEP = 100


class Sweeper:
    def __init__(self, client: AsyncClient, queues: Queues, now: Clock) -> None:
        self._client = client
        self._queues = queues
        self._now = now

    async def sweep(self, turn: float, told: Told = str) -> int:
        if not turn:
            return await self._sweep_listed(told) + await self._sweep_due(0, told)
        if await self._client.command("SET", keys.SWEEPER, os.getpid(), "NX", "PX", _ms(turn)):
            return await self._sweep_due(turn, told)
        return 0

    async def _sweep_due(self, turn: float, told: Told) -> int:
        """One step for each queue that has something due, then the rest, for a turn at most.

        What is left then is still due in the next.
        """
        end = time.monotonic() + turn
        settled, unfinished = 0, deque[bytes]()
        indexes = keys.due_indexes()
        for at in range(0, len(indexes), _INDEXES):
            page = indexes[at : at + _INDEXES]
            found = await self._client.call(Call(_LIST, (len(page), *page, self._now(), _LIMIT)))
            settled += await self._step(found, unfinished, told)
            if found and turn:  # while there is something to do, it is nobody else's turn
                await self._client.command("SET", keys.SWEEPER, os.getpid(), "PX", _ms(turn))
        while unfinished and (not turn or time.monotonic() < end):
            found = [unfinished.popleft() for _ in range(min(_TOGETHER, len(unfinished)))]
            settled += await self._step(found, unfinished, told)
        return settled

    async def _step(self, found: Sequence[bytes], unfinished: deque[bytes], told: Told) -> int:
        """Tidy each a step; sleep as long as it took: Redis is the requests' for half the time."""
        settled = 0
        for at in range(0, len(found), _TOGETHER):
            entries = found[at : at + _TOGETHER]
            begun = time.monotonic()
            steps = await asyncio.gather(*map(self._tidied, entries))
            for entry, step in zip(entries, steps, strict=True):
                if step < _STEP:
                    told(keys.queue_of(entry)[1])
                else:
                    unfinished.append(entry)
            settled += sum(steps)
            await asyncio.sleep(time.monotonic() - begun)
        return settled

    async def _tidied(self, entry: bytes) -> int:
        with contextlib.suppress(errors.Gated):  # it moves, and is tidied when it is there
            return await self._queues.sweep(*keys.queue_of(entry))
        return 0

    async def _sweep_listed(self, told: Told) -> int:
        """Every queue there is, whether the index knows of it or not."""
        settled = 0
        cursor = b"0"
        while True:
            cursor, found = await self._client.command(
                "SCAN", cursor, "MATCH", keys.LISTS, "COUNT", _SCAN
            )
            for listing in found:
                settled += await self._sweep_project(keys.project_of(listing), told)
            if cursor == b"0":
                return settled

    async def _sweep_project(self, project: str, told: Told) -> int:
        settled, after = 0, ""
        while True:
            page = await self._queues.list(project, after, _PAGE, None)
            for queue in page.items:
                with contextlib.suppress(errors.Gated):  # it moves, and is swept over there
                    while step := await self._queues.sweep(project, queue.name):
                        settled += step
                told(queue.name)
            if len(page.items) < _PAGE:
                return settled
            after = page.marker


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
