# SPDX-License-Identifier: Apache-2.0
"""A transport for kombu, so that Celery runs on queues of zaqar_redis.

import zaqar_redis_client.kombu  # kombu knows zaqar-redis:// from now on

app = Celery(broker="zaqar-redis://127.0.0.1:8888/demo")

Messages are claimed, and deleted when they are acknowledged; until then their leases are renewed.
Both happen in the event loop of the client's thread, which also waits for messages.  What comes
is put into the channel, and a byte into a socket: for that the consumer waits, alone or in a hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import weakref
from multiprocessing.util import Finalize
from typing import Any

import aiohttp
from kombu.transport import TRANSPORT_ALIASES, virtual

from zaqar_redis_client.blocking import _Loop
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.errors import Refused, Unavailable, Unsupported
from zaqar_redis_client.kombu_channel import Channel
from zaqar_redis_client.kombu_deliveries import at_last

TRANSPORT_ALIASES["zaqar-redis"] = f"{__name__}:Transport"

#: Seconds for which a request is tried while the service is away: then Celery reconnects.
_RETRY_FOR = 10.0
#: The clients by process, URL, project and token.  Those of a process that has forked stay: closed
#: or collected in the child, they would take the parent's connections out of its event loop.
_clients: dict[tuple[Any, ...], AsyncClient] = {}


def _close_clients() -> None:
    at_last(*(client.close() for key, client in _clients.items() if key[0] == os.getpid()))


class Transport(virtual.Transport):
    """A connection: `zaqar-redis://[:token@]host[:port]/project`."""

    Channel = Channel
    default_port = 8888
    driver_type = "zaqar-redis"
    driver_name = "zaqar-redis-client"
    # No OSError: `drain_events` raises TimeoutError, and Celery would take that for a lost
    # connection, and delete its queue of results with what has come there meanwhile.
    connection_errors = (*virtual.Transport.connection_errors, Unavailable)
    channel_errors = (*virtual.Transport.channel_errors, Refused, Unsupported)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"})
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self._error: BaseException | None = None
        self._hub: Any = None
        self._pid = os.getpid()
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def service(self) -> AsyncClient:
        """Returns the client of this process, which all connections share."""
        params = self.client
        scheme = "https" if params.ssl else "http"
        url = f"{scheme}://{params.hostname or '127.0.0.1'}:{params.port or self.default_port}"
        project = (params.virtual_host or "/").strip("/") or None
        key = (os.getpid(), url, project, params.password or None)
        if key not in _clients:
            if not any(known[0] == key[0] for known in [*_clients]):
                # After those of `virtual.QoS`, which have a higher priority.
                Finalize(None, _close_clients, exitpriority=0)
            client = AsyncClient(url, project, credential=key[3], retry_for=_RETRY_FOR)
            _clients.setdefault(key, client)  # another thread may have been faster
        return _clients[key]

    def establish_connection(self) -> Any:
        _Loop.run(self._ping())
        return super().establish_connection()

    async def _ping(self) -> None:
        connection = self.service()._connection
        timeout = self.client.connect_timeout or _RETRY_FOR
        try:
            async with asyncio.timeout(timeout):
                answer = await connection._once("GET", "/v2/ping", None, None, 0)
        except (OSError, aiohttp.ClientError) as error:  # TimeoutError has no text
            text = str(error) or f"no answer for {timeout:g} seconds"
            raise Unavailable(text, may_be_done=False) from error
        if answer.status >= 500:
            raise Unavailable(f"the service answers {answer.status}", may_be_done=False)

    # The consumer waits for a byte.

    def wake(self) -> None:
        sockets = self._sockets
        if sockets:
            with contextlib.suppress(OSError):  # full: a byte is there; closed: nobody waits
                sockets[1].send(b"\0")

    def fail(self, error: BaseException) -> None:
        self._error = error
        self.wake()

    def _deliver_all(self) -> bool:
        found = [channel.deliver() for channel in [*self.channels]]
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return any(found)

    @property
    def _reader(self) -> socket.socket:
        # Most connections only publish.
        if self._sockets is None:
            reader, writer = socket.socketpair()
            writer.setblocking(False)
            for each in (reader, writer):
                weakref.finalize(self, each.close)
            self._sockets = reader, writer
        return self._sockets[0]

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        reader = self._reader  # before the first look, so that it is woken after it
        while not self._deliver_all():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"nothing came within {timeout:g} seconds")
            reader.settimeout(left)
            reader.recv(4096)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self._hub = loop
        loop.add_reader(self._reader.fileno(), self._on_readable)
        self.wake()

    def _on_readable(self) -> None:
        self._reader.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        self._deliver_all()

    def close_connection(self, connection: Any) -> None:
        if self._pid != os.getpid():  # of the process that has forked this one
            return
        if self._hub is not None:
            self._hub.remove_reader(self._reader.fileno())
            self._hub = None
        super().close_connection(connection)
        for each in self._sockets or ():
            each.close()
        self._sockets = None
