# SPDX-License-Identifier: Apache-2.0
"""The client, and a network and a service that fail; and stock Zaqar."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Iterator

import pytest
from zaqar_redis_client import AsyncClient, LeaseLost, Unavailable, Unsupported, ZaqarError

from tests.client.working import until
from tests.stock.harness import StockZaqarStorage
from tests.support import servers
from tests.support.http_handlers import QuietHandler, local_server
from tests.support.tcp_proxy import tcp_proxy
from tests.upstream import stock


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


async def test_request_that_got_no_answer_is_repeated_if_that_is_safe(
    running: servers.RunningService, project: str
) -> None:
    async with (
        tcp_proxy(_port(running.url)) as (proxy, port),
        AsyncClient(f"http://127.0.0.1:{port}", project) as client,
    ):
        queue = client.queue("q")
        await queue.post("before")
        await client.close()  # the next request needs a new connection
        proxy.drop(2)
        await asyncio.gather(queue.post("one"), queue.post("two"))
        assert [each.body async for each in queue.messages()] == ["before", "one", "two"]
        await client.close()
        proxy.drop(1)
        with pytest.raises(Unavailable) as failed:
            await queue.claim()
        assert failed.value.may_be_done
        claim = await queue.claim(3)
        assert claim
        await client.close()
        proxy.drop(1)
        await asyncio.gather(*(claim.delete(each.id) for each in claim.messages))
        assert (await queue.stats())["messages"]["total"] == 0


async def test_request_that_others_could_suffer_from_twice_is_sent_once(
    running: servers.RunningService, project: str
) -> None:
    async with (
        tcp_proxy(_port(running.url)) as (proxy, port),
        AsyncClient(f"http://127.0.0.1:{port}", project) as client,
    ):
        queue = client.queue("q")
        await queue.post_many([1, 2])
        claim = await queue.claim(2)
        assert claim
        schedule = {"queue": "q", "cron": "@yearly", "message": {"body": 1}}
        for call in (
            functools.partial(claim.release, delay=0),
            queue.pop,
            queue.purge,
            queue.delete,
            functools.partial(queue.subscribe, "queue:other"),
            functools.partial(client.set_schedule, "s", **schedule),
            functools.partial(client.delete_schedule, "s"),
        ):
            await client.close()  # the next request needs a new connection
            proxy.drop(1)
            with pytest.raises(Unavailable) as failed:
                await call()
            assert failed.value.may_be_done
        assert (await queue.stats())["messages"]["claimed"] == 2


async def test_claim_that_is_ended_twice_is_ended(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.post(1)
    claim = await queue.claim()
    assert claim
    await claim.release()
    await claim.release()
    assert (await queue.stats())["messages"]["free"] == 1


async def test_service_that_is_away_is_named_after_the_time_to_try(project: str) -> None:
    port = servers.free_port()  # nobody listens there, or will
    async with AsyncClient(f"http://127.0.0.1:{port}", project, retry_for=0.3) as client:
        with pytest.raises(Unavailable, match=str(port)) as failed:
            await client.queue("q").post(1)
    assert not failed.value.may_be_done


@pytest.fixture(scope="module")
def stock_zaqar() -> Iterator[str]:
    with servers.redis_server() as server:
        uri = StockZaqarStorage.uri(server)
        with stock.zaqar(uri, target="redis") as url:
            yield url


async def test_stock_zaqar_is_served_as_far_as_it_can_and_the_rest_is_named(
    stock_zaqar: str, project: str
) -> None:
    async with AsyncClient(stock_zaqar, project) as client:
        queue = client.queue("q")
        assert await queue.create()
        await queue.post_many([1, 2, 3])
        await queue.post({"n": 4}, ttl=600)
        assert [each.body async for each in queue.messages()] == [1, 2, 3, {"n": 4}]
        claim = await queue.claim(2, wait=1)
        assert claim
        first, second = claim.messages
        await asyncio.gather(claim.delete(first.id), claim.delete(second.id))
        await claim.renew()
        await claim.release()
        with pytest.raises(LeaseLost):
            await claim.renew()
        async for lease in queue.consume(prefetch=1):
            await lease.ack()
            break
        assert len(await queue.pop(5)) == 1
        for wrong in (
            queue.post(b"bytes"),
            queue.post(1, priority=3),
            client.set_schedule("s", queue="q", cron="* * * * *", message={"body": 1}),
        ):
            with pytest.raises(Unsupported, match="stock Zaqar"):
                await wrong


async def test_stock_zaqar_is_not_asked_for_what_it_would_take_without_effect(
    stock_zaqar: str, project: str
) -> None:
    async with AsyncClient(stock_zaqar, project) as client:
        queue, topic = client.queue("q"), client.topic("t")
        assert await queue.create(_default_message_ttl=600, _max_claim_count=2, colour="red")
        limits = {"_group_mode": "ordered", "_priorities": "strict", "_max_messages": 1}
        for wrong, named in (
            (client.queue("other").create(**limits, _flavor=None), ", ".join(limits)),
            (queue.update(_paused="all", colour="blue"), "_paused"),
            (topic.create(), "topics"),
            (topic.post(1), "topics"),
            (anext(topic.messages()), "topics"),
            (anext(client.schedules()), "schedules"),
            (queue.post("text", content_type="text/plain"), "more of a message than body"),
        ):
            with pytest.raises(Unsupported, match=f"^stock Zaqar has no {named}"):
                await wrong
        assert (await queue.metadata()).items() >= {"colour": "red", "_max_claim_count": 2}.items()
        assert [each async for each in client.queues()] == ["q"]


async def test_claim_of_stock_zaqar_waits_for_messages(stock_zaqar: str, project: str) -> None:
    async with AsyncClient(stock_zaqar, project) as client:
        queue = client.queue("q")
        await queue.create()
        began = time.monotonic()
        assert await queue.claim(wait=1.5) is None
        assert time.monotonic() - began >= 1.5
        waiting = asyncio.create_task(queue.claim(wait=60))
        await queue.stats()  # meanwhile it has asked once
        await queue.post("late")
        claim = await waiting
        assert claim
        assert claim.messages[0].body == "late"


async def test_single_queue_and_message_of_stock_zaqar_are_listed_once(
    stock_zaqar: str, project: str
) -> None:
    async with AsyncClient(stock_zaqar, project) as client:
        await client.queue("q").create()
        await client.queue("q").post("one")
        assert [each async for each in client.queues()] == ["q"]
        assert [each.body async for each in client.queue("q").messages()] == ["one"]


async def test_requests_of_a_client_that_closes_end_and_open_nothing(
    running: servers.RunningService, project: str
) -> None:
    async with tcp_proxy(running.port) as (proxy, port):
        proxy.hold()
        client = AsyncClient(f"http://127.0.0.1:{port}", project, connections=1)
        asked = [asyncio.create_task(client.queue("q").stats()) for _ in range(3)]
        await until(client._connection._places.locked)
        await client.close()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in outcomes] == [Unavailable] * 3
        assert client._connection.session is None


async def test_answers_of_something_else_are_errors_of_the_client(project: str) -> None:
    class Page(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, b"{}" if self.path == "/openapi.json" else b"<html>")

        def do_POST(self) -> None:
            documents = json.loads(self.body()).get("messages", [])
            one = b'{"resources": ["/v2/queues/q/messages/1"]}'
            self.answer(201, one if len(documents) == 2 else b"<html>")

    with servers.http_server(local_server(Page)) as page:
        url = f"http://127.0.0.1:{page.server_port}"
        async with AsyncClient(url, project, retry_for=0) as client:
            queue = client.queue("q")
            for asked in (queue.stats(), queue.post(1), queue.claim()):
                with pytest.raises(Unavailable, match="no JSON: b'<html>'"):
                    await asked
            with pytest.raises(ZaqarError, match="2 messages were posted, 1 answered"):
                await asyncio.gather(queue.post(1), queue.post(2))
