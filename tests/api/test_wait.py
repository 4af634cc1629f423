# SPDX-License-Identifier: Apache-2.0
"""``wait=``: claims and listings that answer as soon as there is a message.

That hints wake them, not the slow poll, is tested in tests/unit/test_long_poll.py.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers
from tests.support.backends import Backend, subscribers
from tests.support.stores import PATIENT
from zaqar_redis import clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.records import NewMessage
from zaqar_redis.storage.redis import RedisDriver


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


#: A service with a longer maximum wait than the tests and their clients.
patient = fixtures.service({"transport": {"max_wait": 300}})


@pytest.fixture
def api(http: httpx.Client, patient: servers.RunningService, project: str) -> ZaqarTestClient:
    return ZaqarTestClient(http, patient.url, project)


def _wait_until_watched(redis: Backend, api: ZaqarTestClient, queue: str) -> None:
    """Waits until a request waits for hints of the queue."""
    feed = keys.of_queue(api.project, queue).feed
    servers.wait_for(lambda: subscribers(redis, feed) > 0, "a waiting request")


def _claim(api: ZaqarTestClient, queue: str, wait: object, **params: Any) -> httpx.Response:
    return api.request("POST", f"/queues/{queue}/claims", wait=wait, **params)


def _bodies(answer: httpx.Response) -> list[Any]:
    return [message["body"] for message in answer.json()["messages"]]


Begin = Callable[..., "Future[httpx.Response]"]


@pytest.fixture
def begin(threads: ThreadPoolExecutor, redis_server: Backend, api: ZaqarTestClient) -> Begin:
    """A function that sends a request which waits for messages in the queue "q"."""

    def begin(
        send: Callable[..., httpx.Response], *arguments: Any, **params: Any
    ) -> Future[httpx.Response]:
        begun = threads.submit(send, *arguments, **params)
        _wait_until_watched(redis_server, api, "q")
        return begun

    return begin


def test_a_claim_answers_after_a_post(
    api: ZaqarTestClient, other: ZaqarTestClient, begin: Begin
) -> None:
    waiting = begin(_claim, api, "q", 300)
    assert not waiting.done()
    other.send("q", "news")
    answer = waiting.result(60)
    assert (answer.status_code, _bodies(answer)) == (201, ["news"])
    assert api.counts("q") == (0, 1, 1)


def _post_expired(redis: Backend, project: str, count: int) -> None:
    async def post() -> None:
        async with keyspace.connected(redis.uri, PATIENT) as client:
            messages = RedisDriver(client, lambda: clock.process() - 120_000).messages
            for _ in range(0, count, 1000):
                some = [NewMessage(body=b"1", ttl=60)] * 1000
                await messages.post(project, "q", some, client="", default_ttl=60, size=0)

    asyncio.run(post())


def test_a_listing_that_has_more_behind_what_it_cannot_show_does_not_wait_before_it(
    api: ZaqarTestClient, threads: ThreadPoolExecutor, redis_server: Backend
) -> None:
    _post_expired(redis_server, api.project, 12_000)
    page = threads.submit(api.list, "q", wait=300).result(60).json()
    assert page["messages"] == []
    assert [link["rel"] for link in page["links"]] == ["next"]


def test_a_listing_answers_after_a_post(
    api: ZaqarTestClient, other: ZaqarTestClient, begin: Begin
) -> None:
    (last,) = other.send("q", "old")
    waiting = begin(api.list, "q", wait=300, echo=False, marker=last)
    other.send("q", "news")
    assert _bodies(waiting.result(60)) == ["news"]


def test_waiting_listing_ignores_own_messages(
    api: ZaqarTestClient, other: ZaqarTestClient, begin: Begin
) -> None:
    waiting = begin(api.list, "q", wait=300, echo=False)
    api.send("q", "mine")
    with pytest.raises(TimeoutError):
        waiting.result(0.3)
    other.send("q", "yours")
    assert _bodies(waiting.result(60)) == ["yours"]


def test_a_claim_answers_when_another_is_released(
    api: ZaqarTestClient, other: ZaqarTestClient, begin: Begin
) -> None:
    other.send("q", 1)
    claim, _ = other.hold("q")
    waiting = begin(_claim, api, "q", 300)
    assert not waiting.done()
    other.release("q", claim)
    assert waiting.result(60).status_code == 201


@pytest.mark.parametrize("verb", ["claim", "list"])
def test_end_of_a_delay_answers_a_waiting_request(api: ZaqarTestClient, verb: str) -> None:
    api.create("q", _default_message_delay=1)
    since = time.monotonic()
    api.send("q", "later")
    answer = _claim(api, "q", 300) if verb == "claim" else api.list("q", wait=300)
    assert time.monotonic() - since > 0.9
    assert _bodies(answer) == ["later"]


def test_wait_with_available_messages_answers_at_once(api: ZaqarTestClient) -> None:
    api.send("q", 1, 2)
    assert len(api.list("q", wait=300).json()["messages"]) == 2
    assert len(_claim(api, "q", 300, limit=1).json()["messages"]) == 1


def test_wait_that_times_out_answers_as_without_wait(api: ZaqarTestClient) -> None:
    since = time.monotonic()
    answer = _claim(api, "q", 1)
    assert (answer.status_code, answer.content) == (204, b"")
    assert time.monotonic() - since > 0.9
    assert api.list("q", wait=1).json() == {"messages": [], "links": []}
    assert api.get("/queues").json()["queues"] == []


def test_one_message_answers_one_claim(api: ZaqarTestClient, begin: Begin) -> None:
    waiting = [begin(_claim, api.another_client(), "q", 300, limit=1) for _ in range(4)]
    api.send("q", 1)
    servers.wait_for(lambda: any(answer.done() for answer in waiting), "an answer")
    time.sleep(1)
    assert sum(answer.done() for answer in waiting) == 1
    api.send("q", 2, 3, 4)  # not the end of their waits: on a busy machine that comes too early
    answers = [answer.result(60) for answer in waiting]
    assert [answer.status_code for answer in answers] == [201] * 4
    assert sorted(answer.json()["messages"][0]["body"] for answer in answers) == [1, 2, 3, 4]


def test_as_many_messages_answer_as_many_waiting_claims(api: ZaqarTestClient, begin: Begin) -> None:
    waiting = [begin(_claim, api.another_client(), "q", 300, limit=1) for _ in range(4)]
    api.send("q", 1, 2, 3, 4)
    bodies = [answer.result(60).json()["messages"][0]["body"] for answer in waiting]
    assert sorted(bodies) == [1, 2, 3, 4]


def test_wait_is_not_ended_by_post_to_another_queue(api: ZaqarTestClient, begin: Begin) -> None:
    waiting = begin(_claim, api, "q", 300)
    api.send("r", 1)
    api.another_client(f"{api.project}-2").send("q", 1)
    with pytest.raises(TimeoutError):
        waiting.result(1)
    api.send("q", "own")
    assert _bodies(waiting.result(60)) == ["own"]


@pytest.mark.parametrize(
    ("wait", "status"), [(-1, 400), (0, 204), (29, 201), (30, 201), (31, 400), (10**9, 400)]
)
def test_wait_over_the_maximum_is_refused(
    http: httpx.Client, service: servers.RunningService, project: str, wait: int, status: int
) -> None:
    api = ZaqarTestClient(http, service.url, project)
    if status == 201:
        api.send("q", 1)
    answer = _claim(api, "q", wait)
    assert answer.status_code == status
    listing = api.list("q", wait=wait, include_claimed=True)
    assert listing.status_code == (400 if status == 400 else 200)
    if status == 400:
        refused(answer, 400, "wait", "30")
        refused(listing, 400, "wait", "30")


@pytest.mark.parametrize("wait", ["x", "1.5", "true"])
def test_wait_must_be_a_number(api: ZaqarTestClient, wait: str) -> None:
    refused(_claim(api, "q", wait), 400, "wait")
    refused(api.list("q", wait=wait), 400, "wait")


#: A service where one request may wait, longer than the tests.
narrow = fixtures.service({"transport": {"max_waiting": 1, "max_wait": 300}})


def test_wait_over_max_waiting_answers_503(
    http: httpx.Client, narrow: servers.RunningService, project: str, begin: Begin
) -> None:
    api = ZaqarTestClient(http, narrow.url, project)
    waiting = begin(_claim, api, "q", 300)
    for answer in (_claim(api, "q", 1), api.list("q", wait=1)):
        refused(answer, 503, "wait")
        assert int(answer.headers["Retry-After"]) >= 1
    # A request that need not wait is served.
    assert api.list("q").status_code == 200
    api.send("q", 1)
    assert waiting.result(60).status_code == 201
    assert _claim(api, "q", 1).status_code == 204
    refused(_claim(api, "q", 301), 400, "wait", "300")


@pytest.mark.parametrize("method", ["claim", "list"])
def test_disconnected_client_frees_its_wait_and_takes_no_message(
    http: httpx.Client,
    narrow: servers.RunningService,
    project: str,
    redis_server: Backend,
    method: str,
) -> None:
    api = ZaqarTestClient(http, narrow.url, project)
    start = "POST /v2/queues/q/claims" if method == "claim" else "GET /v2/queues/q/messages"
    request = (
        f"{start}?wait=300 HTTP/1.1\r\nHost: x\r\n"
        f"Client-ID: {api.client}\r\nX-Project-ID: {project}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", narrow.port)) as leaving:
        leaving.sendall(request.encode())
        _wait_until_watched(redis_server, api, "q")
    # The only wait becomes free once the service has noticed the disconnect.
    servers.wait_for(lambda: api.list("r", wait=1).status_code == 200, "the place")
    api.send("q", 1)
    assert api.counts("q") == (1, 0, 1)
    assert api.claim("q").status_code == 201
