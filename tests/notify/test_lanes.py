# SPDX-License-Identifier: Apache-2.0
"""Lanes of subscriptions that change, are slow, or lose their queue while attempts are under way."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.notify.endpoints import ReceivedRequest, Writer, answer, endpoint
from tests.notify.local_notifier import local_notifier, post, subscribe
from tests.support import servers
from zaqar_redis.notify.lane import Lane
from zaqar_redis.storage.contract import Driver


async def _bodies(driver: Driver, project: str, queue: str) -> list[bytes]:
    page = await driver.messages.list(
        project,
        queue,
        after=None,
        limit=100,
        hide_client=None,
        include_claimed=True,
        include_delayed=True,
    )
    return [message.body for message in page.items]


def test_queue_that_replaces_a_failing_webhook_gets_what_was_to_be_tried_again(
    project: str,
) -> None:
    with servers.redis_server() as server:
        asyncio.run(_replace_failing_webhook(server.uri, project))


async def _replace_failing_webhook(uri: str, project: str) -> None:
    has_failed = asyncio.Event()
    unavailable = answer(503)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        await unavailable(request, writer)
        if len(found.received) == 4:  # the next attempt is five seconds later
            has_failed.set()

    async with endpoint(receive) as found, local_notifier(uri) as (driver, _):
        await driver.queues.create(project, "q", {})
        id = await subscribe(driver, project, found.uri())
        await post(driver, project, b"1")
        async with asyncio.timeout(20):
            await has_failed.wait()
            assert driver.subscriptions is not None and driver.subscription_deliveries is not None
            states = driver.subscription_deliveries.states
            while not (await states(project, "q", [id]))[0].pending:
                await asyncio.sleep(0.01)
            assert await driver.subscriptions.update(project, "q", id, subscriber="queue:copy")
            await post(driver, project, b"2")
            while (await states(project, "q", [id]))[0].delivered < 2:
                await asyncio.sleep(0.01)
            assert await _bodies(driver, project, "copy") == [b"1", b"2"]


class _CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the timers of lanes."""

    timers = 0

    def call_at(self, when: float, callback: Any, *args: Any, **how: Any) -> asyncio.TimerHandle:
        self.timers += getattr(callback, "__func__", None) is Lane.pump
        return super().call_at(when, callback, *args, **how)


def test_lane_with_a_rate_has_one_timer_however_often_it_gets_messages(project: str) -> None:
    with servers.redis_server() as server, asyncio.Runner(loop_factory=_CountingLoop) as runner:
        runner.run(_post_to_a_slow_lane(server.uri, project))


async def _post_to_a_slow_lane(uri: str, project: str) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _CountingLoop)
    async with endpoint(answer(204)) as found, local_notifier(uri) as (driver, notifier):
        await driver.queues.create(project, "q", {})
        await subscribe(driver, project, found.uri(), rate=20)
        async with asyncio.timeout(20):
            for number in range(40):
                used = notifier.memory.used
                await post(driver, project, b"%d" % number)
                while notifier.memory.used == used:
                    await asyncio.sleep(0.001)
            before, count = loop.timers, len(found.received)
            while len(found.received) < count + 10:
                await asyncio.sleep(0.01)
        assert loop.timers - before < 40


def test_queue_that_is_purged_during_attempts_leaves_no_memory_and_no_further_attempts(
    project: str,
) -> None:
    with servers.redis_server() as server:
        asyncio.run(_purge_during_attempts(server.uri, project))


async def _purge_during_attempts(uri: str, project: str) -> None:
    may_answer, unavailable, ok = asyncio.Event(), answer(503), answer(204)
    paths = [f"/{number}" for number in range(4)]
    purged, after = b"x" * 1000, b"after the purge"

    def attempts(body: bytes) -> int:
        return sum(body in request.body for request in found.received)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if after in request.body:
            await ok(request, writer)
        else:
            await may_answer.wait()
            await unavailable(request, writer)

    async with endpoint(receive) as found, local_notifier(uri) as (driver, notifier):
        await driver.queues.create(project, "q", {})
        for path in paths:
            await subscribe(driver, project, found.uri(path))
        await post(driver, project, b'"' + purged + b'"')
        async with asyncio.timeout(10):
            while attempts(purged) < len(paths):
                await asyncio.sleep(0.01)
            await driver.queues.purge(project, "q")
            while notifier.memory.used:
                await asyncio.sleep(0.01)
            may_answer.set()
            await post(driver, project, b'"' + after + b'"')
            while attempts(after) < len(paths) or notifier.memory.used:
                await asyncio.sleep(0.01)
        assert attempts(purged) == len(paths)
