# SPDX-License-Identifier: Apache-2.0
"""A notifier in the test's own process, which sees what it has in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.notify.endpoints import LOOPBACK
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis import rules
from zaqar_redis.notify.limits import MessageMemory
from zaqar_redis.notify.notifier import Notifier, NotifierSettings
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.notify.targets import Targets
from zaqar_redis.records import NewMessage, SubscriptionChanges
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import DeliveryState
from zaqar_redis.storage.load import load

CLIENT = "3381af92-2b9e-11e3-b191-71861300734c"


@contextlib.asynccontextmanager
async def local_notifier(
    uri: str,
    memory: int | None = None,
    settings: NotifierSettings | None = None,
    grace: float = 10.0,
) -> AsyncIterator[tuple[Driver, Notifier]]:
    """Runs a notifier on a store; *memory*: bytes of messages that it may have; *grace*: as
    `Notifier.close`."""
    driver = load(uri, PATIENT_OPTIONS)
    await driver.start()
    messages = MessageService(driver, rules.Limits(), None, LongPoll(driver.feed, 1))
    targets = Targets(TargetContext(messages, driver.messages.dead_letter, http=LOOPBACK))
    notifier = Notifier(driver, messages, targets, settings or NotifierSettings())
    if memory is not None:
        notifier.memory = MessageMemory(memory)
    await notifier.start()
    try:
        yield driver, notifier
    finally:
        await notifier.close(grace)
        await targets.close()
        await driver.close()


async def subscribe(driver: Driver, project: str, uri: str, **options: Any) -> str:
    """Returns the id of a subscription to the queue "q", which it creates."""
    await driver.queues.create(project, "q", {})
    assert driver.subscriptions is not None
    id = await driver.subscriptions.create(
        project, "q", uri, ttl=600, options=options, delivers=True
    )
    assert id is not None
    return id


async def post(driver: Driver, project: str, *bodies: bytes) -> None:
    """Posts JSON documents to the queue "q" at once."""
    messages = [NewMessage(body=body, ttl=600) for body in bodies]
    await driver.messages.post(project, "q", messages, client=CLIENT, default_ttl=600, size=0)


async def set_paused(driver: Driver, project: str, id: str, *, paused: bool) -> None:
    assert driver.subscriptions
    assert await driver.subscriptions.update(project, "q", id, SubscriptionChanges(paused=paused))


async def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # any condition, not an event
            await asyncio.sleep(0.001)


async def wait_for_state(
    driver: Driver, project: str, id: str, condition: Callable[[DeliveryState], bool]
) -> None:
    """Waits until the deliveries of a subscription are as wanted."""
    assert driver.subscription_deliveries
    states = driver.subscription_deliveries.states
    async with asyncio.timeout(60):
        while not all(map(condition, await states(project, "q", [id]))):  # noqa: ASYNC110  # of Redis
            await asyncio.sleep(0.01)
