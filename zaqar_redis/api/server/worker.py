# SPDX-License-Identifier: Apache-2.0
"""The gunicorn worker: uvicorn on uvloop and httptools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from gunicorn.arbiter import Arbiter
from uvicorn import Config, Server
from uvicorn_worker import UvicornWorker

from zaqar_redis import errors, garbage_collection
from zaqar_redis.api.server.flags import SharedFlag
from zaqar_redis.api.server.logging_protocol import LoggingProtocol
from zaqar_redis.api.server.protocol import HttpProtocol
from zaqar_redis.api.server.retiring import retire
from zaqar_redis.api.server.sockets import WebSocketProtocol
from zaqar_redis.api.server.tls import TlsObject
from zaqar_redis.metrics.definitions import HTTP_CONNECTIONS
from zaqar_redis.metrics.reporter import WorkerReporter
from zaqar_redis.metrics.shared import WorkerSlot

#: Tells a worker that another one has taken its place.
RETIRE = signal.SIGUSR2
#: Seconds for clients to send one more request, whose answer says that the connection closes: a
#: connection that is closed while a request is under way would lose it.
RETIRING_SECONDS = 5.0
#: Seconds in which TLS connections that were being accepted appear: they do after their handshake.
_HANDSHAKE_SECONDS = 1.0
#: Seconds for the stores to answer a worker that starts: as long as it waits for connections.
_CONNECT_SECONDS = 10.0


class GracefulServer(Server):
    """A server that ends waiting requests when it stops, and stops with its master."""

    #: None: nobody wants metrics
    reporter: WorkerReporter | None = None

    def __init__(self, config: Config, app: Any, worker: Worker) -> None:
        super().__init__(config)
        HTTP_CONNECTIONS.follow(lambda: len(self.server_state.connections))
        self._app = app
        self._worker = worker
        #: when it was told to retire, by the loop's clock
        self._retiring_since: float | None = None

    def stop(self) -> None:
        self.should_exit = True

    def retire(self) -> None:
        """Accepts no more connections, and stops once those that it has are closed."""
        if not self.started:
            self.should_exit = True
        elif self._retiring_since is None:
            self._retiring_since = asyncio.get_running_loop().time()
            for server in self.servers:
                server.close()
            for connection in self._retire_connections():
                if not isinstance(connection, HttpProtocol):
                    connection.shutdown()
            self._app.begin_shutdown()

    def _retire_connections(self) -> Sequence[Any]:
        """Retires those of requests, and returns all."""
        connections = tuple(self.server_state.connections)
        for connection in connections:
            if isinstance(connection, HttpProtocol):
                retire(connection)
        return connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            with contextlib.suppress(errors.Problem, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._app.ping_essential()
                    self._worker.connected.set()
            self._worker.ready.set()

    async def on_tick(self, counter: int) -> bool:
        if self._retiring_since is not None:
            left = self._retire_connections()  # also those that were being accepted before
            seconds = asyncio.get_running_loop().time() - self._retiring_since
            least = _HANDSHAKE_SECONDS if self.config.is_ssl else 0.0
            self.should_exit |= seconds > (RETIRING_SECONDS if left else least)
        if counter % 10 == 0:  # ten ticks are a second
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                cast(HttpProtocol, connection).time_out(now)
        # Without its master a worker would hold the port against the next start.
        return await super().on_tick(counter) or os.getppid() != self._worker.ppid

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_shutdown()
        await super().shutdown(sockets)
        if self.reporter is not None:  # now: uvicorn repeats the signal, which ends the process
            await self.reporter.stop()


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

    #: where its metrics go; None: nobody wants them
    slot: WorkerSlot | None = None

    def __init__(self, *given: Any) -> None:
        logger = logging.getLogger("uvicorn.error")
        level = logger.level
        super().__init__(*given)
        # It takes gunicorn's handlers, which are those of the root logger, and its level.
        logger.propagate = True
        logger.setLevel(level)
        #: set by the worker as soon as it accepts connections
        self.ready = SharedFlag()
        #: set by it before, if its stores answer
        self.connected = SharedFlag()
        # gunicorn's own choice may negotiate what is obsolete.
        self.config.ssl_version = ssl.PROTOCOL_TLS_SERVER

    def run(self) -> None:
        garbage_collection.tune()
        super().run()

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        self.config.load()
        if self.config.ssl is not None:
            self.config.ssl.sslobject_class = TlsObject
        server = GracefulServer(self.config, self.wsgi, self)
        # The master passes SIGINT on as SIGQUIT; unhandled, it would wait in vain and then kill.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGQUIT, server.stop)
        loop.add_signal_handler(RETIRE, server.retire)
        if self.slot is not None:
            server.reporter = WorkerReporter(self.slot)
            server.reporter.start()
        # The sockets themselves: gunicorn's wrappers would be closed twice by uvloop.
        await server.serve([listener.sock for listener in self.sockets])
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)


class LoggingWorker(Worker):
    CONFIG_KWARGS: ClassVar[dict[str, Any]] = Worker.CONFIG_KWARGS | {"http": LoggingProtocol}
