# SPDX-License-Identifier: Apache-2.0
"""Tidies queues that nobody uses: the verbs tidy only what they touch."""

from __future__ import annotations

import contextlib
import os

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.storage.driver import Told
from zaqar_redis.storage.drivers.redis.queues import Queues

#: Keys that Redis looks at in one SCAN: a millisecond or so.
_SCAN = 1000
_PAGE = 100


class Sweeper:
    def __init__(self, client: AsyncClient, queues: Queues) -> None:
        self._client = client
        self._queues = queues

    async def sweep(self, turn: float, told: Told = str) -> int:
        if turn and not await self._client.command(
            "SET", keys.SWEEPER, os.getpid(), "NX", "PX", int(turn * 1000)
        ):
            return 0
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
