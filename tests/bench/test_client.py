# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of benchmarks against servers that answer in different ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from zaqar_redis.benchmarks.client import HttpConnection

_HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
_LAST = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


async def _ask(
    answers: list[bytes], ask: Callable[[HttpConnection], Awaitable[None]], seconds: float = 20.0
) -> tuple[int, list[bytes]]:
    """Runs *ask* against a server with these answers; returns its connections and requests."""
    connections, requests, ended = 0, [], asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.closing(writer):
            while answers and (request := await reader.read(65536)):
                requests.append(request)
                writer.write(answers.pop(0))
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = HttpConnection("127.0.0.1", port, {"X-Project-ID": "p"}, seconds)
        await ask(connection)
        connection.close()
        await ended.wait()
    return connections, requests


def test_connection_is_kept_until_the_server_ends_it() -> None:
    async def ask(connection: HttpConnection) -> None:
        assert await connection.request("GET", "/a") == (200, b"hello")
        assert await connection.request("POST", "/b", b"{}") == (200, b"hello")
        assert await connection.request("GET", "/c") == (204, b"")
        assert await connection.request("GET", "/d") == (200, b"hello")

    connections, requests = asyncio.run(_ask([_HELLO, _CHUNKED, _LAST, _HELLO], ask))
    assert connections == 2
    assert requests[1].startswith(b"POST /b HTTP/1.1\r\nHost: localhost:")
    assert requests[1].endswith(b"\r\nContent-Length: 2\r\n\r\n{}")
    assert all(b"\r\nX-Project-ID: p\r\n" in request for request in requests)


@pytest.mark.parametrize("answer", [b"SSH-2.0-server\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_response_that_is_not_complete_http_raises_an_os_error(answer: bytes) -> None:
    async def ask(connection: HttpConnection) -> None:
        with pytest.raises(OSError, match=r"the response is not HTTP|^$"):
            await connection.request("GET", "/")

    asyncio.run(_ask([answer], ask))


def test_response_that_does_not_come_in_time_raises_an_os_error() -> None:
    async def ask(connection: HttpConnection) -> None:
        with pytest.raises(TimeoutError):
            await connection.request("GET", "/")

    asyncio.run(_ask([b"", b""], ask, seconds=0.1))
