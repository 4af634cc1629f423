# SPDX-License-Identifier: Apache-2.0
"""The store dies, pauses, or loses data: the service reports it and recovers."""

from __future__ import annotations

import asyncio
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import httpx
import pytest
import uvloop

from tests.faults import load
from tests.support import servers
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis import errors
from zaqar_redis.keyspace import client, keys
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import NewMessage, Queue, Quota
from zaqar_redis.service.usage import UsageMeter
from zaqar_redis.storage import pools
from zaqar_redis.storage.redis import create


def wait_for_status(clients: load.QueueLoad, status: int, count: int) -> None:
    servers.wait_for(lambda: clients.statuses[status] >= count, f"{count} answers {status}")


def test_killed_store_loses_and_duplicates_nothing(project: str) -> None:
    with (
        servers.redis_server(fsync="always") as redis,
        servers.service(redis.uri, workers=2, options=load.OPTIONS) as service,
    ):
        with load.QueueLoad(service, project) as clients:
            clients.wait_for_more()
            for _ in range(2):
                redis.signal(signal.SIGKILL)
                refused = clients.statuses[503]
                wait_for_status(clients, 503, refused + 50)
                redis.start()
                clients.wait_for_more()
        clients.check()
        assert clients.broken == 0


def test_requests_fail_at_once_while_the_store_is_dead(project: str) -> None:
    # A wait for the store, or for messages, would take longer than the test.
    options = {"redis": {"timeout": 300}, "transport": {"max_wait": 300}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        redis.signal(signal.SIGKILL)
        url = f"{service.url}/v2/queues/q/messages"
        with httpx.Client(headers=load.headers(project), timeout=60) as client:
            servers.wait_for(lambda: client.get(url).status_code == 503, "the loss to be noticed")
            for path in ("messages", "messages?wait=300", "stats"):
                answer = client.get(f"{service.url}/v2/queues/q/{path}")
                assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1")
            ping = client.get(f"{service.url}/v2/ping")
            assert (ping.status_code, ping.headers.get("Retry-After")) == (503, "1")
            assert client.get(f"{service.url}/").status_code == 300


def test_requests_to_a_paused_store_fail_within_the_timeout(project: str) -> None:
    timeout = 0.5
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, options={"redis": {"timeout": timeout}}) as service,
    ):
        url = f"{service.url}/v2/queues/q/messages"
        document = {"messages": [{"body": 1}]}

        def post() -> tuple[int, str | None]:
            answer = httpx.post(url, headers=load.headers(project), json=document, timeout=60)
            return answer.status_code, answer.headers.get("Retry-After")

        # A busy machine may be as slow as a store that is paused.
        servers.wait_for(lambda: post()[0] == 201, "the first post")
        redis.signal(signal.SIGSTOP)
        with ThreadPoolExecutor(8) as pool:
            answers = [future.result() for future in [pool.submit(post) for _ in range(24)]]
        redis.signal(signal.SIGCONT)

        assert set(answers) == {(503, "1")}
        servers.wait_for(lambda: post()[0] == 201, "service to resume")


async def test_partial_listing_has_names_of_a_lost_pool_in_order(project: str) -> None:
    with servers.redis_server() as default, servers.redis_server() as lost:
        driver = pools.create(default.uri, default.uri, PATIENT_OPTIONS)
        await driver.start()
        listing = driver.queues.list_partially

        async def names(limit: int, wanted: str = "") -> list[str]:
            found: list[Queue] = []
            after = ""
            while True:
                page = await listing(project, after, limit, lambda queue: wanted in queue.name)
                assert page.unavailable == ("p1",)
                if not page.items:
                    assert {each.unavailable for each in found if "far" in each.name} <= {"p1"}
                    assert {each.unavailable for each in found if "near" in each.name} <= {""}
                    return [each.name for each in found]
                found += page.items
                after = page.marker

        near = [f"{number:02}-near" for number in range(0, 30, 2)]
        far = [f"{number:02}-far" for number in range(1, 30, 2)]
        for name in near:
            await driver.queues.create(project, name, {"colour": "blue"})
        record = Pool(name="p1", uri=lost.uri, weight=100)
        await driver.control.pools.put(record, canonical=lost.uri)
        for name in far:
            await driver.queues.create(project, name, {})
        page = await listing(project, "", 100, None)
        assert (len(page.items), page.unavailable) == (30, ())
        lost.signal(signal.SIGKILL)
        for limit in (1, 7, 100):
            assert await names(limit) == sorted(near + far)
        assert await names(3, "far") == far
        assert await names(3, "near") == near
        with pytest.raises(errors.StoreUnavailable):
            await driver.queues.list(project, "", 100, None)
        await driver.close()


async def test_usage_counts_what_is_known_while_a_pool_is_lost(project: str) -> None:
    with servers.redis_server(fsync="always") as lost, servers.redis_server() as default:
        driver = pools.create(default.uri, default.uri, PATIENT_OPTIONS)
        await driver.start()

        async def fill(*names: str) -> None:
            for name in names:
                await driver.queues.create(project, name, {})
                message = NewMessage(body=b"1")
                await driver.messages.post(
                    project, name, [message], client="c", default_ttl=600, size=1
                )

        await fill("near", "topic:near")
        record = Pool(name="p1", uri=lost.uri, weight=100)
        await driver.control.pools.put(record, canonical=lost.uri)
        await fill("far", "topic:far")
        quota = Quota(requests=-1, queues=9, messages=9, bytes=-1, sockets=-1)
        known, new = (UsageMeter(driver.queues, project, quota) for _ in range(2))
        await known.measure()
        assert (known.usage.queues, known.usage.messages, known.away) == (4, 4, frozenset())
        lost.signal(signal.SIGKILL)
        for meter, messages in ((known, 4), (new, 2)):
            await meter.measure()
            assert (meter.usage.queues, meter.usage.messages) == (4, messages)
            assert meter.away == {"p1"}
        await driver.queues.purge(project, "near")
        await known.measure()
        assert (known.usage.queues, known.usage.messages) == (4, 3)
        lost.start()
        async with asyncio.timeout(60):
            while new.away:
                await new.measure()
        assert (new.usage.queues, new.usage.messages) == (4, 3)
        await driver.close()


def test_flushed_scripts_and_data_are_no_errors(project: str) -> None:
    with servers.redis_server() as redis, servers.service(redis.uri, workers=2) as service:
        with load.QueueLoad(service, project) as clients, redis.client() as console:
            for round_ in range(30):
                (console.flushall if round_ % 3 == 0 else console.script_flush)()
                clients.wait_for_more(20)
        # A flushed claim does not exist any more, so deletions with it fail.
        assert [text for text in clients.wrong if ": 400 " not in text] == []
        assert clients.statuses[503] == clients.statuses[500] == clients.broken == 0


async def test_long_polls_are_woken_again_after_a_store_outage(project: str) -> None:
    """Hints wake long polls as before the outage, not only the slow poll."""

    with servers.redis_server() as redis:
        driver = create(redis.uri, {"timeout": 1.0})
        await driver.start()
        hinted = asyncio.Event()

        def hint(_: int) -> None:
            hinted.set()

        try:
            await driver.feed.watch(project, "before", hint)
            redis.signal(signal.SIGKILL)
            await driver.feed.watch(project, "meanwhile", hint)
            driver.feed.unwatch(project, "meanwhile", hint)
            await asyncio.to_thread(redis.start)
            for queue in ("before", "meanwhile", "after"):
                await driver.feed.watch(project, queue, hint)
                await asyncio.sleep(1)  # the hints of the reconnection have arrived by now
                hinted.clear()
                with redis.client() as console:
                    console.publish(keys.of_queue(project, queue).feed, 1)
                await asyncio.wait_for(hinted.wait(), 60)
        finally:
            await driver.close()


def test_replies_just_after_the_timeout_do_not_break_the_connection() -> None:
    """The store resumes at the moment when commands time out."""
    timeout = 0.2
    connections = 50

    async def works(one: client.AsyncClient) -> bool:
        try:
            return bool(await one.command("PING"))
        except errors.Unavailable:
            return False

    async def keep_asking(one: client.AsyncClient) -> None:
        while True:
            if not await works(one):
                await asyncio.sleep(0.01)

    async def scenario(redis: servers.RedisServer) -> None:
        settings = BatchSettings(timeout=timeout, backoff=0.01)
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(client.connected(redis.uri, settings))
                for _ in range(connections)
            ]
            asking = [asyncio.create_task(keep_asking(one)) for one in clients for _ in range(20)]
            for _ in range(14):
                redis.signal(signal.SIGSTOP)
                await asyncio.sleep(random.uniform(1.01 * timeout, 1.13 * timeout))
                redis.signal(signal.SIGCONT)
                await asyncio.sleep(0.1)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            dead = clients
            async with asyncio.timeout(60):
                while dead:
                    await asyncio.sleep(0.1)
                    dead = [one for one in dead if not await works(one)]

    with servers.redis_server() as redis:
        uvloop.run(scenario(redis))  # the event loop of the workers
