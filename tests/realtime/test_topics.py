# SPDX-License-Identifier: Apache-2.0
"""Topics as channels: what is published reaches who follows, live and from the history."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.realtime.crowd import until
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS, KEY, SECRET, SdkClient, subscribe
from tests.realtime.test_queues import QueueRestClient, call_server_api
from tests.support import servers

pytestmark = IGNORE_UNCLOSED_SOCKETS


@pytest.fixture(scope="module")
def service() -> Iterator[servers.RunningService]:
    options: dict[str, dict[str, object]] = {
        "channels": {"token_hmac_secret_key": SECRET, "api_key": KEY},
        "channels:topic": {"allow_publish_for_subscriber": True},
    }
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4()}"


async def test_published_messages_are_pushed_and_recovered(
    service: servers.RunningService, topic: str
) -> None:
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(f"topic:{topic}", {})
        await publish(zaqar, topic, {"n": 1}, 2)
        assert await ann.next() == ("publication", {"n": 1})
        assert await ann.next() == ("publication", 2)
        await subscription.unsubscribe()
        await publish(zaqar, topic, 3, 4)
        await zaqar.post(topic, "in the queue of the same name")
        await subscribe(subscription)
        assert recorder.recovered == [True]
        assert [each.data for each in recorder.publications] == [{"n": 1}, 2, 3, 4]
        assert [each.offset for each in recorder.publications] == [1, 2, 3, 4]


async def test_client_that_missed_more_than_the_history_is_not_recovered(
    service: servers.RunningService, topic: str
) -> None:
    zaqar = QueueRestClient(service)
    await zaqar.request("PUT", f"/topics/{topic}", {"_history_size": 2})
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(f"topic:{topic}", {})
        await subscription.unsubscribe()
        await publish(zaqar, topic, 1, 2, 3)
        await subscribe(subscription)
        assert recorder.recovered == [False]
        history = await subscription.history(limit=-1)
        assert [(each.offset, each.data) for each in history.publications] == [(2, 2), (3, 3)]


async def test_publications_of_clients_and_of_the_server_are_messages_of_the_topic(
    service: servers.RunningService, topic: str
) -> None:
    channel = f"topic:{topic}"
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(channel, {})
        await subscription.publish({"from": "ann"})
        done = call_server_api(service, "publish", channel=channel, data=[2])
        assert done["result"]["offset"] == 2
        await until(lambda: len(recorder.publications) == 2, "both")
    listed = await zaqar.request("GET", f"/topics/{topic}/messages?reverse=true")
    assert [each["body"] for each in listed["messages"]] == [[2], {"from": "ann"}]
    assert (await zaqar.request("GET", f"/queues?name={topic}"))["queues"] == []
    refused = call_server_api(service, "history_remove", channel=channel)
    assert refused["error"]["code"] == 108


async def publish(zaqar: QueueRestClient, topic: str, *bodies: object) -> None:
    messages = [{"body": body} for body in bodies]
    await zaqar.request("POST", f"/topics/{topic}/messages", {"messages": messages})
