# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of benchmarks, as small as possible, so as not to be the bottleneck."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import httptools

#: Timeout of one request under load.
_TIMEOUT = 20.0


class _HttpProtocol(asyncio.Protocol):
    """The client side of a connection, one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.reusable = True
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._response: asyncio.Future[tuple[int, bytes]] | None = None

    def send(self, data: bytes) -> asyncio.Future[tuple[int, bytes]]:
        if self.transport is None:
            raise ConnectionResetError
        self._body = b""
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return self._response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport, self.reusable = None, False
        self._fail(exc or ConnectionResetError())

    def _fail(self, error: Exception) -> None:
        if self._response and not self._response.done():
            self._response.set_exception(error)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the response is not HTTP: {error}"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.reusable = self._parser.should_keep_alive()
        if self._response and not self._response.done():
            self._response.set_result((self._parser.get_status_code(), self._body))


class HttpConnection:
    """A connection to a service, which is kept open, and opened again when needed."""

    def __init__(
        self, host: str, port: int, headers: Mapping[str, str], timeout: float = _TIMEOUT
    ) -> None:
        """*headers*: of every request; *timeout*: seconds for one."""
        self._address = (host, port)
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        self._head = f" HTTP/1.1\r\nHost: localhost:{port}\r\n{''.join(lines)}"
        self._timeout = timeout
        self._protocol: _HttpProtocol | None = None

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: str = ""
    ) -> tuple[int, bytes]:
        """Returns status and body; a *body* that is sent is JSON; *headers*: more lines.

        Raises OSError when the connection breaks, or there is no response in time.
        """
        json = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        try:
            async with asyncio.timeout(self._timeout):
                if self._protocol is None or not self._protocol.reusable:
                    self.close()
                    loop = asyncio.get_running_loop()
                    _, self._protocol = await loop.create_connection(_HttpProtocol, *self._address)
                return await self._protocol.send(
                    f"{method} {path}{self._head}{headers}{json}\r\n".encode() + body
                )
        except BaseException:
            self.close()  # the response may come late, and is not that of the next request
            raise

    def close(self) -> None:
        if self._protocol and self._protocol.transport:
            self._protocol.transport.close()
        self._protocol = None
