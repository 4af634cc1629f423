# SPDX-License-Identifier: Apache-2.0
"""What nodes tell of themselves and of each other: two nodes over one Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw

from tests.realtime import crowd
from tests.realtime.test_session import RecordingTransport
from tests.support import servers
from tests.support.stores import PATIENT, PATIENT_OPTIONS
from zaqar_redis import clock
from zaqar_redis.auth import tokens
from zaqar_redis.figures import ChannelFigures
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.metrics.process_load import LOAD
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.node import publication_rates
from zaqar_redis.realtime.node.control import ControlSurveyResponse
from zaqar_redis.realtime.node.control_plane import merge_channels
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol.codec import JSON
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.service.channels import ChannelService
from zaqar_redis.service.nodes import NodeMonitor
from zaqar_redis.service.overview import PATIENCE, OperatorServices
from zaqar_redis.service.queue_history import HistorySettings
from zaqar_redis.storage import pools


@asynccontextmanager
async def operator(uri: str, store: str) -> AsyncIterator[tuple[Node, OperatorServices]]:
    """A node over the Redis at *uri*, whose queues are in *store*."""
    engine = RedisEngine([keyspace.client(uri, PATIENT)], clock.store)
    verifier = tokens.TokenVerifier(tokens.TokenSettings())
    anybody = SessionSettings(insecure=True)
    node = Node(engine, anybody, Namespaces(ChannelOptions(), {}), verifier)
    is_there = store == uri  # however busy the machine is
    driver = pools.create(store, store, PATIENT_OPTIONS if is_there else {"connect_timeout": 0.2})
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


async def test_node_without_its_store_is_an_alarm_at_the_others(uri: str) -> None:
    async with (
        operator(uri, uri) as (healthy, services),
        operator(uri, "unix:///nowhere") as (lonely, _),
    ):
        lonely.name = "lonely"
        text = "Node lonely cannot reach the store default, control."
        await until(services, lambda alarms: text in alarms)

        # On a busy machine a report, or a store, may come too late for an overview.
        async def are_told() -> bool:
            overview = await services.overview.get("p", everything=True)
            reports = {each.name: each.unavailable for each in overview.nodes}
            return reports == {healthy.name: [], "lonely": ["default", "control"]}

        await crowd.until(are_told, "the reports of both nodes")


async def test_node_that_does_not_answer_any_more_is_an_alarm(uri: str) -> None:
    async with operator(uri, uri) as (_, services):
        async with operator(uri, uri) as (other, _others):
            other.name = "other"
            await until(services, lambda alarms: not alarms)

            async def are_both_there() -> bool:
                assert services.nodes is not None
                return len(await services.nodes.reports()) == 2

            await crowd.until(are_both_there, "both nodes to answer in time")
        text = "Node other answered "
        await until(services, lambda alarms: any(each.startswith(text) for each in alarms))


async def test_load_of_a_process_is_told(uri: str) -> None:
    async with operator(uri, uri) as (node, services):
        LOAD.note(0.7)
        (report,) = await NodeMonitor(node, PATIENCE).reports()
        assert report.loop_lag is not None
        assert report.loop_lag >= 700
        assert report.memory is not None
        assert report.memory > 1_000_000
        text = f"Node {node.name} stood still for "
        await until(services, lambda alarms: any(each.startswith(text) for each in alarms))


async def subscribe(node: Node, *channels: str) -> None:
    """Connects a client of project p to the node."""
    session = Session(ProjectContext(node, "p"), JSON, RecordingTransport())
    node.sessions.add(session)
    await session.receive(b'{"id": 1, "connect": {}}')
    for number, channel in enumerate(channels, 2):
        command = {"id": number, "subscribe": {"channel": channel}}
        await session.receive(json.dumps(command).encode())


async def test_rate_of_a_channel_is_that_of_one_node_and_ends_with_its_publications(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock of the nodes ticks twice a second.
    monkeypatch.setattr(publication_rates, "_WINDOW", 0.5)
    monkeypatch.setattr(publication_rates, "_SECONDS_MIN", 0.4)
    async with operator(uri, uri) as (node, _), operator(uri, uri) as (other, _others):
        await subscribe(node, "news", "quiet")
        await subscribe(other, "news", "o[d]d")
        channels = ChannelService(ProjectContext(other, "p"), lambda action, of: None)
        context = ProjectContext(node, "p")

        async def listed(pattern: str) -> dict[str, int]:
            return {each.name: each.subscribers for each in await channels.figures(pattern)}

        assert await listed("") == {"news": 2, "o[d]d": 1, "quiet": 1}
        assert await listed("*d") == await listed("o[[]d]d") == {"o[d]d": 1}
        assert await listed("new") == await listed("o[d]d") == {}

        async def rate() -> float | None:
            (news,) = await channels.figures("news")
            assert news.subscribers == 2
            return news.published

        published, found = 0, None

        async def publish() -> float | None:
            nonlocal published, found
            await context.publish("news", Raw(b"1"))
            published += 1
            found = await rate()
            return found

        async def is_quiet() -> bool:
            return await rate() == 0

        await crowd.until(publish, "a rate")
        assert found is not None
        assert found <= published / 0.4  # although both nodes have received all
        await crowd.until(is_quiet, "its end")
        figures = {each.name: each.published for each in await channels.figures("")}
        assert figures == {"news": 0, "o[d]d": 0, "quiet": 0}


def test_highest_rate_that_a_node_tells_is_that_of_the_channel() -> None:
    old = ControlSurveyResponse("id", channels={"a": 1, "b": 2})
    young = ControlSurveyResponse("id", channels={"b": 1, "c": 1}, published=[2.0, None])
    new = ControlSurveyResponse("id", channels={"c": 4, "b": 1}, published=[0.0, 2.5])
    assert merge_channels([old, young, new]) == [
        ChannelFigures("a", 1),
        ChannelFigures("b", 4, 2.5),
        ChannelFigures("c", 5, 0.0),
    ]
