# SPDX-License-Identifier: Apache-2.0
"""Requests in progress when the service stops, and when their client leaves."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.exchanges import kept, post, wait_until_read
from tests.support import servers
from tests.support.raw_http import RawConnection, request
from tests.support.servers import RedisServer, RunningService
from tests.support.ways import ASGI, HOT, WAYS

#: No request times out while the store is paused.
_PATIENT: dict[str, dict[str, object]] = {
    "redis": {"timeout": 300},
    "server": {"graceful_timeout": 300},
}


@contextlib.contextmanager
def paused(redis: RedisServer) -> Iterator[None]:
    redis.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        redis.signal(signal.SIGCONT)


def bodies(service: RunningService, project: str) -> list[Any]:
    with RawConnection(service.port) as connection:
        return kept(connection, project)


def test_stop_closes_idle_connections_and_answers_requests_in_progress(
    server: RedisServer, project: str
) -> None:
    """Redis is paused when the stop begins, and goes on when idle connections are closed."""
    sent = {"hot": [HOT], "asgi": [ASGI], "pipeline": [HOT, ASGI, HOT, HOT]}
    with (
        servers.service(server.uri, options=_PATIENT) as service,
        contextlib.ExitStack() as stack,
    ):
        made: dict[str, RawConnection] = {
            name: stack.enter_context(RawConnection(service.port)) for name in [*sent, "idle"]
        }
        assert made["idle"].ask(post(project, body="first")).status == 201
        with paused(server):
            for name, ways in sent.items():
                posts = [post(project, way, f"{name} {n}") for n, way in enumerate(ways)]
                made[name].send(b"".join(posts))
            wait_until_read(service)
            service.process.send_signal(signal.SIGTERM)
            assert made["idle"].rest() == b""
        for name, ways in sent.items():
            *others, last = made[name].answers(len(ways))
            assert [answer.status for answer in (*others, last)] == [201] * len(ways)
            assert [answer.headers.get("connection") for answer in others] == [None] * len(others)
            assert last.headers["connection"] == "close"
            assert made[name].rest() == b""
        service.process.wait(60)
    with servers.service(server.uri) as service:
        posted = [f"{name} {number}" for name, ways in sent.items() for number in range(len(ways))]
        assert sorted(bodies(service, project)) == sorted(["first", *posted])


@pytest.mark.parametrize("way", WAYS)
def test_client_that_leaves_while_its_request_waits_for_the_store_harms_nobody(
    server: RedisServer, project: str, way: str
) -> None:
    with servers.service(server.uri, options=_PATIENT) as service:
        assert bodies(service, project) == []
        staying = RawConnection(service.port)
        with paused(server), staying:
            with RawConnection(service.port) as leaving:
                leaving.send(post(project, way, "left"))
                wait_until_read(service)
                staying.send(post(project, way, "stayed"))
                wait_until_read(service)
            wait_until_read(service)  # and has noticed who left
            server.signal(signal.SIGCONT)
            assert staying.answer().status == 201
        # The other may have been sent to the store before its client left.
        assert bodies(service, project) in (["stayed"], ["left", "stayed"])


def test_long_poll_whose_client_leaves_takes_no_message(server: RedisServer, project: str) -> None:
    wait = request("POST", "/v2/queues/q/claims?wait=30", project)
    # One request may wait: another may once the service has noticed that this one left.
    with servers.service(server.uri, options={"transport": {"max_waiting": 1}}) as service:
        with RawConnection(service.port) as leaving:
            leaving.send(wait)
            wait_until_read(service)

        def is_free() -> bool:
            with RawConnection(service.port) as connection:
                connection.send(request("POST", "/v2/queues/r/claims?wait=1", project))
                return connection.answer().status == 204

        servers.wait_for(is_free, "the place of the client that left")
        with RawConnection(service.port) as connection:
            assert connection.ask(post(project, body="free")).status == 201
            assert connection.ask(request("POST", "/v2/queues/q/claims", project)).status == 201


def test_stop_waits_for_a_call_of_the_server_api_whose_client_has_left(server: RedisServer) -> None:
    """The second publication is sent to Redis when the first was answered."""
    channels = {"api_key": "k", "history_size": 10, "history_ttl": 600}
    options = {**_PATIENT, "channels": channels}
    commands = [{"publish": {"channel": "c", "data": number}} for number in range(2)]
    key = [("X-API-Key", "k")]
    batch = request("POST", "/api/batch", "p", json.dumps({"commands": commands}).encode(), key)
    history = request("POST", "/api/history", "p", b'{"channel": "c", "limit": 10}', key)
    with servers.service(server.uri, options=options) as service:
        with paused(server):
            with RawConnection(service.port) as leaving:
                leaving.send(batch)
                wait_until_read(service)
            service.process.send_signal(signal.SIGTERM)
            servers.wait_for(
                lambda: "Waiting for application shutdown" in service.log.read_text(), "its end"
            )
        service.process.wait(60)
    with (
        servers.service(server.uri, options=options) as service,
        RawConnection(service.port) as connection,
    ):
        connection.send(history)
        found = json.loads(connection.answer().body)["result"]["publications"]
    assert [publication["data"] for publication in found] == [0, 1]
