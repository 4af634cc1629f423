# SPDX-License-Identifier: Apache-2.0
"""Queues as channels: whatever is posted to one reaches those who follow it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import httpx
import pytest
from zaqarclient.queues import client as zaqarclient

from tests import servers
from tests.realtime.someone import KEY, LEFT_BEHIND, SECRET, Hears, Someone, until

pytestmark = LEFT_BEHIND

OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "channels": {"token_hmac_secret_key": SECRET, "api_key": KEY},
    "channels:queue": {"allow_publish_for_subscriber": True, "presence": True},
    "transport": {"message_encryption_key": "the operator's other key"},
}


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4()}"


class Zaqar:
    """Requests to the REST API."""

    def __init__(self, service: servers.Service, project: str = "default") -> None:
        headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}
        self._client = httpx.AsyncClient(base_url=f"{service.url}/v2", headers=headers)

    async def ask(self, method: str, path: str, document: Any = None) -> Any:
        answer = await self._client.request(method, path, json=document)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    async def post(self, queue: str, *bodies: Any, **more: Any) -> list[str]:
        """The ids."""
        messages = [{"body": body, "ttl": 300} | more for body in bodies]
        posted = await self.ask("POST", f"/queues/{queue}/messages", {"messages": messages})
        return [resource.rpartition("/")[2] for resource in posted["resources"]]


def called(service: servers.Service, method: str, **body: Any) -> Any:
    """The result of a method of the server API."""
    answer = httpx.post(f"{service.url}/api/{method}", json=body, headers={"X-API-Key": KEY})
    return answer.json()


def test_messages_are_pushed_as_they_are_posted(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        async with Someone(service, "ann") as ann, Someone(service, "bob") as bob:
            _, heard = await ann.subscribe(f"queue:{queue}", {})
            await bob.subscribe(f"queue:{queue}", {})
            ids = await zaqar.post(queue, {"n": 1}, "two\n", 3)
            for someone in (ann, bob):
                assert [await someone.next() for _ in range(3)] == [
                    ("publication", {"n": 1}),
                    ("publication", "two\n"),
                    ("publication", 3),
                ]
            assert [each.offset for each in heard.publications] == [1, 2, 3]
            assert [each.tags["id"] for each in heard.publications] == ids
            assert heard.publications[0].tags["ttl"] == "300"

    asyncio.run(scenario())


def test_a_message_taken_at_once_was_pushed_all_the_same(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        await zaqar.ask("PUT", f"/queues/{queue}")
        async with Someone(service, "ann") as ann:
            _, heard = await ann.subscribe(f"queue:{queue}", {})
            for number in range(50):
                await zaqar.post(queue, number)
                await zaqar.ask("DELETE", f"/queues/{queue}/messages?pop=1")
            await until(lambda: len(heard.publications) == 50, "50 messages")
            assert [each.offset for each in heard.publications] == list(range(1, 51))

    asyncio.run(scenario())


def test_only_who_may_read_a_queue_follows_it(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        async with Someone(service, "ann") as ann:
            subscription = ann.client.new_subscription(f"queue:{queue}", Hears(ann.news))
            await subscription.subscribe()
            assert await ann.next() == ("unsubscribed", 103)

    asyncio.run(scenario())


def test_history_is_the_queue_itself(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        ids = await zaqar.post(queue, *"abcde")
        await zaqar.ask("DELETE", f"/queues/{queue}/messages/{ids[1]}")
        async with Someone(service, "ann") as ann:
            subscription, _ = await ann.subscribe(f"queue:{queue}", {})
            past = await subscription.history(limit=-1)
            assert [(each.offset, each.data) for each in past.publications] == [
                (1, "a"),
                (3, "c"),
                (4, "d"),
                (5, "e"),
            ]
            assert past.offset == 5
            back = await subscription.history(limit=2, reverse=True)
            assert [each.data for each in back.publications] == ["e", "d"]

    asyncio.run(scenario())


def test_publishing_to_the_channel_posts_a_message(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        async with Someone(service, "ann") as ann:
            subscription, heard = await ann.subscribe(f"queue:{queue}", {})
            await subscription.publish({"from": "ann"})
            done = called(
                service, "publish", channel=f"queue:{queue}", data=[2], idempotency_key="k"
            )
            again = called(
                service, "publish", channel=f"queue:{queue}", data=[2], idempotency_key="k"
            )
            assert done == again
            assert done["result"]["offset"] == 2
            await until(lambda: len(heard.publications) == 2, "both")
            listed = await zaqar.ask("GET", f"/queues/{queue}/messages?echo=true")
            assert [each["body"] for each in listed["messages"]] == [{"from": "ann"}, [2]]

    asyncio.run(scenario())
    refused = [
        called(service, "publish", channel=f"queue:{queue}", data=1, tags={"a": "b"}),
        called(service, "publish", channel=f"queue:{queue}", data=1, version=1),
        called(service, "history_remove", channel=f"queue:{queue}"),
        called(service, "publish", channel="queue:no name", data=1),
        called(service, "publish", channel=f"queue:{queue}", data="x" * 300_000),
    ]
    assert [each["error"]["code"] for each in refused] == [108, 108, 108, 107, 107]


def test_bodies_of_a_queue_that_is_encrypted_are_readable(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        await zaqar.ask("PUT", f"/queues/{queue}", {"_enable_encrypt_messages": True})
        async with Someone(service, "ann") as ann:
            subscription, _ = await ann.subscribe(f"queue:{queue}", {})
            await zaqar.post(queue, {"secret": 1})
            assert await ann.next() == ("publication", {"secret": 1})
            past = await subscription.history(limit=1)
            assert past.publications[0].data == {"secret": 1}

    asyncio.run(scenario())


def test_projects_follow_their_own_queues(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        here, there = Zaqar(service), Zaqar(service, "elsewhere/x")
        async with (
            Someone(service, "ann") as ann,
            Someone(service, "bob", project="elsewhere/x") as bob,
        ):
            await ann.subscribe(f"queue:{queue}", {})
            await bob.subscribe(f"queue:{queue}", {})
            await there.post(queue, "there")
            await here.post(queue, "here")
            assert await ann.next() == ("publication", "here")
            assert await bob.next() == ("publication", "there")

    asyncio.run(scenario())


def test_who_missed_a_deleted_message_is_told_that_it_cannot_be_recovered(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        await zaqar.post(queue, "a")
        async with Someone(service, "ann") as ann:
            subscription, heard = await ann.subscribe(f"queue:{queue}", {})
            await subscription.unsubscribe()
            await zaqar.post(queue, "b", "c")
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert heard.recovered == [True]
            assert [each.data for each in heard.publications] == ["b", "c"]
            await subscription.unsubscribe()
            (gone,) = await zaqar.post(queue, "d")
            await zaqar.post(queue, "e")
            await zaqar.ask("DELETE", f"/queues/{queue}/messages/{gone}")
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert heard.recovered == [True, False]
            await zaqar.post(queue, "f")
            await until(lambda: len(heard.publications) == 3, "what came then")
            assert heard.publications[-1].offset == 6

    asyncio.run(scenario())


def test_a_queue_that_begins_a_new_life_is_told_from_the_old_one(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        await zaqar.post(queue, "a", "b")
        async with Someone(service, "ann") as ann:
            _, heard = await ann.subscribe(f"queue:{queue}", {})
            await zaqar.ask("DELETE", f"/queues/{queue}")
            await zaqar.post(queue, "new")
            await until(lambda: heard.recovered == [False], "to be told")
            await zaqar.post(queue, "newer")
            await until(lambda: len(heard.publications) > 0, "what came then")
            assert heard.publications[-1].data == "newer"

    asyncio.run(scenario())


def test_a_message_that_is_gone_from_between_is_missing(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        async with Someone(service, "ann") as ann:
            # From before the queue's first message.
            subscription, heard = await ann.subscribe(f"queue:{queue}", {})
            await subscription.unsubscribe()
            await zaqar.post(queue, *"abc")
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert [each.data for each in heard.publications] == list("abc")
            await subscription.unsubscribe()
            ids = await zaqar.post(queue, *"def")
            await zaqar.ask("DELETE", f"/queues/{queue}/messages/{ids[1]}")
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert heard.recovered == [True, False]

    asyncio.run(scenario())


def test_a_life_that_was_never_seen_is_not_taken_for_another(
    service: servers.Service, queue: str
) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        async with Someone(service, "ann") as ann:
            subscription, heard = await ann.subscribe(f"queue:{queue}", {})
            await zaqar.post(queue, *"ab")
            await until(lambda: len(heard.publications) == 2, "both")
            await subscription.unsubscribe()
            await zaqar.ask("DELETE", f"/queues/{queue}")
            await zaqar.post(queue, *"xyz")
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert heard.recovered == [False]

    asyncio.run(scenario())


def test_more_than_a_page_is_recovered(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        zaqar = Zaqar(service)
        async with Someone(service, "ann") as ann:
            subscription, heard = await ann.subscribe(f"queue:{queue}", {})
            await subscription.unsubscribe()
            for number in range(40):
                await zaqar.post(queue, str(number) * 30_000)
            await subscription.subscribe()
            await subscription.ready(timeout=60)
            assert heard.recovered == [True]
            assert [each.offset for each in heard.publications] == list(range(1, 41))

    asyncio.run(scenario())


def test_who_follows_a_queue_is_present(service: servers.Service, queue: str) -> None:
    async def scenario() -> None:
        async with Someone(service, "ann") as ann:
            await ann.subscribe(f"queue:{queue}", {})
            found = called(service, "presence", channel=f"queue:{queue}")["result"]["presence"]
            assert [each["user"] for each in found.values()] == ["ann"]
            listed = called(service, "channels", pattern="queue:*")["result"]["channels"]
            assert listed[f"queue:{queue}"] == {"num_clients": 1}

    asyncio.run(scenario())


def test_a_queue_is_followed_across_a_restart_of_the_service_and_nothing_is_missing(
    queue: str,
) -> None:
    """Posted by python-zaqarclient, followed by centrifuge-python."""
    port = servers.free_port()

    def posted(service: servers.Service, numbers: range) -> None:
        auth = {"backend": "noauth", "options": {"os_project_id": "default"}}
        zaqar = zaqarclient.Client(service.url, 2, conf={"auth_opts": auth})
        for number in numbers:
            zaqar.queue(queue).post([{"body": number, "ttl": 300}])

    async def scenario(uri: str) -> None:
        with contextlib.ExitStack() as stack:
            first = servers.service(uri, workers=2, options=OPTIONS, port=port)
            service = stack.enter_context(first)
            ann = Someone(service, "ann")
            await ann.client.connect()
            await ann.client.ready()
            _, heard = await ann.subscribe(f"queue:{queue}", {})
            await asyncio.to_thread(posted, service, range(20))
            await asyncio.to_thread(stack.close)
            with servers.service(uri, options=OPTIONS) as other:  # on another port
                await asyncio.to_thread(posted, other, range(20, 40))
            again = servers.service(uri, workers=2, options=OPTIONS, port=port)
            await asyncio.to_thread(stack.enter_context, again)
            await asyncio.to_thread(posted, service, range(40, 60))
            await until(lambda: len(heard.publications) >= 60, "all of it")
            assert [each.data for each in heard.publications] == list(range(60))
            assert [each.offset for each in heard.publications] == list(range(1, 61))
            assert heard.recovered == [True]
            await ann.client.disconnect()

    with servers.redis_server() as server:
        asyncio.run(scenario(server.uri))


def test_who_follows_queues_that_are_not_there_misses_none_whichever_pools_they_get() -> None:
    async def made_and_used(zaqar: Zaqar, queue: str) -> None:
        """The first message is taken at once."""
        await zaqar.post(queue, 1)
        await zaqar.ask("DELETE", f"/queues/{queue}/messages?pop=1")
        await zaqar.post(queue, 2, 3)

    async def scenario(service: servers.Service, *uris: str) -> None:
        zaqar = Zaqar(service)
        for number, uri in enumerate(uris):
            await zaqar.ask("PUT", f"/pools/p{number}", {"uri": uri, "weight": 100})
        async with Someone(service, "ann") as ann, Someone(service, "bob") as bob:
            for turn in range(3):
                queues = [f"q-{turn}-{number}" for number in range(10)]
                followed = [
                    (await someone.subscribe(f"queue:{queue}", {}))[1]
                    for queue in queues
                    for someone in (ann, bob)
                ]
                await asyncio.gather(*(made_and_used(zaqar, queue) for queue in queues))
                for heard in followed:
                    await until(lambda heard=heard: len(heard.publications) >= 3, "3 messages")
                    assert [each.data for each in heard.publications] == [1, 2, 3]
                    assert [each.offset for each in heard.publications] == [1, 2, 3]
                    assert heard.recovered == []
            # Also who was away when the queue was made.
            away, heard = await ann.subscribe("queue:later", {})
            await away.unsubscribe()
            await zaqar.post("later", 1, 2)
            await away.subscribe()
            await away.ready(timeout=60)
            await until(lambda: len(heard.publications) == 2, "both")
            assert heard.recovered == [True]

    with contextlib.ExitStack() as stack:
        home, *pools = [stack.enter_context(servers.redis_server()).uri for _ in range(3)]
        service = stack.enter_context(servers.service(home, workers=2, options=OPTIONS))
        asyncio.run(scenario(service, *pools))
