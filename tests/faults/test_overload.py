# SPDX-License-Identifier: Apache-2.0
"""Excess load is refused at once: no backlog is unbounded."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.faults import load, polls
from tests.support import servers
from tests.support.backends import Backend
from tests.websocket.peers import api_peer

CLIENTS = 16
IN_FLIGHT = 4


def post(service: servers.RunningService, project: str, body: str) -> httpx.Response:
    url = f"{service.url}/v2/queues/q/messages"
    document = {"messages": [{"body": body}]}
    return httpx.post(url, json=document, headers=load.headers(project), timeout=100)


def statuses(waiting: list[polls.PendingClaim]) -> list[int]:
    return [poll.answer.result()[0] for poll in waiting if poll.answer.done()]


async def wait_for_free_waits(service: servers.RunningService, project: str) -> None:
    """Waits until three clients may wait: the service has noticed the disconnects."""
    async with asyncio.timeout(60):
        while True:
            async with polls.LongPollClients(service, project, "q", wait=1) as clients:
                trying = await clients.claim(3)
                await polls.answered(trying, 3)
                if 503 not in statuses(trying):
                    return


@pytest.mark.parametrize(
    ("options", "size", "accepted"),
    [
        ({"in_flight": IN_FLIGHT}, 1, IN_FLIGHT),
        # A store that does not read accepts a full socket buffer, which holds one of them; then a
        # write, and then the backlog: five each, of as many as come in one turn of the loop.
        ({"backlog_bytes": 1024 * 1024}, 200_000, 11),
    ],
)
def test_requests_over_store_backlog_are_refused(
    project: str, options: dict[str, object], size: int, accepted: int
) -> None:
    with servers.redis_server() as redis:
        # No request times out: a response before the store resumes is a refusal.  Without pools
        # none waits for the list of them, which is read again after a while.
        settings: dict[str, dict[str, object]] = {
            "DEFAULT": {"pooling": False},
            "redis": {"timeout": 300, **options},
            **load.OPTIONS,
        }
        with servers.service(redis.uri, options=settings) as service:
            assert post(service, project, "first").status_code == 201
            redis.signal(signal.SIGSTOP)
            with ThreadPoolExecutor(CLIENTS) as pool:
                requests = [pool.submit(post, service, project, "x" * size) for _ in range(CLIENTS)]
                servers.wait_for(
                    lambda: sum(one.done() for one in requests) >= CLIENTS - accepted, "refusals"
                )
                refused = [one.result() for one in requests if one.done()]
                redis.signal(signal.SIGCONT)
                counts = Counter(one.result().status_code for one in requests)
            assert {answer.status_code for answer in refused} == {503}
            assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
            # The size of the socket buffer is unknown, and so is the number of requests sent.
            assert 0 < counts[201] <= accepted
            assert counts[201] + counts[503] == CLIENTS
            # Refused requests were not executed, accepted ones were.
            assert len(load.held(service, project, "q")) == 1 + counts[201]
            assert post(service, project, "last").status_code == 201


async def test_long_polls_over_the_limit_are_refused(redis_server: Backend, project: str) -> None:
    options = {"transport": {"max_waiting": 3}}
    with servers.service(redis_server.uri, options=options) as service:
        async with polls.LongPollClients(service, project, "q") as clients:
            waiting = await clients.claim(5)
            await polls.answered(waiting, 2)
            assert statuses(waiting) == [503] * 2
            # Only waiting is refused, not other requests; and freed waits can be used again.
            assert (await asyncio.to_thread(post, service, project, "x")).status_code == 201
            await polls.answered(waiting, 3)
            await asyncio.gather(*[poll.leave() for poll in waiting])
            await wait_for_free_waits(service, project)
            again = await clients.claim(2)
            for body in "yz":
                await asyncio.to_thread(post, service, project, body)
            await polls.answered(again, 2)
            assert statuses(again) == [201] * 2


def test_requests_in_flight_are_bounded_for_each_project_and_worker() -> None:
    with servers.redis_server() as redis:
        bounds: dict[str, dict[str, object]]
        bounds = {"server": {"max_in_flight": 3, "max_in_flight_project": 2}}
        options = load.OPTIONS | bounds | {"redis": {"timeout": 300}}
        with (
            servers.service(redis.uri, options=options) as service,
            api_peer(service, "a") as peer,
            ThreadPoolExecutor(CLIENTS) as pool,
        ):
            answered = post(service, "a", "first")
            assert answered.status_code == 201
            redis.signal(signal.SIGSTOP)
            of_a = [pool.submit(post, service, "a", "x") for _ in range(4)]
            servers.wait_for(lambda: sum(one.done() for one in of_a) == 2, "refusals of a project")
            refused = next(one.result() for one in of_a if one.done())
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert "The project a has 2 requests" in refused.json()["description"]
            answer = peer.ask("queue_list")
            assert (answer.status, "The project a has 2" in answer.body["error"]) == (503, True)
            of_b = [pool.submit(post, service, "b", "x") for _ in range(2)]
            servers.wait_for(lambda: any(one.done() for one in of_b), "a refusal of the worker")
            (full,) = [one.result() for one in of_b if one.done()]
            assert "This worker has 3 requests" in full.json()["description"]
            redis.signal(signal.SIGCONT)
            statuses_ = Counter(one.result().status_code for one in (*of_a, *of_b))
            assert statuses_ == {201: 3, 503: 3}
            assert [post(service, "a", "y").status_code for _ in range(4)] == [201] * 4


async def test_requests_that_wait_for_messages_leave_room_for_others(redis_server: Backend) -> None:
    bounds: dict[str, dict[str, object]]
    bounds = {"server": {"max_in_flight": 5, "max_in_flight_project": 5}}
    with servers.service(redis_server.uri, options=load.OPTIONS | bounds) as service:
        async with polls.LongPollClients(service, "p", "empty") as clients:
            waiting = await clients.claim(5)
            async with asyncio.timeout(60):
                while await asyncio.to_thread(lambda: post(service, "p", "x").status_code) != 201:
                    pass
            assert statuses(waiting) in ([], [503] * len(statuses(waiting)))
