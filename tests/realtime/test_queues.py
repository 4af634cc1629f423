# SPDX-License-Identifier: Apache-2.0
"""Queue channels: messages that are posted to a queue reach its subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from functools import partial
from typing import Any

import httpx
import pytest
from zaqarclient.queues import client as zaqarclient

from tests.realtime.crowd import until
from tests.realtime.sdk_client import (
    IGNORE_UNCLOSED_SOCKETS,
    KEY,
    SECRET,
    SdkClient,
    SubscriptionRecorder,
    subscribe,
)
from tests.support import servers
from tests.support.servers import RunningService

pytestmark = IGNORE_UNCLOSED_SOCKETS

OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "channels": {"token_hmac_secret_key": SECRET, "token_any_project": True, "api_key": KEY},
    "channels:queue": {"allow_publish_for_subscriber": True, "presence": True},
    "transport": {"message_encryption_key": "the operator's other key"},
}


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4()}"


class QueueRestClient:
    """A client of the REST API."""

    def __init__(self, service: RunningService, project: str = "default") -> None:
        headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}
        self._client = httpx.AsyncClient(base_url=f"{service.url}/v2", headers=headers, timeout=60)

    async def request(self, method: str, path: str, document: Any = None) -> Any:
        answer = await self._client.request(method, path, json=document)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    async def post(self, queue: str, *bodies: Any, **more: Any) -> list[str]:
        """Posts the bodies; returns the message ids."""
        messages = [{"body": body, "ttl": 300} | more for body in bodies]
        posted = await self.request("POST", f"/queues/{queue}/messages", {"messages": messages})
        return [resource.rpartition("/")[2] for resource in posted["resources"]]


def call_server_api(service: RunningService, method: str, **body: Any) -> Any:
    """Calls a method of the server API; returns its reply."""
    headers = {"X-API-Key": KEY}
    answer = httpx.post(f"{service.url}/api/{method}", json=body, headers=headers, timeout=60)
    return answer.json()


async def test_posted_messages_are_pushed_in_order(service: RunningService, queue: str) -> None:
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann, SdkClient(service, "bob") as bob:
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        await bob.subscribe(f"queue:{queue}", {})
        ids = await zaqar.post(queue, {"n": 1}, "two\n", 3)
        for someone in (ann, bob):
            assert [await someone.next() for _ in range(3)] == [
                ("publication", {"n": 1}),
                ("publication", "two\n"),
                ("publication", 3),
            ]
        assert [each.offset for each in recorder.publications] == [1, 2, 3]
        assert [each.tags["id"] for each in recorder.publications] == ids
        assert recorder.publications[0].tags["ttl"] == "300"
        attributes = {"kind": "order", "price": 9.5, "photo": {"binary": "AP8="}, "id": "x"}
        [id] = await zaqar.post(queue, 4, attributes=attributes)
        await ann.next()
        assert recorder.publications[-1].tags == {
            "kind": "order",
            "price": "9.5",
            "photo": "AP8=",
            "id": id,
            "ttl": "300",
        }


async def test_exact_body_is_published_with_its_fields_as_tags(
    service: RunningService, queue: str
) -> None:
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        await zaqar.post(queue, "AP8=", content_type="a/b", body_encoding="base64")
        assert await ann.next() == ("publication", "AP8=")
        tags = recorder.publications[0].tags
        assert (tags["_content_type"], tags["_body_encoding"]) == ("a/b", "base64")


async def test_message_popped_at_once_is_still_pushed(service: RunningService, queue: str) -> None:
    zaqar = QueueRestClient(service)
    await zaqar.request("PUT", f"/queues/{queue}")
    async with SdkClient(service, "ann") as ann:
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        for number in range(50):
            await zaqar.post(queue, number)
            await zaqar.request("DELETE", f"/queues/{queue}/messages?pop=1")
        await until(lambda: len(recorder.publications) == 50, "50 messages")
        assert [each.offset for each in recorder.publications] == list(range(1, 51))


async def test_subscribing_to_queue_channel_needs_permission(
    service: RunningService, queue: str
) -> None:
    async with SdkClient(service, "ann") as ann:
        subscription = ann.client.new_subscription(
            f"queue:{queue}", SubscriptionRecorder(ann.events)
        )
        await subscription.subscribe()
        assert await ann.next() == ("unsubscribed", 103)


async def test_channel_history_is_the_queue(service: RunningService, queue: str) -> None:
    zaqar = QueueRestClient(service)
    ids = await zaqar.post(queue, *"abcde")
    await zaqar.request("DELETE", f"/queues/{queue}/messages/{ids[1]}")
    async with SdkClient(service, "ann") as ann:
        subscription, _ = await ann.subscribe(f"queue:{queue}", {})
        history = await subscription.history(limit=-1)
        assert [(each.offset, each.data) for each in history.publications] == [
            (1, "a"),
            (3, "c"),
            (4, "d"),
            (5, "e"),
        ]
        assert history.offset == 5
        back = await subscription.history(limit=2, reverse=True)
        assert [each.data for each in back.publications] == ["e", "d"]


async def test_publishing_to_the_channel_posts_a_message(
    service: RunningService, queue: str
) -> None:
    channel, zaqar = f"queue:{queue}", QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(channel, {})
        await subscription.publish({"from": "ann"})
        once = {"channel": channel, "data": [2], "idempotency_key": "k"}
        done, again = (call_server_api(service, "publish", **once) for _ in range(2))
        assert done == again
        assert done["result"]["offset"] == 2
        await until(lambda: len(recorder.publications) == 2, "both")
        listed = await zaqar.request("GET", f"/queues/{queue}/messages?echo=true")
        assert [each["body"] for each in listed["messages"]] == [{"from": "ann"}, [2]]
    wrong: tuple[tuple[dict[str, Any], int], ...] = (
        ({"skip_history": True}, 108),
        ({"version": 1}, 108),
        ({"channel": "queue:no name"}, 107),
        ({"data": "x" * 300_000}, 107),
        ({"tags": {"a b": "c"}}, 107),
        ({"tags": {"a": "x" * 300_000}}, 107),
    )
    await QueueRestClient(service).request("PUT", "/queues/paused", {"_paused": "posts"})
    for given, code in (*wrong, ({"channel": "queue:paused"}, 106)):
        refused = call_server_api(service, "publish", **({"channel": channel, "data": 1} | given))
        assert refused["error"]["code"] == code
    assert call_server_api(service, "history_remove", channel=channel)["error"]["code"] == 108


async def test_tags_of_a_publication_are_attributes_of_its_message(
    service: RunningService, queue: str
) -> None:
    async with SdkClient(service, "ann") as ann:
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        given = {"channel": f"queue:{queue}", "data": 1, "idempotency_key": "k"}
        first = call_server_api(service, "publish", **given, tags={"kind": "order", "n": "1"})
        again = call_server_api(service, "publish", **given, tags={"n": "1", "kind": "order"})
        other = call_server_api(service, "publish", **given, tags={"kind": "other"})
        assert first == again
        assert first["result"]["offset"] == 1
        assert other["error"]["code"] == 107
        await until(lambda: len(recorder.publications) == 1, "it")
        tags = recorder.publications[0].tags
        assert {name: tags[name] for name in ("kind", "n")} == {"kind": "order", "n": "1"}
        listed = await QueueRestClient(service).request(
            "GET", f"/queues/{queue}/messages?echo=true&with_attributes=true"
        )
        (message,) = listed["messages"]
        assert message["attributes"] == {"kind": "order", "n": "1"}


async def test_subscriber_of_encrypted_queue_gets_plain_bodies(
    service: RunningService, queue: str
) -> None:
    zaqar = QueueRestClient(service)
    await zaqar.request("PUT", f"/queues/{queue}", {"_enable_encrypt_messages": True})
    async with SdkClient(service, "ann") as ann:
        subscription, _ = await ann.subscribe(f"queue:{queue}", {})
        await zaqar.post(queue, {"secret": 1})
        assert await ann.next() == ("publication", {"secret": 1})
        history = await subscription.history(limit=1)
        assert history.publications[0].data == {"secret": 1}


async def test_queue_channels_are_separate_per_project(service: RunningService, queue: str) -> None:
    default, other = QueueRestClient(service), QueueRestClient(service, "elsewhere/x")
    async with (
        SdkClient(service, "ann") as ann,
        SdkClient(service, "bob", project="elsewhere/x") as bob,
    ):
        await ann.subscribe(f"queue:{queue}", {})
        await bob.subscribe(f"queue:{queue}", {})
        await other.post(queue, "of other")
        await default.post(queue, "of default")
        assert await ann.next() == ("publication", "of default")
        assert await bob.next() == ("publication", "of other")


@pytest.mark.parametrize(
    ("before", "gone"),
    [
        pytest.param("a", 0, id="the first one missed"),
        pytest.param("", 1, id="in the middle, with a position before the first message"),
    ],
)
async def test_client_that_missed_a_deleted_message_is_not_recovered(
    service: RunningService, queue: str, before: str, gone: int
) -> None:
    zaqar = QueueRestClient(service)
    if before:
        await zaqar.post(queue, before)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(f"queue:{queue}", {})
        await subscription.unsubscribe()
        await zaqar.post(queue, *"bcd")
        await subscribe(subscription)
        assert recorder.recovered == [True]
        assert [each.data for each in recorder.publications] == list("bcd")
        await subscription.unsubscribe()
        ids = await zaqar.post(queue, *"efg")
        await zaqar.request("DELETE", f"/queues/{queue}/messages/{ids[gone]}")
        await subscribe(subscription)
        assert recorder.recovered == [True, False]
        await zaqar.post(queue, "h")
        await until(lambda: len(recorder.publications) == 4, "the next message")
        assert recorder.publications[-1].offset == len(before) + 7


async def test_recreated_queue_has_new_epoch_and_is_not_recovered(
    service: RunningService, queue: str
) -> None:
    zaqar = QueueRestClient(service)
    await zaqar.post(queue, "a", "b")
    async with SdkClient(service, "ann") as ann:
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        await zaqar.request("DELETE", f"/queues/{queue}")
        await zaqar.post(queue, "new")
        await until(lambda: recorder.recovered == [False], "the failed recovery")
        await zaqar.post(queue, "newer")
        await until(lambda: len(recorder.publications) > 0, "the next message")
        assert recorder.publications[-1].data == "newer"


async def test_queue_recreated_while_unsubscribed_is_not_recovered(
    service: RunningService, queue: str
) -> None:
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(f"queue:{queue}", {})
        await zaqar.post(queue, *"ab")
        await until(lambda: len(recorder.publications) == 2, "both")
        await subscription.unsubscribe()
        await zaqar.request("DELETE", f"/queues/{queue}")
        await zaqar.post(queue, *"xyz")
        await subscribe(subscription)
        assert recorder.recovered == [False]


async def test_recovery_reads_more_than_one_page(service: RunningService, queue: str) -> None:
    zaqar = QueueRestClient(service)
    async with SdkClient(service, "ann") as ann:
        subscription, recorder = await ann.subscribe(f"queue:{queue}", {})
        await subscription.unsubscribe()
        for number in range(40):
            await zaqar.post(queue, str(number) * 30_000)
        await subscribe(subscription)
        assert recorder.recovered == [True]
        assert [each.offset for each in recorder.publications] == list(range(1, 41))


async def test_queue_channel_subscriber_is_in_presence(service: RunningService, queue: str) -> None:
    async with SdkClient(service, "ann") as ann:
        await ann.subscribe(f"queue:{queue}", {})
        found = call_server_api(service, "presence", channel=f"queue:{queue}")["result"]["presence"]
        assert [each["user"] for each in found.values()] == ["ann"]
        listed = call_server_api(service, "channels", pattern="queue:*")["result"]["channels"]
        assert listed[f"queue:{queue}"] == {"num_clients": 1}


async def test_subscriber_misses_nothing_across_service_restart(queue: str) -> None:
    """Messages of python-zaqarclient reach a subscriber of centrifuge-python."""
    port = servers.free_port()

    def posted(service: RunningService, numbers: range) -> None:
        auth = {"backend": "noauth", "options": {"os_project_id": "default"}}
        zaqar = zaqarclient.Client(service.url, 2, conf={"auth_opts": auth})
        for number in numbers:
            zaqar.queue(queue).post([{"body": number, "ttl": 300}])

    with servers.redis_server() as server, contextlib.ExitStack() as stack:
        first = servers.service(server.uri, workers=2, options=OPTIONS, port=port)
        service = stack.enter_context(first)
        ann = SdkClient(service, "ann")
        await ann.client.connect()
        await ann.client.ready()
        _, recorder = await ann.subscribe(f"queue:{queue}", {})
        await asyncio.to_thread(posted, service, range(20))
        await asyncio.to_thread(stack.close)
        with servers.service(server.uri, options=OPTIONS) as other:  # on another port
            await asyncio.to_thread(posted, other, range(20, 40))
        again = servers.service(server.uri, workers=2, options=OPTIONS, port=port)
        await asyncio.to_thread(stack.enter_context, again)
        await asyncio.to_thread(posted, service, range(40, 60))
        await until(lambda: len(recorder.publications) >= 60, "60 messages")
        assert [each.data for each in recorder.publications] == list(range(60))
        assert [each.offset for each in recorder.publications] == list(range(1, 61))
        assert recorder.recovered == [True]
        await ann.client.disconnect()


async def test_subscribers_of_missing_queues_miss_nothing_in_any_pool() -> None:
    async def create_and_use(zaqar: QueueRestClient, queue: str) -> None:
        """Creates the queue by a post; pops its first message at once."""
        await zaqar.post(queue, 1)
        await zaqar.request("DELETE", f"/queues/{queue}/messages?pop=1")
        await zaqar.post(queue, 2, 3)

    def has_three(recorder: SubscriptionRecorder) -> bool:
        return len(recorder.publications) >= 3

    with contextlib.ExitStack() as stack:
        default_pool, *pools = [stack.enter_context(servers.redis_server()).uri for _ in range(3)]
        service = stack.enter_context(servers.service(default_pool, workers=2, options=OPTIONS))
        zaqar = QueueRestClient(service)
        for number, uri in enumerate(pools):
            await zaqar.request("PUT", f"/pools/p{number}", {"uri": uri, "weight": 100})
        async with SdkClient(service, "ann") as ann, SdkClient(service, "bob") as bob:
            for turn in range(3):
                queues = [f"q-{turn}-{number}" for number in range(10)]
                recorders = [
                    (await someone.subscribe(f"queue:{queue}", {}))[1]
                    for queue in queues
                    for someone in (ann, bob)
                ]
                await asyncio.gather(*(create_and_use(zaqar, queue) for queue in queues))
                for recorder in recorders:
                    await until(partial(has_three, recorder), "3 messages")
                    assert [each.data for each in recorder.publications] == [1, 2, 3]
                    assert [each.offset for each in recorder.publications] == [1, 2, 3]
                    assert recorder.recovered == []
            # Also a client that was unsubscribed when the queue was created.
            subscription, recorder = await ann.subscribe("queue:later", {})
            await subscription.unsubscribe()
            await zaqar.post("later", 1, 2)
            await subscribe(subscription)
            await until(lambda: len(recorder.publications) == 2, "both")
            assert recorder.recovered == [True]
