# SPDX-License-Identifier: Apache-2.0
"""Clients that hold connections without asking for anything cost others nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests import servers

_TIMEOUT = 1.0
_CONNECTIONS = 8


@pytest.fixture(scope="module")
def strict(redis_server: servers.RedisServer) -> Iterator[servers.Service]:
    bounds = {"request_timeout": str(_TIMEOUT), "max_connections": str(_CONNECTIONS)}
    with servers.service(redis_server.uri, options={"server": bounds}) as service:
        yield service


def _connected(service: servers.Service, *sent: bytes) -> socket.socket:
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
def test_a_request_that_does_not_end_is_given_up(strict: servers.Service, begun: bytes) -> None:
    with _connected(strict, begun) as connection:
        answer = connection.recv(4096)
        assert connection.recv(4096) == b""
    # The body is not read before the headers are found wanting: those may answer first.
    assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


def test_a_byte_now_and_then_is_no_progress(strict: servers.Service) -> None:
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


def test_a_connection_that_waits_for_messages_is_no_slow_one(
    strict: servers.Service, project: str
) -> None:
    headers = {"Client-ID": "5b0c7a52-43f6-4a0f-9d0e-0c51f5c3a8a1", "X-Project-ID": project}
    with httpx.Client(base_url=strict.url, headers=headers, timeout=60) as client:
        answer = client.get("/v2/queues/q/messages", params={"wait": 3})
        assert answer.status_code == 200
        time.sleep(_TIMEOUT + 1.5)  # idle between requests is no request either
        assert client.get("/v2/ping").status_code == 204


def test_one_connection_too_many_is_refused_and_a_place_is_free_again(
    strict: servers.Service,
) -> None:
    def status() -> int:
        return httpx.get(strict.url, timeout=60).status_code

    servers.wait_for(lambda: status() == 300, "connections of before to be gone")
    held = [_connected(strict) for _ in range(_CONNECTIONS)]
    try:
        answer = httpx.get(strict.url, timeout=60)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    finally:
        for connection in held:
            connection.close()
    servers.wait_for(lambda: status() == 300, "a free place")
