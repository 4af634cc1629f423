# SPDX-License-Identifier: Apache-2.0
"""A queue in a store that may fail: what is posted and acknowledged, and what is there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec.structs import replace

from tests.support.stores import CLIENT, TTL
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import MessageListing, NewMessage
from zaqar_redis.storage.redis import RedisDriver

PROJECT, QUEUE = "p", "q"
#: Of a post; its messages are numbers.
POST: dict[str, Any] = {"client": CLIENT, "default_ttl": TTL, "size": 0}
#: Of a listing.
_ALL = MessageListing(100, include_claimed=True, include_delayed=True)


def message(number: int) -> list[NewMessage]:
    return [NewMessage(body=json.dumps(number).encode(), ttl=None, delay=None)]


class NumberedQueue:
    """A queue of numbers, in the order in which they are posted."""

    def __init__(self, driver: RedisDriver, name: str) -> None:
        self._driver = driver
        self._name = name
        self._next = 0
        self.acknowledged: list[int] = []

    def beside(self, name: str) -> NumberedQueue:
        """Returns another queue, by the same client."""
        return NumberedQueue(self._driver, name)

    async def post(self) -> bool:
        """Posts the next number; returns whether it was acknowledged."""
        number = self._next
        self._next += 1
        try:
            await self._driver.messages.post(PROJECT, self._name, message(number), **POST)
        except errors.Unavailable:
            return False
        self.acknowledged.append(number)
        return True

    async def watch(self, hint: Callable[[int], None]) -> None:
        """*hint* gets the number of messages that were posted; 0: some may have been missed."""
        await self._driver.feed.watch(PROJECT, self._name, hint)

    async def page(self, *, stale: bool) -> list[int]:
        """Returns the first numbers."""
        page = await self._driver.messages.list(PROJECT, self._name, replace(_ALL, stale=stale))
        return [json.loads(each.body) for each in page.items]

    async def found(self) -> list[int]:
        """Returns all numbers that are there."""
        found: list[int] = []
        after = None
        while True:
            page = await self._driver.messages.list(PROJECT, self._name, replace(_ALL, after=after))
            if not page.items:
                return found
            found += [json.loads(each.body) for each in page.items]
            after = page.items[-1].id


@contextlib.asynccontextmanager
async def numbered_queue(
    uri: str, name: str = QUEUE, now: clock.Clock = clock.store, **settings: Any
) -> AsyncIterator[NumberedQueue]:
    driver = RedisDriver(keyspace.client(uri, BatchSettings(**settings)), now)
    await driver.start()
    try:
        yield NumberedQueue(driver, name)
    finally:
        await driver.close()
