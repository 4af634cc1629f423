# SPDX-License-Identifier: Apache-2.0
"""A PUB/SUB listener on one Redis, which reopens its connection when lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from zaqar_redis import errors, runner
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.connection import (
    ConnectionKeeper,
    Parts,
    answer_within,
    run_until_one_ends,
)
from zaqar_redis.keyspace.replies import NO_REPLY, reply_stream

#: Seconds to wait for a connection, and for the confirmation of a subscription.
CONFIRM_TIMEOUT_SECONDS = 4.0
#: Names in one command: Redis does nothing else meanwhile.
MAX_NAMES = 512
#: Seconds without a message after which the connection is tested by PING, and seconds
#: for the answer.
_PING_INTERVAL_SECONDS, _PONG_TIMEOUT_SECONDS = 20.0, 5.0
#: Seconds between attempts to reconnect: subscribers miss messages meanwhile.
_RECONNECT_DELAY_SECONDS = 0.25


class PubSubCommands(NamedTuple):
    """The commands of one kind of PUB/SUB, and what a listener receives."""

    publish: str
    subscribe: str
    unsubscribe: str
    subscribed: bytes
    unsubscribed: bytes
    message: bytes


PUBSUB = PubSubCommands(
    "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", b"subscribe", b"unsubscribe", b"message"
)
#: Since Redis 7: in a cluster, a message stays in the shard of its channel.
SHARDED_PUBSUB = PubSubCommands(
    "SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE", b"ssubscribe", b"sunsubscribe", b"smessage"
)


class PubSubListener:
    """Subscriptions to channels, which survive the loss of a connection."""

    def __init__(
        self,
        client: AsyncClient,
        on_message: Callable[[bytes, bytes], None],
        on_reconnect: Callable[[], None],
        commands: PubSubCommands | None = PUBSUB,
        max_names: int = MAX_NAMES,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """*on_message* is called with a channel's name and a payload; *on_reconnect* when the
        connection was lost for a while, and is back, or when a subscription is confirmed late, so
        that messages may have been missed; *on_lost* when it is lost.  *commands*:
        None: sharded PUB/SUB where the server has it; *max_names*: in one command; a cluster
        takes one."""
        self._tell_lost = on_lost
        self._max_names = max_names
        self._client = client
        self._on_message = on_message
        self._on_reconnect = on_reconnect
        self._given_commands = commands
        #: None: not known yet
        self.commands = commands
        #: wanted channels, and the event of their confirmation
        self._confirmed: dict[bytes, asyncio.Event] = {}
        #: channels that are always wanted; the last one is confirmed after all others
        self._permanent: Sequence[bytes] = ()
        #: None: it is being opened, and then everything wanted is subscribed
        self._connection: AbstractConnection | None = None
        self._idle = self._was_complete = False
        #: somebody waited in vain for a subscription, and may have missed messages
        self._is_late = False
        self._keeper = ConnectionKeeper(
            client.connection,
            self._serve,
            self._on_lost,
            name=f"connection to listen to {client.uri}",
            store=client.name,
            action="listener_lost",
            timeout=CONFIRM_TIMEOUT_SECONDS,
            backoff=_RECONNECT_DELAY_SECONDS,
            backoff_max=_RECONNECT_DELAY_SECONDS,
        )
        self._pending: list[tuple[bool, bytes]] = []
        self._flush_task: asyncio.Task[None] | None = None

    def start(self, *permanent: bytes) -> None:
        """Connects, and subscribes to these channels, at least one, on every connection."""
        self._permanent, self._was_complete, self._is_late = permanent, False, False
        for name in permanent:
            self._confirmed[name] = asyncio.Event()
        self._keeper.start()

    async def close(self) -> None:
        await self._keeper.close()
        if self._flush_task is not None:
            await runner.cancel(self._flush_task)

    @property
    def live(self) -> bool:
        """Whether everything that is wanted is confirmed."""
        return self._connection is not None and all(
            self._confirmed[name].is_set() for name in self._permanent
        )

    async def subscribe(self, name: bytes) -> None:
        """Subscribes; returns when nothing from now on is missed.  Idempotent.

        Raises StoreUnavailable when Redis does not confirm it; it stays wanted all the same.
        """
        if name not in self._confirmed:
            self._confirmed[name] = asyncio.Event()
            self._enqueue(True, name)
        await self.confirmed(name)

    async def unsubscribe(self, name: bytes) -> None:
        self._confirmed.pop(name, None)
        self._enqueue(False, name)

    async def confirmed(self, name: bytes) -> None:
        """Waits for the confirmation of a channel.  Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(CONFIRM_TIMEOUT_SECONDS):
                await self._confirmed[name].wait()
        except (TimeoutError, KeyError):
            self._is_late |= name not in self._permanent
            raise errors.StoreUnavailable(self._client.name) from None
        except asyncio.CancelledError:  # of a caller with less patience, e.g.
            self._is_late |= name not in self._permanent
            raise

    def _enqueue(self, is_wanted: bool, name: bytes) -> None:
        """Sends a command soon, together with all others of this iteration of the loop."""
        self._pending.append((is_wanted, name))
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.create_task(self._flush(), name="listener flush")

    async def _flush(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, []
            for is_wanted, some in groupby(pending, itemgetter(0)):
                names = [name for _, name in some]
                for first in range(0, len(names), self._max_names):
                    connection, commands = self._connection, self.commands
                    if connection is None or commands is None or not connection.is_connected:
                        self._pending.clear()
                        return  # the next connection begins with all that is wanted
                    what = commands.subscribe if is_wanted else commands.unsubscribe
                    with contextlib.suppress(RedisError, OSError, TimeoutError):
                        await _write(connection, what, *names[first : first + self._max_names])

    def _serve(self, connection: AbstractConnection) -> Parts:
        return (self._use(connection),)

    async def _use(self, connection: AbstractConnection) -> None:
        commands = self._given_commands or await _find_commands(connection)
        self.commands = commands
        # Channels added from now on are subscribed by their callers.
        others = [name for name in self._confirmed if name not in self._permanent]
        self._connection, names = connection, (*others, *self._permanent)
        await run_until_one_ends(
            (
                self._begin(connection, commands, names),
                self._read(connection, commands),
                self._client.until_replaced(connection),
            )
        )

    def _on_lost(self) -> None:
        if self._tell_lost is not None:
            self._tell_lost()
        self._connection = None
        for event in self._confirmed.values():
            event.clear()

    async def _begin(
        self, connection: AbstractConnection, commands: PubSubCommands, names: Sequence[bytes]
    ) -> None:
        """Subscribes to all that is wanted, then watches the connection by PING."""
        for first in range(0, len(names), self._max_names):
            # Some may have been unsubscribed meanwhile.
            some = [
                name for name in names[first : first + self._max_names] if name in self._confirmed
            ]
            if some:
                await _write(connection, commands.subscribe, *some)
        while True:
            self._idle = True
            await asyncio.sleep(_PING_INTERVAL_SECONDS)
            if self._idle:
                await _write(connection, "PING")
                await asyncio.sleep(_PONG_TIMEOUT_SECONDS)
                if self._idle:
                    raise TimeoutError(f"no answer within {_PONG_TIMEOUT_SECONDS:g} s")

    async def _read(self, connection: AbstractConnection, commands: PubSubCommands) -> None:
        replies = reply_stream(connection)
        message = commands.message
        while True:
            await replies.receive()
            self._idle = False
            while (reply := replies.next()) is not NO_REPLY:
                if isinstance(reply, RedisError):
                    raise reply
                if reply[0] == message:
                    self._on_message(reply[1], reply[2])
                else:
                    self._on_confirmation(commands, *reply)

    def _on_confirmation(
        self, commands: PubSubCommands, kind: bytes, name: bytes, *_: object
    ) -> None:
        if name not in self._confirmed:
            return
        if kind == commands.unsubscribed:  # by the server: its slot has been moved
            self._confirmed[name].clear()
            self._enqueue(True, name)  # the answer says so, if it was not our own command
        elif kind == commands.subscribed:
            self._confirmed[name].set()
            if name == self._permanent[-1]:
                self._complete()

    def _complete(self) -> None:
        """Ends a reconnection: everything that was wanted is confirmed."""
        self._keeper.confirm()
        has_missed = self._was_complete or self._is_late
        self._was_complete, self._is_late = True, False
        if has_missed:
            self._on_reconnect()


async def _find_commands(connection: AbstractConnection) -> PubSubCommands:
    """Returns the commands of sharded PUB/SUB if the server has them."""
    async with answer_within(CONFIRM_TIMEOUT_SECONDS):
        await connection.send_command("COMMAND", "INFO", "SSUBSCRIBE", check_health=False)
        (known,) = await connection.read_response(disable_decoding=True)
    return PUBSUB if known is None else SHARDED_PUBSUB


async def _write(connection: AbstractConnection, *command: Any) -> None:
    """Raises TimeoutError when Redis reads nothing any more."""
    async with answer_within(CONFIRM_TIMEOUT_SECONDS):
        await connection.send_command(*command, check_health=False)
