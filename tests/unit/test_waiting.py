# SPDX-License-Identifier: Apache-2.0
"""What wakes those who wait: the slow poll, which would in the end, never comes here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests import servers
from zaqar_redis.records import Draft
from zaqar_redis.service import waiting
from zaqar_redis.service.waiting import Waiting
from zaqar_redis.storage.drivers.redis import RedisDriver, create

#: Seconds: longer than any test.
_NEVER = 3000

pytestmark = pytest.mark.usefixtures("no_slow_poll")


@pytest.fixture
def no_slow_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_SLOW_POLL", float(_NEVER))


class Queue:
    """One queue, and those who wait for it."""

    def __init__(self, driver: RedisDriver, project: str) -> None:
        self._driver = driver
        self._project = project
        self._waiting = Waiting(driver.feed, 1000)

    async def post(self, count: int = 1) -> None:
        drafts = [Draft(body=b"1")] * count
        await self._driver.messages.post(
            self._project, "q", drafts, client="", default_ttl=60, size=0
        )

    async def delay(self, seconds: int) -> None:
        metadata = {"_default_message_delay": seconds}
        await self._driver.queues.create(self._project, "q", metadata)

    async def cancel_at_news(self, task: asyncio.Task[Any]) -> None:
        """In the turn of the loop in which they come, behind all who wait already."""

        def cancel(_: int) -> None:
            task.cancel()

        await self._driver.feed.watch(self._project, "q", cancel)

    async def claimers(self, count: int) -> list[asyncio.Task[Any]]:
        return [await self._waiter(self.claim, exclusive=True) for _ in range(count)]

    async def reader(self) -> asyncio.Task[Any]:
        return await self._waiter(self._list, exclusive=False)

    async def _waiter(
        self, look: Callable[[], Awaitable[Any]], *, exclusive: bool
    ) -> asyncio.Task[Any]:
        """One who has looked behind subscribing, and sleeps."""
        looks = 0
        asleep = asyncio.Event()

        async def counted() -> Any:
            nonlocal looks
            answer = await look()
            looks += 1
            if looks == 2:
                asleep.set()
            return answer

        task = asyncio.create_task(
            self._waiting.until(
                counted,
                lambda answer: bool(answer.messages if exclusive else answer.items),
                self._project,
                "q",
                seconds=_NEVER,
                exclusive=exclusive,
                gone=asyncio.Event(),
            )
        )
        await asleep.wait()
        return task

    async def claim(self) -> Any:
        return await self._driver.claims.create(self._project, "q", ttl=60, grace=60, limit=1)

    async def _list(self) -> Any:
        return await self._driver.messages.list(
            self._project,
            "q",
            after=None,
            limit=10,
            hide_client=None,
            include_claimed=False,
            include_delayed=False,
        )


def _run(
    redis: servers.RedisServer, project: str, scenario: Callable[[Queue], Awaitable[None]]
) -> None:
    async def whole() -> None:
        driver = create(redis.uri, {})
        await driver.start()
        try:
            async with asyncio.timeout(60):
                await scenario(Queue(driver, project))
        finally:
            await driver.close()

    asyncio.run(whole())


def test_news_wake_a_reader_and_a_claimer(redis_server: servers.RedisServer, project: str) -> None:
    async def scenario(queue: Queue) -> None:
        readers = [await queue.reader() for _ in range(2)]
        await queue.post()
        assert [len((await reader).items) for reader in readers] == [1, 1]

        assert len((await queue.claim()).messages) == 1
        (claimer,) = await queue.claimers(1)
        await queue.post()
        assert len((await claimer).messages) == 1

    _run(redis_server, project, scenario)


def test_news_of_many_messages_wake_as_many(
    redis_server: servers.RedisServer, project: str
) -> None:
    async def scenario(queue: Queue) -> None:
        claimers = await queue.claimers(20)
        await queue.post()
        assert len((await claimers[0]).messages) == 1
        await queue.post(19)
        found = await asyncio.gather(*claimers)
        assert [len(each.messages) for each in found] == [1] * 20

    _run(redis_server, project, scenario)


def test_the_end_of_a_delay_wakes_all_it_frees_messages_for(
    redis_server: servers.RedisServer, project: str
) -> None:
    async def scenario(queue: Queue) -> None:
        await queue.delay(1)
        claimers = await queue.claimers(5)
        await queue.post(5)
        found = await asyncio.gather(*claimers)
        assert [len(each.messages) for each in found] == [1] * 5

    _run(redis_server, project, scenario)


def test_who_leaves_while_woken_hands_the_news_on(
    redis_server: servers.RedisServer, project: str
) -> None:
    async def scenario(queue: Queue) -> None:
        first, second = await queue.claimers(2)
        await queue.cancel_at_news(first)
        await queue.post()
        assert len((await second).messages) == 1
        assert first.cancelled()

    _run(redis_server, project, scenario)
