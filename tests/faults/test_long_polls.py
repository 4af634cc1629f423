# SPDX-License-Identifier: Apache-2.0
"""Waiting clients cost Redis nothing, and disconnected ones take no message."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.faults import load, polls
from tests.support import servers
from tests.support.tiers import in_gate

WAITERS = 500


def post(service: servers.RunningService, project: str, count: int = 1) -> None:
    document = {"messages": [{"body": number} for number in range(count)]}
    url = f"{service.url}/v2/queues/q/messages"
    httpx.post(url, json=document, headers=load.headers(project), timeout=60).raise_for_status()


def stats(service: servers.RunningService, project: str) -> Any:
    url = f"{service.url}/v2/queues/q/stats"
    return httpx.get(url, headers=load.headers(project), timeout=60).json()["messages"]


def connections(redis: servers.RedisServer) -> set[int]:
    """Returns the ids of all but the one that asks."""
    with redis.client() as console:
        return {int(each["id"]) for each in console.client_list()} - {console.client_id()}


async def test_one_message_wakes_one_of_many_long_polls(project: str) -> None:
    # Longer than the test, on a busy machine too.
    options = {"transport": {"max_wait": 300}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        polls.record_commands(redis)
        async with polls.LongPollClients(service, project, "q", wait=300) as clients:
            await clients.claim(1)
            before = await polls.settled(redis, 2)
            held = connections(redis)
            await clients.claim(WAITERS - 1)
            # Each client polls when it arrives, and again when it is in the wait line.
            await polls.settled(redis, before + 2 * (WAITERS - 1))
            # Redis may not have noticed yet that those of the test itself were closed.
            await asyncio.to_thread(
                servers.wait_for, lambda: connections(redis) <= held, "no connection to be new"
            )

            polls.record_commands(redis)
            began = time.monotonic()
            for number in range(1, 6):
                await asyncio.to_thread(post, service, project)
                await polls.answered(clients.polls, number)
            await asyncio.sleep(5.5)  # the slow poll has run, too
            done = [poll for poll in clients.polls if poll.answer.done()]
            assert [poll.answer.result()[0] for poll in done] == [201] * 5
            # A claim and a poll of the next in line: two per message; a slow poll every 5 s.
            slow = (time.monotonic() - began) / 5
            assert 10 <= polls.recorded_claims(redis) < 13 + 2 * slow

            await asyncio.to_thread(post, service, project, 20)
            await polls.answered(clients.polls, 25)


async def test_disconnected_long_poll_takes_no_message(project: str) -> None:
    # Longer than the test waits: only hints end a long poll.
    options = {"transport": {"max_wait": 300}}
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as service:
        polls.record_commands(redis)
        async with polls.LongPollClients(service, project, "q", wait=300) as clients:
            leaving = await clients.claim(20)
            (staying,) = await clients.claim(1)
            await polls.settled(redis, 42)
            await asyncio.gather(*[poll.leave() for poll in leaving])
            await polls.settled(redis, 42)
            await asyncio.to_thread(post, service, project)
            status, document = await asyncio.wait_for(staying.answer, 60)
            assert (status, len(document["messages"])) == (201, 1)

            before = await polls.settled(redis, 43)
            (alone,) = await clients.claim(1)
            await polls.settled(redis, before + 2)
            await alone.leave()
            await polls.settled(redis, before + 2)
            await asyncio.to_thread(post, service, project)
        found = await asyncio.to_thread(stats, service, project)
        assert (found["claimed"], found["free"]) == (1, 1)


@pytest.mark.parametrize("workers", in_gate([1, 2], 2))
async def test_long_poll_disconnected_while_woken_passes_the_wakeup_on(
    workers: int, project: str
) -> None:
    with servers.redis_server() as redis, servers.service(redis.uri, workers=workers) as service:
        polls.record_commands(redis)
        for round_ in range(5):
            # A project of its own: messages claimed by a client that left too late stay held.
            own = f"{project}-{round_}"
            async with polls.LongPollClients(service, own, "q") as clients:
                before = polls.recorded_claims(redis)
                leaving = await clients.claim(10)
                staying = await clients.claim(10)
                await polls.settled(redis, before + 40)
                # More messages than waiting clients: those who leave too late may hold some.
                await asyncio.gather(
                    asyncio.to_thread(post, service, own, 20), *[poll.leave() for poll in leaving]
                )
                await polls.answered(staying, len(staying))
                assert {poll.answer.result()[0] for poll in staying} == {201}


def test_long_polls_get_messages_whose_delay_ended(project: str) -> None:
    """No post wakes the clients when a delay ends: the first in line polls for all."""

    async def scenario(redis: servers.RedisServer, service: servers.RunningService) -> None:
        polls.record_commands(redis)
        async with polls.LongPollClients(service, project, "q") as clients:
            waiting = await clients.claim(20)
            before = await polls.settled(redis, 40)
            await asyncio.to_thread(post, service, project, 10)
            await polls.answered(waiting, 10)
            assert polls.recorded_claims(redis) - before < 60

    with servers.redis_server() as redis, servers.service(redis.uri, workers=2) as service:
        url = f"{service.url}/v2/queues/q"
        delayed = {"_default_message_delay": 2}
        httpx.put(url, json=delayed, headers=load.headers(project)).raise_for_status()
        asyncio.run(scenario(redis, service))
