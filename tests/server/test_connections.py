# SPDX-License-Identifier: Apache-2.0
"""Connections that are idle, slow, half closed or lost, and clients that do not read."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.server.exchanges import MESSAGES, kept, post
from tests.support import fixtures, servers
from tests.support.backends import Backend, subscribers
from tests.support.raw_http import RawConnection, request
from tests.support.tiers import in_gate
from tests.support.ways import WAYS
from zaqar_redis.keyspace import keys

PING = request("GET", "/v2/ping")


def wait_until_waiting(redis: Backend | servers.RedisServer, project: str) -> None:
    """Waits until a long poll waits for messages."""
    feed = keys.of_queue(project, "q").feed
    servers.wait_for(lambda: subscribers(redis, feed) > 0, "a waiting request")


@pytest.mark.parametrize("way", WAYS)
def test_idle_connection_is_closed_after_its_last_answer(
    impatient: servers.RunningService, way: str
) -> None:
    with RawConnection(impatient.port) as connection:
        ping = request("GET", "/v2/ping", headers=WAYS[way].items())
        for some in (2, 1):  # the last one when it was idle already
            connection.send(ping * some)
            assert [answer.status for answer in connection.answers(some)] == [204] * some
        assert connection.rest() == b""


def test_connection_with_a_long_poll_is_not_idle(
    impatient: servers.RunningService, project: str
) -> None:
    """The rest of its request comes when the answer before was sent: that is when it was idle."""
    wait = request("POST", "/v2/queues/q/claims?wait=5", project)
    with RawConnection(impatient.port) as connection:
        assert connection.ask(PING + wait[:10]).status == 204
        assert connection.ask(wait[10:]).status == 204


_TIMEOUT = 1.0


strict = fixtures.service({"server": {"request_timeout": str(_TIMEOUT)}})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("begun", ["GET /v2/ping HTTP/1.1\r\nX-Slow:", "POST"])
def test_second_request_of_a_connection_times_out_too(
    strict: servers.RunningService, connection: RawConnection, project: str, way: str, begun: str
) -> None:
    whole = post(project, way)
    with RawConnection(strict.port) as slow:
        begun_bytes = whole[:-1] if begun == "POST" else begun.encode()
        assert slow.ask(whole + begun_bytes).status == 201
        assert slow.rest().startswith(b"HTTP/1.1 408 ")
    assert kept(connection, project) == ["kept"]


def test_request_cut_off_behind_a_long_poll_times_out_after_its_answer(
    strict: servers.RunningService, project: str
) -> None:
    wait = request("POST", "/v2/queues/q/claims?wait=3", project)
    with RawConnection(strict.port) as connection:
        assert connection.ask(wait + b"GET /v2/ping HTTP/1.1\r\n").status == 204
        assert connection.rest().startswith(b"HTTP/1.1 408 ")


def test_request_that_the_server_does_not_read_does_not_time_out(
    strict: servers.RunningService,
    service: servers.RunningService,
    redis_server: Backend,
    project: str,
) -> None:
    """Behind a long poll and another request, reading is paused."""
    wait = request("POST", "/v2/queues/q/claims?wait=30", project)
    with RawConnection(strict.port) as connection, RawConnection(service.port) as other:
        connection.send(wait + PING + PING[:-1])
        wait_until_waiting(redis_server, project)
        connection.send(PING[-1:])
        time.sleep(_TIMEOUT + 1.2)
        assert other.ask(post(project)).status == 201
        assert [answer.status for answer in connection.answers(3)] == [201, 204, 204]


@pytest.mark.parametrize("way", WAYS)
def test_half_closed_connection_is_closed_after_its_answers(
    connection: RawConnection, project: str, way: str
) -> None:
    assert connection.ask(post(project, way)).status == 201
    connection.half_close()
    assert connection.rest() == b""


@pytest.mark.parametrize("way", WAYS)
def test_request_cut_off_by_a_half_close_is_not_done(
    service: servers.RunningService, connection: RawConnection, project: str, way: str
) -> None:
    assert connection.ask(PING + post(project, way)[:-1]).status == 204
    connection.half_close()
    assert connection.rest() == b""
    with RawConnection(service.port) as other:
        assert kept(other, project) == []


#: Bytes of requests, or of memory, that one client may cost: several times what the buffers of
#: two sockets take, and a fraction of what an endless backlog would have.
_PILE_MAX = 64 * 1024 * 1024


def _resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.mark.parametrize("way", WAYS)
def test_service_stops_reading_from_client_that_does_not_read(
    service: servers.RunningService, connection: RawConnection, project: str, way: str
) -> None:
    """Neither requests nor answers of one client pile up in the worker."""
    padding = [("X-Padding", "x" * 8_000), *WAYS[way].items()]
    ask = request("GET", f"{MESSAGES}?echo=true", project, headers=padding)
    (worker,) = service.workers()
    assert connection.ask(post(project, body="x" * 10_000)).status == 201
    before = _resident_bytes(worker)
    sent = _fill(connection.socket, ask)
    assert _resident_bytes(worker) - before < _PILE_MAX
    with RawConnection(service.port) as other:
        assert len(kept(other, project)) == 1  # others are served
    # It goes on when the client reads.
    count = sent // len(ask)
    assert [connection.answer().status for _ in range(count)] == [200] * count


def _fill(connection: socket.socket, piece: bytes) -> int:
    """Sends pieces until the other side has stopped reading; returns their bytes."""
    connection.settimeout(1)
    sent = 0
    try:
        while sent < _PILE_MAX:
            sent += connection.send((piece * 100)[sent % len(piece) :])
    except TimeoutError:
        connection.settimeout(60)
        return sent
    raise AssertionError(f"the service has read {sent} bytes")


#: The longest page that one answer may have is more than the buffers of two sockets take.
_PAGE, _BODY = 20, 250_000


@pytest.mark.parametrize("closing", in_gate([False, True]))
@pytest.mark.parametrize("way", in_gate(WAYS))
def test_client_that_never_reads_loses_its_connection(
    redis_server: Backend, project: str, way: str, closing: bool
) -> None:
    """*closing*: the server has closed the connection, and waits until the rest is sent."""
    # Longer than a machine stands still: the posts must not time out.
    bounds = {"request_timeout": "5.0", "max_connections": "1"}
    large = post(project, body="x" * _BODY)
    last = [("Connection", "close")] if closing else []
    page = f"{MESSAGES}?echo=true&limit={_PAGE}"
    ask = request("GET", page, project, headers=[*WAYS[way].items(), *last])
    with servers.service(redis_server.uri, options={"server": bounds}) as service:

        def is_free() -> bool:
            with RawConnection(service.port) as other:
                return other.ask(PING).status == 204

        servers.wait_for(is_free, "the place of those who asked whether the service runs")
        with RawConnection(service.port) as connection:
            for _ in range(_PAGE):
                assert connection.ask(large).status == 201
            connection.send(ask * 3)
            servers.wait_for(is_free, "the place of the client that does not read")
