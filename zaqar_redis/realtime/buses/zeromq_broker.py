# SPDX-License-Identifier: Apache-2.0
"""The broker of a ZeroMQ bus: passes messages on to the nodes that subscribe to them.

It keeps nothing, and reads no message.  Several brokers know nothing of each other.
"""

from __future__ import annotations

import logging
from collections.abc import Set

import msgspec
import zmq
from zmq.auth.thread import ThreadAuthenticator

from zaqar_redis import errors
from zaqar_redis.realtime.buses import zeromq_wire as wire
from zaqar_redis.realtime.buses.zeromq_keys import public_key

LOG = logging.getLogger(__name__)

#: Milliseconds between pings, and until a node that does not answer is given up: what waits for
#: it is dropped then.
_PING_INTERVAL, _PONG_TIMEOUT = 2000, 10_000
#: The domain in which clients are authenticated: with a name, ZeroMQ lets nobody in unasked.
_DOMAIN = "bus"
#: Refused keys that are remembered, each to be logged once: they try again all the time.
_REFUSED_MAX = 1000


class BrokerSettings(msgspec.Struct, frozen=True):
    #: an IP address
    bind: str
    #: where messages are sent to; nodes receive them from the next one
    port: int
    #: messages that wait for each node at most, and messages of each sender
    high_water_mark: int
    #: in Z85; empty: without CURVE
    curve_secret_key: str
    #: public keys of those that may connect, in Z85; None: everybody who knows the broker's
    curve_clients: Set[str] | None


class ForwardingBroker:
    """Two sockets, from `bind` to `close`."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._authenticator: ThreadAuthenticator | None = None

    def endpoint(self, offset: int) -> str:
        host = self._settings.bind
        host = f"[{host}]" if ":" in host else host
        return f"tcp://{host}:{self._settings.port + offset}"

    def bind(self) -> None:
        """Listens.  Raises BadConfiguration."""
        if self._settings.curve_clients is not None:
            self._authenticate(self._settings.curve_clients)
        for offset, kind in enumerate((zmq.XSUB, zmq.XPUB)):
            socket = self._socket(kind)
            try:
                socket.bind(self.endpoint(offset))
            except zmq.ZMQError as error:
                raise errors.BadConfiguration(
                    f"cannot listen at {self.endpoint(offset)}: {errors.reason(error)}; choose "
                    "--bind and --port so that the port and the one after it are free"
                ) from error

    def forward(self) -> None:
        """Passes messages on until `close` is called, in another thread."""
        publishers, subscribers = self._sockets
        # A node must receive what is sent once this broker has its subscription.  Publishers get
        # subscriptions later, at a time that nobody knows, and ZeroMQ filters where messages are
        # sent.  So publishers send all of them here, from the start on, and only this end filters.
        try:
            publishers.send(b"\1")
            zmq.proxy(publishers, subscribers)
        except zmq.ContextTerminated:
            pass
        finally:
            self._close_sockets()

    def close(self) -> None:
        """Ends `forward`, and closes everything.  Idempotent."""
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None
        self._context.term()

    def abandon(self) -> None:
        """Closes everything when `bind` has failed."""
        self._close_sockets()
        self.close()

    def _authenticate(self, clients: Set[str]) -> None:
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN, _ClientKeys(clients))

    def _close_sockets(self) -> None:
        for socket in self._sockets:
            socket.close(linger=0)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        # To those that send go subscriptions only.  One that was lost would stay in their memory;
        # and who does not read them for ten seconds is given up.
        waiting = 0 if kind == zmq.XSUB else self._settings.high_water_mark
        socket.setsockopt(zmq.SNDHWM, waiting)
        # What a sender may have here; then TCP holds it up.
        socket.setsockopt(zmq.RCVHWM, self._settings.high_water_mark)
        socket.setsockopt(zmq.MAXMSGSIZE, wire.MESSAGE_MAX)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _PING_INTERVAL)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _PONG_TIMEOUT)
        socket.setsockopt(zmq.IPV6, int(":" in self._settings.bind))
        if secret := self._settings.curve_secret_key:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode())
            socket.setsockopt(zmq.CURVE_PUBLICKEY, public_key(secret).encode())
            if self._authenticator is not None:
                socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
        return socket


class _ClientKeys:
    """What ZeroMQ asks which clients may connect."""

    def __init__(self, allowed: Set[str]) -> None:
        self._allowed = allowed
        self._refused: set[str] = set()

    def callback(self, domain: str, key: bytes) -> bool:
        """*key*: of a client that has the secret one that belongs to it; in Z85."""
        text = key.decode()
        if text in self._allowed:
            return True
        if text not in self._refused and len(self._refused) < _REFUSED_MAX:
            self._refused.add(text)
            LOG.warning("client key refused: %s", text, extra={"action": "bus_client_refused"})
        return False
