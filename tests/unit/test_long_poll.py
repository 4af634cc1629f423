# SPDX-License-Identifier: Apache-2.0
"""Hints wake long polls: these tests never reach the slow poll, which would do it later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.support.backends import Backend
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.records import Lease, MessageListing, NewMessage
from zaqar_redis.service import long_polls
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.storage.redis import RedisDriver, create

#: Seconds: longer than any test.
_NEVER = 3000

pytestmark = pytest.mark.usefixtures("no_slow_poll")


@pytest.fixture
def no_slow_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polls, "_SLOW_POLL", float(_NEVER))


class LongPollQueue:
    """One queue, and the clients that wait for its messages."""

    def __init__(self, driver: RedisDriver, project: str) -> None:
        self._driver = driver
        self._project = project
        self._long_poll = LongPoll(driver.feed, 1000)

    async def post(self, count: int = 1) -> None:
        messages = [NewMessage(body=b"1")] * count
        await self._driver.messages.post(
            self._project, "q", messages, client="", default_ttl=60, size=0
        )

    async def delay(self, seconds: int) -> None:
        metadata = {"_default_message_delay": seconds}
        await self._driver.queues.create(self._project, "q", metadata)

    async def cancel_on_hint(self, task: asyncio.Task[Any]) -> None:
        """Cancels the task in the turn of the event loop that has the hint, as the last watcher."""

        def cancel(_: int) -> None:
            task.cancel()

        await self._driver.feed.watch(self._project, "q", cancel)

    async def claimers(self, count: int) -> list[asyncio.Task[Any]]:
        return [await self._waiter(self.claim, exclusive=True) for _ in range(count)]

    async def reader(self) -> asyncio.Task[Any]:
        return await self._waiter(self._list, exclusive=False)

    async def _waiter(
        self, fetch: Callable[[], Awaitable[Any]], *, exclusive: bool
    ) -> asyncio.Task[Any]:
        """Returns a client that has polled again after subscribing, and now waits for hints."""
        polls = 0
        asleep = asyncio.Event()

        async def counted() -> Any:
            nonlocal polls
            answer = await fetch()
            polls += 1
            if polls == 2:
                asleep.set()
            return answer

        task = asyncio.create_task(
            self._long_poll.poll(
                counted,
                lambda answer: bool(answer.messages if exclusive else answer.items),
                self._project,
                "q",
                seconds=_NEVER,
                exclusive=exclusive,
                disconnected=asyncio.Event(),
            )
        )
        await asleep.wait()
        return task

    async def claim(self) -> Any:
        return await self._driver.claims.create(self._project, "q", Lease(60, 60), limit=1)

    async def _list(self) -> Any:
        return await self._driver.messages.list(self._project, "q", MessageListing(10))


@pytest.fixture
def queue(runner: asyncio.Runner, redis_server: Backend, project: str) -> Iterator[LongPollQueue]:
    driver = create(redis_server.uri, PATIENT_OPTIONS)
    runner.run(driver.start())
    yield LongPollQueue(driver, project)
    runner.run(driver.close())


async def test_post_wakes_all_waiting_readers_and_one_claimer(queue: LongPollQueue) -> None:
    readers = [await queue.reader() for _ in range(2)]
    await queue.post()
    assert [len((await reader).items) for reader in readers] == [1, 1]

    assert len((await queue.claim()).messages) == 1
    (claimer,) = await queue.claimers(1)
    await queue.post()
    assert len((await claimer).messages) == 1


async def test_post_of_many_messages_wakes_as_many_claimers(queue: LongPollQueue) -> None:
    claimers = await queue.claimers(20)
    await queue.post()
    assert len((await claimers[0]).messages) == 1
    await queue.post(19)
    found = await asyncio.gather(*claimers)
    assert [len(each.messages) for each in found] == [1] * 20


async def test_end_of_delay_wakes_a_claimer_per_message(queue: LongPollQueue) -> None:
    await queue.delay(1)
    claimers = await queue.claimers(5)
    await queue.post(5)
    found = await asyncio.gather(*claimers)
    assert [len(each.messages) for each in found] == [1] * 5


async def test_claimer_cancelled_while_woken_passes_the_wakeup_on(queue: LongPollQueue) -> None:
    first, second = await queue.claimers(2)
    await queue.cancel_on_hint(first)
    await queue.post()
    assert len((await second).messages) == 1
    assert first.cancelled()
