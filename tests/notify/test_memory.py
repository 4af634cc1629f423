# SPDX-License-Identifier: Apache-2.0
"""The memory of a notifier: bounded in bytes, and shared, so that slow subscribers stop nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from tests.notify.endpoints import LOOPBACK, ReceivedRequest, Writer, answer, endpoint
from tests.support import servers
from zaqar_redis import rules
from zaqar_redis.notify.limits import MessageMemory
from zaqar_redis.notify.notifier import Notifier, NotifierSettings
from zaqar_redis.notify.target import TargetContext
from zaqar_redis.notify.targets import Targets
from zaqar_redis.records import NewMessage
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.load import load

SIZE, MESSAGES, SLOW = 64 * 1024, 120, 6
BUDGET = 2 * 1024 * 1024
#: What one step may read at once, beyond what there was room for.
STEP = 1024 * 1024 + SIZE
CLIENT = "3381af92-2b9e-11e3-b191-71861300734c"


@contextlib.asynccontextmanager
async def _notifier(uri: str) -> AsyncIterator[tuple[Driver, Notifier]]:
    driver = load(uri, {})
    await driver.start()
    messages = MessageService(driver, rules.Limits(), None, LongPoll(driver.feed, 1))
    targets = Targets(TargetContext(messages, driver.messages.dead_letter, http=LOOPBACK))
    notifier = Notifier(driver, messages, targets, NotifierSettings())
    notifier.memory = MessageMemory(BUDGET)
    await notifier.start()
    try:
        yield driver, notifier
    finally:
        await notifier.close()
        await targets.close()
        await driver.close()


async def _subscribe(driver: Driver, project: str, uri: str) -> None:
    assert driver.subscriptions is not None
    options = {"timeout": 60, "batch": 4}
    await driver.subscriptions.create(project, "q", uri, ttl=600, options=options, delivers=True)


def test_slow_subscribers_of_large_messages_take_bounded_memory_and_delay_no_other(
    project: str,
) -> None:
    with servers.redis_server() as server:
        asyncio.run(_run(server.uri, project))


async def _run(uri: str, project: str) -> None:
    may_answer, changed = asyncio.Event(), asyncio.Event()
    got: Counter[str] = Counter()
    used: list[int] = []
    ok = answer(204)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        used.append(notifier.memory.used)
        path = request.line.split()[1]
        if path != "/fast":
            await may_answer.wait()
        got[path] += request.body.count(b'"body"')
        changed.set()
        await ok(request, writer)

    async def wait_for(fast: int, slow: int) -> None:
        while got["/fast"] < fast or sum(got.values()) - got["/fast"] < slow:
            await changed.wait()
            changed.clear()

    async with endpoint(receive) as found, _notifier(uri) as (driver, notifier):
        await driver.queues.create(project, "q", {})
        for path in ("/fast", *(f"/slow{number}" for number in range(SLOW))):
            await _subscribe(driver, project, found.uri(path))
        message = NewMessage(body=b'"' + b"x" * SIZE + b'"', ttl=600)
        for _ in range(MESSAGES // 4):
            await driver.messages.post(
                project, "q", [message] * 4, client=CLIENT, default_ttl=600, size=0
            )
        async with asyncio.timeout(60):
            await wait_for(MESSAGES, 0)
            assert [*got] == ["/fast"]
            may_answer.set()
            await wait_for(MESSAGES, SLOW * MESSAGES)
        assert max(used) <= BUDGET + STEP
    assert notifier.memory.used == 0
