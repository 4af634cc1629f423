# SPDX-License-Identifier: Apache-2.0
"""A store that benchmarks of notifications fill, and a notifier in their process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from tests.support import servers
from zaqar_redis import rules
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.notify.notifier import Notifier, NotifierSettings
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.notify.targets import Targets
from zaqar_redis.records import NewMessage
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.redis import RedisDriver

T = TypeVar("T")

PROJECT = "notified"
TTL = 3600
#: 256 bytes of JSON.
BODY = b'"' + b"x" * 254 + b'"'
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_MESSAGE = NewMessage(body=BODY, ttl=TTL)
#: Calls at a time, as a notifier makes them.
_TOGETHER = 32


class NotifiedStore:
    """A driver over a Redis, and a notifier of this process."""

    def __init__(
        self, stack: contextlib.ExitStack, server: servers.RedisServer, project: str = PROJECT
    ) -> None:
        """It is closed with the stack."""
        self._runner = stack.enter_context(asyncio.Runner())
        self._project = project
        self.client = keyspace.client(server.uri, BatchSettings(timeout=60))
        self.driver = RedisDriver(self.client)
        self.run(self.driver.start())
        stack.callback(lambda: self.run(self.driver.close()))

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

    async def create(self, queue: str) -> None:
        await self.driver.queues.create(self._project, queue, {})

    async def subscribe(
        self, queue: str, subscribers: Sequence[str], options: dict[str, Any] | None = None
    ) -> None:
        await self.create(queue)
        await self.each(
            [
                self.driver.subscriptions.create(
                    self._project, queue, each, ttl=TTL, options=options or {}, delivers=True
                )
                for each in subscribers
            ]
        )

    async def post(self, queue: str, number: int = 1) -> None:
        await self.driver.messages.post(
            self._project, queue, [_MESSAGE] * number, client=_CLIENT, default_ttl=TTL, size=0
        )

    async def each(self, calls: Sequence[Awaitable[object]]) -> None:
        for at in range(0, len(calls), _TOGETHER):
            await asyncio.gather(*calls[at : at + _TOGETHER])

    def notifier(self) -> Notifier:
        messages = MessageService(self.driver, rules.Limits(), None, LongPoll(self.driver.feed, 1))
        targets = Targets(TargetContext(messages, self.driver.messages.dead_letter))
        return Notifier(self.driver, messages, targets, NotifierSettings())

    async def delivered(self, queue: str) -> None:
        """Waits until all that was posted to the queue is delivered."""
        of = keys.of_queue(self._project, queue)
        for command, key in (("XLEN", of.deliveries), ("HLEN", of.pending)):
            while await self.client.command(command, key):  # noqa: ASYNC110  # a key of Redis
                await asyncio.sleep(0.005)

    async def delete(self, *queues: str) -> None:
        await self.each([self.driver.queues.delete(self._project, queue) for queue in queues])
