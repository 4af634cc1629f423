# SPDX-License-Identifier: Apache-2.0
"""Clients that hold connections without sending requests do not affect others."""

from __future__ import annotations

import socket
import time

import httpx
import pytest

from tests.support import fixtures, servers

_TIMEOUT = 1.0
_CONNECTIONS = 8
_PING = b"GET /v2/ping HTTP/1.1\r\nHost: h\r\n\r\n"


strict = fixtures.service(
    {"server": {"request_timeout": str(_TIMEOUT), "max_connections": str(_CONNECTIONS)}}
)


def _connected(service: servers.RunningService, *sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), 60)
    for piece in sent:
        connection.sendall(piece)
    return connection


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /v2/ping HT",
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ",
        b"POST /v2/queues/q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
    ],
)
def test_incomplete_request_times_out(strict: servers.RunningService, begun: bytes) -> None:
    with _connected(strict, begun) as connection:
        answer = connection.recv(4096)
        assert connection.recv(4096) == b""
    # The headers are checked before the body is read: their error may come first.
    assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


def test_single_bytes_do_not_extend_the_request_timeout(strict: servers.RunningService) -> None:
    with _connected(strict, b"GET / HTTP/1.1\r\nX-Slow: ") as connection:
        connection.settimeout(0.1)
        answer = b""
        while not answer:
            connection.sendall(b"x")
            try:
                answer = connection.recv(4096)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_long_polls_and_idle_connections_do_not_time_out(
    strict: servers.RunningService, project: str
) -> None:
    headers = {"Client-ID": "5b0c7a52-43f6-4a0f-9d0e-0c51f5c3a8a1", "X-Project-ID": project}
    with httpx.Client(base_url=strict.url, headers=headers, timeout=60) as client:
        answer = client.get("/v2/queues/q/messages", params={"wait": 3})
        assert answer.status_code == 200
        time.sleep(_TIMEOUT + 1.5)  # time between requests does not count either
        assert client.get("/v2/ping").status_code == 204


def test_connection_over_the_limit_is_refused_until_another_closes(
    strict: servers.RunningService,
) -> None:
    def status() -> int:
        return httpx.get(strict.url, timeout=60).status_code

    held: list[socket.socket] = []

    def is_full() -> bool:
        """Holds one more connection, if it is served: idle ones do not time out soon."""
        connection = _connected(strict, _PING)
        if connection.recv(4096).startswith(b"HTTP/1.1 204 "):
            held.append(connection)
        else:
            connection.close()
        return len(held) == _CONNECTIONS

    try:
        servers.wait_for(is_full, "earlier connections to be closed")
        answer = httpx.get(strict.url, timeout=60)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    finally:
        for connection in held:
            connection.close()
    servers.wait_for(lambda: status() == 300, "a free connection")
