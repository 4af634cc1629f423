# SPDX-License-Identifier: Apache-2.0
"""What nodes tell of themselves and of each other: two nodes over one Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.support import servers
from zaqar_redis import clock
from zaqar_redis.auth import tokens
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.metrics.process_load import LOAD
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.service.overview import OperatorServices
from zaqar_redis.service.queue_history import HistorySettings
from zaqar_redis.storage import pools


@asynccontextmanager
async def operator(uri: str, store: str) -> AsyncIterator[tuple[Node, OperatorServices]]:
    """A node over the Redis at *uri*, whose queues are in *store*."""
    settings = BatchSettings(timeout=1.0, connect_timeout=0.2)
    engine = RedisEngine(keyspace.client(uri, settings), clock.store)
    verifier = tokens.TokenVerifier(tokens.TokenSettings())
    node = Node(engine, SessionSettings(), Namespaces(ChannelOptions(), {}), verifier)
    driver = pools.create(store, store, {"connect_timeout": 0.2})
    services = OperatorServices(driver, HistorySettings(), node)
    await driver.start()
    await node.start()
    try:
        yield node, services
    finally:
        await services.close()
        await node.close()
        await driver.close()


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A Redis without nodes of other tests."""
    with servers.redis_server() as server:
        yield server.uri


async def until(services: OperatorServices, condition: Callable[[list[str]], bool]) -> None:
    """Waits until the alarms about nodes are as wanted."""
    async with asyncio.timeout(60):
        while True:
            overview = await services.overview.get("p", everything=True)
            found = [each.text for each in overview.alarms if each.subject.startswith("node ")]
            if condition(found):
                return
            await asyncio.sleep(0.05)


def test_node_without_its_store_is_an_alarm_at_the_others(uri: str) -> None:
    async def run() -> None:
        async with (
            operator(uri, uri) as (healthy, services),
            operator(uri, "unix:///nowhere") as (lonely, _),
        ):
            lonely.name = "lonely"
            text = "Node lonely cannot reach the store default, control."
            await until(services, lambda alarms: text in alarms)
            overview = await services.overview.get("p", everything=True)
            reports = {each.name: each.unavailable for each in overview.nodes}
            assert reports == {healthy.name: [], "lonely": ["default", "control"]}

    asyncio.run(run())


def test_node_that_does_not_answer_any_more_is_an_alarm(uri: str) -> None:
    async def run() -> None:
        async with operator(uri, uri) as (_, services):
            async with operator(uri, uri) as (other, _others):
                other.name = "other"
                await until(services, lambda alarms: not alarms)
                assert len(await services.overview.nodes()) == 2
            text = "Node other answered "
            await until(services, lambda alarms: any(each.startswith(text) for each in alarms))

    asyncio.run(run())


def test_load_of_a_process_is_told(uri: str) -> None:
    async def run() -> None:
        async with operator(uri, uri) as (node, services):
            LOAD.note(0.7)
            (report,) = await services.overview.nodes()
            assert report.loop_lag is not None
            assert report.loop_lag >= 700
            assert report.memory is not None
            assert report.memory > 1_000_000
            text = f"Node {node.name} stood still for "
            await until(services, lambda alarms: any(each.startswith(text) for each in alarms))

    asyncio.run(run())
