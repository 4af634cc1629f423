# SPDX-License-Identifier: Apache-2.0
"""The proxy that cuts connections cuts all of them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.support.tcp_proxy import tcp_proxy


class _Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")


async def _received(client: socket.socket) -> bytes:
    """Returns what comes until the connection has an orderly end."""
    found = b""
    async with asyncio.timeout(30):
        while data := await asyncio.get_running_loop().sock_recv(client, 100):
            found += data
    return found


@pytest.mark.parametrize("steps", range(12))
async def test_connection_that_is_being_opened_is_cut_like_the_others(steps: int) -> None:
    """*steps*: of the event loop, between the connection and the cut."""
    loop = asyncio.get_running_loop()
    target = await loop.create_server(_Greeter, "127.0.0.1", 0)
    async with target, tcp_proxy(target.sockets[0].getsockname()[1]) as (proxy, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            for _ in range(steps):
                await asyncio.sleep(0)
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                await _received(client)
