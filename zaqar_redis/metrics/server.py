# SPDX-License-Identifier: Apache-2.0
"""The port for Prometheus, served by a thread of the parent process.

It asks neither a worker nor a store, so it answers whatever happens to them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import socketserver
import threading
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from zaqar_redis import errors
from zaqar_redis.metrics.merged import MergedMetrics

#: Requests at a time; further connections are closed.  Prometheus sends one, and so do others.
_REQUESTS_MAX = 8
#: Seconds that a client may take.
_TIMEOUT = 5.0


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape is no event."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._free = threading.BoundedSemaphore(_REQUESTS_MAX)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Without the name of the host, which WSGIServer asks for: a resolver may be slow.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no event."""


class MetricsServer:
    def __init__(self, host: str, port: int, merged: MergedMetrics) -> None:
        """Binds the port.  Raises BadConfiguration when that fails."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(merged)
        ProcessCollector(registry=registry)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _Server((host, port), found[0])
        except OSError as error:
            raise errors.BadConfiguration(
                f"[metrics] port: cannot listen on {host}, port {port}: {errors.reason(error)}"
            ) from error
        self._server.set_app(make_wsgi_app(registry))

    def start(self) -> None:
        """Serves from now on, until the process ends."""
        # It and its threads inherit this mask: a signal is for the main thread, and has to wake it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            serve = self._server.serve_forever
            threading.Thread(target=serve, name="metrics", daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Closes the port in this process: a worker does not hold it against the next start."""
        with contextlib.suppress(OSError):
            self._server.socket.close()
