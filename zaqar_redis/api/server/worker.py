# SPDX-License-Identifier: Apache-2.0
"""The gunicorn worker: uvicorn on uvloop and httptools."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from typing import Any, ClassVar, cast

from gunicorn.arbiter import Arbiter
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn_worker import UvicornWorker

from zaqar_redis.api.app import App
from zaqar_redis.api.server.sockets import WebSocketProtocol
from zaqar_redis.api.server.streams import TRANSPORT


class CoalescingTransport:
    """A transport that joins the writes of one iteration of the event loop.

    uvicorn writes the head and the body of a response apart, and uvloop makes a
    system call for each, which for a small answer is a tenth of the whole request.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        #: the transport below, for writers that join by themselves
        self.unbuffered = transport
        self._pieces: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


#: Bytes of a request's line and headers; about what nginx and gunicorn allow.
_HEAD_MAX = 64 * 1024
_END = b"content-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + _END
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n" + _END
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n" + _END


class HttpProtocol(HttpToolsProtocol):
    _in_head = False
    _head = 0
    #: start of a request that is not complete, by the loop's clock; None: there is none
    _request_started_at: float | None = None

    # uvicorn declares a BaseTransport; the server passes a Transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, CoalescingTransport(transport)))
        self._request_started_at = self.loop.time()
        app = cast(App, self.config.app)
        if len(self.connections) > app.settings.max_connections:
            self._reject(_TOO_MANY)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _HEAD_MAX and not self.transport.is_closing():
                self._reject(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        self._request_started_at = self.loop.time()
        super().on_message_begin()
        extensions: dict[str, Any] = {TRANSPORT: self.transport}
        self.scope["extensions"] = extensions

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._request_started_at = None
        super().on_message_complete()

    def time_out(self, before: float) -> None:
        """Closes the connection if its request began *before* and is not complete yet."""
        if (
            self._request_started_at is not None
            and self._request_started_at < before
            and not self.transport.is_closing()
        ):
            answered = self.cycle is not None and self.cycle.response_started
            self._reject(b"" if answered else _TOO_SLOW)

    def _reject(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()


class GracefulServer(Server):
    """A server that ends waiting requests when it stops, and stops with its master."""

    def __init__(self, config: Config, app: Any, master: int) -> None:
        super().__init__(config)
        self._app = app
        self._master = master

    def stop(self) -> None:
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # ten ticks are a second
            before = asyncio.get_running_loop().time() - self._app.settings.request_timeout
            for connection in tuple(self.server_state.connections):
                cast(HttpProtocol, connection).time_out(before)
        # Without its master a worker would hold the port against the next start.
        return await super().on_tick(counter) or os.getppid() != self._master

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_shutdown()
        await super().shutdown(sockets)


class Worker(UvicornWorker):  # type: ignore[misc]  # it is untyped
    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": HttpProtocol,
        "ws": WebSocketProtocol,
        # Of one frame; what Centrifugo takes by default.
        "ws_max_size": 65536,
        # Its state is 300 KB a connection, and each publication would be packed for each.
        "ws_per_message_deflate": False,
        # The protocol has pings of its own.
        "ws_ping_interval": None,
        "lifespan": "on",
        "access_log": False,
        "server_header": False,
        # Nothing here uses the address of a client.
        "proxy_headers": False,
    }

    def run(self) -> None:
        # Objects of the start live on, and requests leave hardly any cycles behind. With
        # Python's own thresholds the collector takes a twelfth of all time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        super().run()

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        server = GracefulServer(self.config, self.wsgi, self.ppid)
        # The master passes SIGINT on as SIGQUIT; unhandled, it would wait in vain and then kill.
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, server.stop)
        # The sockets themselves: gunicorn's wrappers would be closed twice by uvloop.
        await server.serve([listener.sock for listener in self.sockets])
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
