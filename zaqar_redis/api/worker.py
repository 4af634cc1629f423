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
from zaqar_redis.api.sockets import SocketProtocol
from zaqar_redis.api.streams import TRANSPORT


class OneWrite:
    """A transport that writes once for all that one turn of the loop gives it.

    uvicorn writes the head and the body of a response apart, and uvloop makes a
    system call of each, which on a small answer is a tenth of the whole request.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        #: the one below, for who gathers by itself
        self.whole = transport
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


#: Bytes of a request's line and headers; what nginx and gunicorn allow, about.
_HEAD_MAX = 64 * 1024
_END = b"content-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + _END
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n" + _END
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n" + _END


class Protocol(HttpToolsProtocol):
    _in_head = False
    _head = 0
    #: since when a request is awaited whole, by the loop's clock; None: none is
    _since: float | None = None

    # uvicorn says BaseTransport, and gets this.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, OneWrite(transport)))
        self._since = self.loop.time()
        app = cast(App, self.config.app)
        if len(self.connections) > app.settings.max_connections:
            self._refuse(_TOO_MANY)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _HEAD_MAX and not self.transport.is_closing():
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        self._since = self.loop.time()
        super().on_message_begin()
        extensions: dict[str, Any] = {TRANSPORT: self.transport}
        self.scope["extensions"] = extensions

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._since = None
        super().on_message_complete()

    def give_up(self, before: float) -> None:
        """Close the connection if its request began *before* and is not whole yet."""
        if self._since is not None and self._since < before and not self.transport.is_closing():
            answered = self.cycle is not None and self.cycle.response_started
            self._refuse(b"" if answered else _TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()


class PoliteServer(Server):
    """Stops without keeping anybody waiting, and not later than its master."""

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
                cast(Protocol, connection).give_up(before)
        # Without its master a worker would hold the port against the next start.
        return await super().on_tick(counter) or os.getppid() != self._master

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.leave()
        await super().shutdown(sockets)


class Worker(UvicornWorker):  # type: ignore[misc]  # it is untyped
    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": Protocol,
        "ws": SocketProtocol,
        # Of one frame; what Centrifugo takes by default.
        "ws_max_size": 65536,
        # Its state is 300 KB a connection, and each publication would be packed for each.
        "ws_per_message_deflate": False,
        # The protocol has pings of its own.
        "ws_ping_interval": None,
        "lifespan": "on",
        "access_log": False,
        "server_header": False,
        # Nothing here asks where a request came from.
        "proxy_headers": False,
    }

    def run(self) -> None:
        # What is there now stays; requests leave hardly any cycles behind. With
        # Python's own thresholds the collector takes a twelfth of all time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        super().run()

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        server = PoliteServer(self.config, self.wsgi, self.ppid)
        # How the master passes SIGINT on; left alone, it would wait in vain and then kill.
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, server.stop)
        # Not what gunicorn wraps them in, which uvloop closes once more than they can be.
        await server.serve([listener.sock for listener in self.sockets])
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
