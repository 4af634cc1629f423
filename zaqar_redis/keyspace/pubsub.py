# SPDX-License-Identifier: Apache-2.0
"""A PUB/SUB listener on one Redis, which reopens its connection when lost."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts, answer_within

#: Seconds to wait for a connection, and for the confirmation of a subscription.
_CONFIRM_TIMEOUT_SECONDS = 4.0
#: Names in one command: Redis does nothing else meanwhile.
_MAX_NAMES = 512
#: Seconds without a message after which the connection is tested by PING, and seconds
#: for the answer.
_PING_INTERVAL_SECONDS, _PONG_TIMEOUT_SECONDS = 20.0, 5.0
#: Seconds between attempts to reconnect: subscribers miss messages meanwhile.
_RECONNECT_DELAY_SECONDS = 0.25


class PubSubListener:
    """Subscriptions to channels, which survive the loss of a connection."""

    def __init__(
        self,
        client: AsyncClient,
        on_message: Callable[[bytes, bytes], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        """*on_message* is called with a channel's name and a payload; *on_reconnect* when the
        connection was lost for a while, and is back."""
        self._client = client
        self._on_message = on_message
        self._on_reconnect = on_reconnect
        #: wanted channels, and the event of their confirmation
        self._confirmed: dict[bytes, asyncio.Event] = {}
        #: channels that are always wanted; the last one is confirmed after all others
        self._permanent: Sequence[bytes] = ()
        #: None: it is being opened, and then everything wanted is subscribed
        self._connection: AbstractConnection | None = None
        self._idle = False
        self._keeper = ConnectionKeeper(
            client.connection,
            self._serve,
            self._on_lost,
            name=f"connection to listen to {client.name}",
            store=client.name,
            action="listener_lost",
            timeout=_CONFIRM_TIMEOUT_SECONDS,
            backoff=_RECONNECT_DELAY_SECONDS,
            backoff_max=_RECONNECT_DELAY_SECONDS,
        )
        self._pending: list[tuple[str, bytes]] = []
        self._flush_task: asyncio.Task[None] | None = None

    def start(self, *permanent: bytes) -> None:
        """Connects, and subscribes to these channels, at least one, on every connection."""
        self._permanent = permanent
        for name in permanent:
            self._confirmed[name] = asyncio.Event()
        self._keeper.start()

    async def close(self) -> None:
        await self._keeper.close()
        if self._flush_task is not None:
            self._flush_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._flush_task

    async def subscribe(self, name: bytes) -> None:
        """Subscribes; returns when nothing from now on is missed.  Idempotent.

        Raises StoreUnavailable when Redis does not confirm it; it stays wanted all the same.
        """
        if name not in self._confirmed:
            self._confirmed[name] = asyncio.Event()
            self._enqueue("SUBSCRIBE", name)
        await self.confirmed(name)

    async def unsubscribe(self, name: bytes) -> None:
        self._confirmed.pop(name, None)
        self._enqueue("UNSUBSCRIBE", name)

    async def confirmed(self, name: bytes) -> None:
        """Waits for the confirmation of a channel.  Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(_CONFIRM_TIMEOUT_SECONDS):
                await self._confirmed[name].wait()
        except (TimeoutError, KeyError):
            raise errors.StoreUnavailable(self._client.name) from None

    def _enqueue(self, what: str, name: bytes) -> None:
        """Sends a command soon, together with all others of this iteration of the loop."""
        self._pending.append((what, name))
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.create_task(self._flush(), name="listener flush")

    async def _flush(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, []
            for what, some in groupby(pending, itemgetter(0)):
                names = [name for _, name in some]
                for first in range(0, len(names), _MAX_NAMES):
                    connection = self._connection
                    if connection is None or not connection.is_connected:
                        self._pending.clear()
                        return  # the next connection begins with all that is wanted
                    with contextlib.suppress(RedisError, OSError, TimeoutError):
                        await _write(connection, what, *names[first : first + _MAX_NAMES])

    def _serve(self, connection: AbstractConnection) -> Parts:
        # Channels added from now on are subscribed by their callers.
        others = [name for name in self._confirmed if name not in self._permanent]
        self._connection, names = connection, (*others, *self._permanent)
        return self._begin(connection, names), self._read(connection)

    def _on_lost(self) -> None:
        self._connection = None
        for event in self._confirmed.values():
            event.clear()

    async def _begin(self, connection: AbstractConnection, names: Sequence[bytes]) -> None:
        """Subscribes to all that is wanted, then watches the connection by PING."""
        for first in range(0, len(names), _MAX_NAMES):
            # Some may have been unsubscribed meanwhile.
            some = [name for name in names[first : first + _MAX_NAMES] if name in self._confirmed]
            if some:
                await _write(connection, "SUBSCRIBE", *some)
        while True:
            self._idle = True
            await asyncio.sleep(_PING_INTERVAL_SECONDS)
            if self._idle:
                await _write(connection, "PING")
                await asyncio.sleep(_PONG_TIMEOUT_SECONDS)
                if self._idle:
                    raise TimeoutError(f"no answer within {_PONG_TIMEOUT_SECONDS:g} s")

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            kind, name, *rest = await connection.read_response(
                disable_decoding=True, timeout=math.inf, disconnect_on_error=False
            )
            self._idle = False
            if kind == b"message":
                self._on_message(name, rest[0])
            elif kind == b"subscribe" and name in self._confirmed:
                self._confirmed[name].set()
                if name == self._permanent[-1]:
                    self._complete()

    def _complete(self) -> None:
        """Ends a reconnection: everything that was wanted is confirmed."""
        self._keeper.confirm()
        if len(self._confirmed) > len(self._permanent):
            self._on_reconnect()  # messages may have been missed meanwhile


async def _write(connection: AbstractConnection, *command: Any) -> None:
    """Raises TimeoutError when Redis reads nothing any more."""
    async with answer_within(_CONFIRM_TIMEOUT_SECONDS):
        await connection.send_command(*command, check_health=False)
