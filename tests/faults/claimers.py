# SPDX-License-Identifier: Apache-2.0
"""One process of claimers that record which messages they held, and when.

Every line of its file is a JSON list. Times are milliseconds by the clock of
Redis. A hold begins and ends with the lease of the claim; a release or a deletion
ends it at the time of its request, at the earliest.

    ["grant", claim, start, end, [message, ...]]
    ["renew", claim, end]
    ["release", claim, asked]
    ["try", claim, message]               before a deletion
    ["delete", claim, message, asked, answered]

Lines are written at once, so that they outlive a process that is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys

from tests.support.stores import PATIENT
from zaqar_redis import errors
from zaqar_redis.keyspace import client, keys
from zaqar_redis.records import Lease
from zaqar_redis.storage.redis import RedisDriver

QUEUE = "contended"
#: A key whose existence ends all processes.
OVER = "over"
#: Seconds; the shortest there is, so that many claims expire.
TTL = 1


class Claimer:
    """One claimer of many in this process."""

    def __init__(self, process: ClaimerProcess) -> None:
        self._driver = process.driver
        self._process = process
        self._project = process.project

    async def run(self) -> None:
        while not self._process.is_over():
            taken = await self._driver.claims.create(
                self._project, QUEUE, Lease(TTL, 60), limit=random.randint(1, 5)
            )
            if taken.claim_id is None:
                await asyncio.sleep(random.uniform(0.05, 0.2))
                continue
            messages = [message.id for message in taken.messages]
            await self._hold(taken.claim_id, messages)
            await asyncio.sleep(random.uniform(0, 0.1))

    async def _hold(self, claim: str, messages: list[str]) -> None:
        end = await self._process.lease(claim)
        if end is None:
            return  # it expired before it could be read
        self._process.note("grant", claim, end - TTL * 1000, end, messages)
        await asyncio.sleep(random.uniform(0, 0.3))
        while random.random() < 0.3:
            await self._renew(claim)
            await asyncio.sleep(random.uniform(0, 0.3))
        fate = random.random()
        if fate < 0.2:
            # Some of these are too late, and must be refused.
            await asyncio.sleep(random.choice([0, 0, 0, 0.7, 1.1]))
            for message in messages:
                await self._delete(claim, message)
        elif fate < 0.6:
            # Before the deletion: a process that is killed right after it could not record it.
            self._process.note("release", claim, await self._process.now())
            await self._driver.claims.delete(self._project, QUEUE, claim)
        else:
            await asyncio.sleep(TTL)

    async def _renew(self, claim: str) -> None:
        lease = Lease(TTL, 60)
        if await self._driver.claims.update(self._project, QUEUE, claim, lease) is not None:
            end = await self._process.lease(claim)
            if end is not None:
                self._process.note("renew", claim, end)

    async def _delete(self, claim: str, message: str) -> None:
        self._process.note("try", claim, message)
        asked = await self._process.now()
        try:
            await self._driver.messages.delete(
                self._project, QUEUE, [message], claims=[claim], force=False
            )
        except (errors.BadRequest, errors.Forbidden):
            return
        self._process.note("delete", claim, message, asked, await self._process.now())


class ClaimerProcess:
    """A process of claimers, with its connection and its file."""

    def __init__(self, uri: str, project: str, file: str) -> None:
        self._client = client.client(uri, PATIENT)
        self.driver = RedisDriver(self._client)
        self.project = project
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._over = False

    def is_over(self) -> bool:
        return self._over

    def note(self, *what: object) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")

    async def now(self) -> int:
        seconds, micros = await self._client.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def lease(self, claim: str) -> int | None:
        """Returns when the lease ends, as recorded in the store."""
        leases = keys.of_queue(self.project, QUEUE).leases
        score = await self._client.command("ZSCORE", leases, claim)
        return None if score is None else int(score)

    async def run(self, claimers: int) -> None:
        await self.driver.start()
        work = [asyncio.create_task(Claimer(self).run()) for _ in range(claimers)]
        while not self._over:
            await asyncio.sleep(0.1)
            self._over = bool(await self._client.command("EXISTS", OVER))
        await asyncio.gather(*work)
        await self.driver.close()


if __name__ == "__main__":
    uri, project, file, claimers = sys.argv[1:]
    asyncio.run(ClaimerProcess(uri, project, file).run(int(claimers)))
