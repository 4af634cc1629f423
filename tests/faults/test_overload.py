# SPDX-License-Identifier: Apache-2.0
"""Too much at once is refused at once: nothing is queued without a bound."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests import servers
from tests.faults import load, polls

CLIENTS = 16
IN_FLIGHT = 4


def post(service: servers.Service, project: str, body: str) -> httpx.Response:
    url = f"{service.url}/v2/queues/q/messages"
    document = {"messages": [{"body": body}]}
    return httpx.post(url, json=document, headers=load.headers(project), timeout=100)


def statuses(waiting: list[polls.Poll]) -> list[int]:
    return [poll.answer.result()[0] for poll in waiting if poll.answer.done()]


async def free_again(service: servers.Service, project: str) -> None:
    """Until three may wait, the service has noticed that those before have left."""
    async with asyncio.timeout(60):
        while True:
            async with polls.Crowd(service, project, "q", wait=1) as crowd:
                trying = await crowd.claim(3)
                await polls.answered(trying, 3)
                if 503 not in statuses(trying):
                    return


@pytest.mark.parametrize(
    ("options", "size", "accepted"),
    [
        ({"in_flight": IN_FLIGHT}, 1, IN_FLIGHT),
        # A store that does not read takes a socket buffer full, then the backlog, no more.
        ({"backlog_bytes": 1024 * 1024}, 200_000, 8),
    ],
)
def test_more_than_the_store_may_owe_is_refused(
    project: str, options: dict[str, object], size: int, accepted: int
) -> None:
    with servers.redis_server() as redis:
        # Nothing is given up for being late: who has an answer before the store goes on was
        # refused.
        settings = {"redis": {"timeout": 300, **options}} | load.OPTIONS
        with servers.service(redis.uri, options=settings) as service:
            assert post(service, project, "first").status_code == 201
            redis.signal(signal.SIGSTOP)
            with ThreadPoolExecutor(CLIENTS) as pool:
                asked = [pool.submit(post, service, project, "x" * size) for _ in range(CLIENTS)]
                servers.wait_for(
                    lambda: sum(one.done() for one in asked) >= CLIENTS - accepted, "refusals"
                )
                refused = [one.result() for one in asked if one.done()]
                redis.signal(signal.SIGCONT)
                counts = Counter(one.result().status_code for one in asked)
            assert {answer.status_code for answer in refused} == {503}
            assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
            # How much a socket takes is not known, nor how many have been asked by then.
            assert 0 < counts[201] <= accepted
            assert counts[201] + counts[503] == CLIENTS
            # What was refused was not done, what was accepted was.
            assert len(load.held(service, project, "q")) == 1 + counts[201]
            assert post(service, project, "last").status_code == 201


def test_more_than_may_wait_are_refused(redis_server: servers.RedisServer, project: str) -> None:
    async def scenario(service: servers.Service) -> None:
        async with polls.Crowd(service, project, "q") as crowd:
            waiting = await crowd.claim(5)
            await polls.answered(waiting, 2)
            assert statuses(waiting) == [503] * 2
            # Refused is waiting, not the queue; and places that are left can be taken.
            assert (await asyncio.to_thread(post, service, project, "x")).status_code == 201
            await polls.answered(waiting, 3)
            await asyncio.gather(*[poll.leave() for poll in waiting])
            await free_again(service, project)
            again = await crowd.claim(2)
            for body in "yz":
                await asyncio.to_thread(post, service, project, body)
            await polls.answered(again, 2)
            assert statuses(again) == [201] * 2

    options = {"transport": {"max_waiting": 3}}
    with servers.service(redis_server.uri, options=options) as service:
        asyncio.run(scenario(service))
