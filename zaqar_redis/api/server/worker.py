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
from uvicorn_worker import UvicornWorker

from zaqar_redis.api.server.protocol import HttpProtocol
from zaqar_redis.api.server.sockets import WebSocketProtocol
from zaqar_redis.metrics.definitions import HTTP_CONNECTIONS
from zaqar_redis.metrics.reporter import WorkerReporter
from zaqar_redis.metrics.shared import WorkerSlot


class GracefulServer(Server):
    """A server that ends waiting requests when it stops, and stops with its master."""

    #: None: nobody wants metrics
    reporter: WorkerReporter | None = None

    def __init__(self, config: Config, app: Any, master: int) -> None:
        super().__init__(config)
        HTTP_CONNECTIONS.follow(lambda: len(self.server_state.connections))
        self._app = app
        self._master = master

    def stop(self) -> None:
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # ten ticks are a second
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                cast(HttpProtocol, connection).time_out(now)
        # Without its master a worker would hold the port against the next start.
        return await super().on_tick(counter) or os.getppid() != self._master

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
        if self.slot is not None:
            server.reporter = WorkerReporter(self.slot)
            server.reporter.start()
        # The sockets themselves: gunicorn's wrappers would be closed twice by uvloop.
        await server.serve([listener.sock for listener in self.sockets])
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
