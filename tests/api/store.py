# SPDX-License-Identifier: Apache-2.0
"""The store without HTTP, with a clock that the test controls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection

from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.records import ClaimResult, Message, NewMessage, Stats
from zaqar_redis.storage.redis import RedisDriver

T = TypeVar("T")
Bodies = list[str]
_YEAR = 365 * 86400 * 1000


class RoundTripCounter:
    """A client that counts round trips: calls issued together are one."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.name = client.name
        self._turn: object = None
        self.trips = 0

    async def start(self) -> None:
        await self._client.start()

    async def close(self) -> None:
        await self._client.close()

    async def call(self, call: RedisCommand) -> Any:
        if self._turn is None:
            self.trips += 1
            self._turn = asyncio.get_running_loop().call_soon(self._next)
        return await self._client.call(call)

    async def command(self, *parts: bytes | str | int) -> Any:
        return await self._client.command(*parts)

    async def identity(self) -> str:
        return await self._client.identity()

    def connection(self) -> AbstractConnection:
        return self._client.connection()

    def _next(self) -> None:
        self._turn = None


class ProjectStore:
    """One project of a store, and its clock."""

    def __init__(self, client: AsyncClient, project: str, runner: asyncio.Runner) -> None:
        # Years ahead of Redis' own clock, by which services on the same Redis sweep.
        self.now = int(time.time() * 1000) + 10 * _YEAR
        self.project = project
        self.client = RoundTripCounter(client)
        self.driver = RedisDriver(self.client, now=lambda: self.now)
        self._runner = runner

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    def do(self, operation: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await operation

        return self._runner.run(awaited())

    def trips(self, operation: Awaitable[Any]) -> int:
        """Returns how many round trips the operation takes."""
        before = self.client.trips
        self.do(operation)
        return self.client.trips - before

    def create(self, queue: str, /, **metadata: Any) -> None:
        self.do(self.driver.queues.create(self.project, queue, metadata))

    def post(
        self, queue: str, *bodies: str, ttl: int | None = None, delay: int | None = None
    ) -> Sequence[str]:
        messages = [NewMessage(body=f'"{body}"'.encode(), ttl=ttl, delay=delay) for body in bodies]
        operation = self.driver.messages.post(
            self.project, queue, messages, client="tester", default_ttl=3600, size=1
        )
        return self.do(operation).ids

    def claim(self, queue: str, ttl: int = 60, grace: int = 60, limit: int = 10) -> ClaimResult:
        claims = self.driver.claims
        return self.do(claims.create(self.project, queue, ttl=ttl, grace=grace, limit=limit))

    def held(self, queue: str, ttl: int = 60, grace: int = 60, limit: int = 10) -> str:
        """Returns the id of a new claim."""
        taken = self.claim(queue, ttl, grace, limit)
        assert taken.claim_id
        return taken.claim_id

    def renew(self, queue: str, claim: str, ttl: int = 60, grace: int = 60) -> bool:
        return self.do(self.driver.claims.update(self.project, queue, claim, ttl=ttl, grace=grace))

    def release(self, queue: str, claim: str) -> None:
        self.do(self.driver.claims.delete(self.project, queue, claim))

    def pop(self, queue: str, limit: int = 10) -> Bodies:
        return bodies(self.do(self.driver.messages.pop(self.project, queue, limit)).messages)

    def get(self, queue: str, *ids: str) -> Sequence[Message]:
        return self.do(self.driver.messages.get(self.project, queue, ids))

    def page(
        self, queue: str, *, claimed: bool = False, delayed: bool = False, limit: int = 10
    ) -> Awaitable[Any]:
        return self.driver.messages.list(
            self.project,
            queue,
            after=None,
            limit=limit,
            hide_client=None,
            include_claimed=claimed,
            include_delayed=delayed,
        )

    def list(self, queue: str, *, claimed: bool = False, delayed: bool = False) -> Bodies:
        return bodies(self.do(self.page(queue, claimed=claimed, delayed=delayed)).items)

    def stats(self, queue: str) -> Stats:
        return self.do(self.driver.queues.stats(self.project, queue))

    def counts(self, queue: str) -> tuple[int, int, int]:
        """Returns the counts of free, claimed and all messages."""
        found = self.stats(queue)
        return found.free, found.claimed, found.total


def bodies(messages: Sequence[Message]) -> Bodies:
    return [message.body.decode().strip('"') for message in messages]
