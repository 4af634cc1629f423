# SPDX-License-Identifier: Apache-2.0
"""Waiting for messages costs Redis nothing, and who left takes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests import servers
from tests.faults import load, polls

WAITERS = 500


def post(service: servers.Service, project: str, count: int = 1) -> None:
    document = {"messages": [{"body": number} for number in range(count)]}
    url = f"{service.url}/v2/queues/q/messages"
    httpx.post(url, json=document, headers=load.headers(project)).raise_for_status()


def stats(service: servers.Service, project: str) -> Any:
    url = f"{service.url}/v2/queues/q/stats"
    return httpx.get(url, headers=load.headers(project)).json()["messages"]


def connections(redis: servers.RedisServer) -> int:
    with redis.client() as console:
        return len(console.client_list())


def test_one_message_wakes_one_of_many(project: str) -> None:
    async def scenario(redis: servers.RedisServer, service: servers.Service) -> None:
        async with polls.Crowd(service, project, "q") as crowd:
            await crowd.claim(1)
            before = await polls.settled(redis, 2)
            held = connections(redis)
            await crowd.claim(WAITERS - 1)
            # Each looks when it comes, and again when it stands in line.
            looked = await polls.settled(redis, before + 2 * (WAITERS - 1))
            assert connections(redis) == held

            for number in range(1, 6):
                await asyncio.to_thread(post, service, project)
                await polls.answered(crowd.polls, number)
            await asyncio.sleep(5.5)  # the slow poll has come by, too
            done = [poll for poll in crowd.polls if poll.answer.done()]
            assert [poll.answer.result()[0] for poll in done] == [201] * 5
            # A post, a claim, a look of the next in line: three a message, a few polls, and
            # where the queue lives.
            assert polls.calls(redis) - looked < 40

            await asyncio.to_thread(post, service, project, 20)
            await polls.answered(crowd.polls, 25)

    with servers.redis_server() as redis, servers.service(redis.uri) as service:
        asyncio.run(scenario(redis, service))


def test_who_left_takes_no_message(project: str) -> None:
    async def scenario(redis: servers.RedisServer, service: servers.Service) -> None:
        async with polls.Crowd(service, project, "q", wait=300) as crowd:
            leaving = await crowd.claim(20)
            (staying,) = await crowd.claim(1)
            await polls.settled(redis, 42)
            await asyncio.gather(*[poll.leave() for poll in leaving])
            await polls.settled(redis, 42)
            await asyncio.to_thread(post, service, project)
            status, document = await asyncio.wait_for(staying.answer, 60)
            assert (status, len(document["messages"])) == (201, 1)

            (alone,) = await crowd.claim(1)
            await polls.settled(redis, 45)
            await alone.leave()
            await polls.settled(redis, 45)
            await asyncio.to_thread(post, service, project)
        found = await asyncio.to_thread(stats, service, project)
        assert (found["claimed"], found["free"]) == (1, 1)

    # Longer than anything here waits for them: only news answer.
    options = {"transport": {"max_wait": 300}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        asyncio.run(scenario(redis, service))


@pytest.mark.parametrize("workers", [1, 2])
def test_who_leaves_while_woken_hands_the_news_on(workers: int, project: str) -> None:
    async def scenario(redis: servers.RedisServer, service: servers.Service) -> None:
        for round_ in range(5):
            # A project of its own: messages taken by who left just too late stay held.
            own = f"{project}-{round_}"
            async with polls.Crowd(service, own, "q") as crowd:
                before = polls.calls(redis)
                leaving = await crowd.claim(10)
                staying = await crowd.claim(10)
                await polls.settled(redis, before + 40)
                # Room for those who leave just after a message was theirs.
                await asyncio.gather(
                    asyncio.to_thread(post, service, own, 20),
                    *[poll.leave() for poll in leaving],
                )
                await polls.answered(staying, len(staying))
                assert {poll.answer.result()[0] for poll in staying} == {201}

    with servers.redis_server() as redis, servers.service(redis.uri, workers=workers) as service:
        asyncio.run(scenario(redis, service))


def test_those_who_wait_get_what_a_lapsed_delay_frees(project: str) -> None:
    """Nobody posts when a delay ends: the first in line sees to it for all."""

    async def scenario(redis: servers.RedisServer, service: servers.Service) -> None:
        async with polls.Crowd(service, project, "q") as crowd:
            waiting = await crowd.claim(20)
            before = await polls.settled(redis, 40)
            await asyncio.to_thread(post, service, project, 10)
            await polls.answered(waiting, 10)
            assert polls.calls(redis) - before < 60

    with servers.redis_server() as redis, servers.service(redis.uri, workers=2) as service:
        url = f"{service.url}/v2/queues/q"
        delayed = {"_default_message_delay": 2}
        httpx.put(url, json=delayed, headers=load.headers(project)).raise_for_status()
        asyncio.run(scenario(redis, service))
