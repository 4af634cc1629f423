# SPDX-License-Identifier: Apache-2.0
"""What a process hears from one Redis, over a PUB/SUB connection that renews itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace.client import AsyncClient

LOG = logging.getLogger(__name__)

#: Seconds to wait for a connection, and for Redis to confirm a subscription.
_CONFIRM = 4.0
#: Names in one command: Redis does nothing else while it does one.
_AT_ONCE = 512
#: Seconds without a word after which the connection is asked whether it lives, and
#: seconds for its answer.
_QUIET, _ANSWER = 20.0, 5.0
#: Seconds between attempts to come back.
_AGAIN = (0.1, 0.4)


class Listener:
    def __init__(
        self,
        client: AsyncClient,
        hear: Callable[[bytes, bytes], None],
        missed: Callable[[], None],
    ) -> None:
        """*hear* is called with the name of a channel and what was said there; *missed* when
        there was no connection for a while, and is one again."""
        self._client = client
        self._hear = hear
        self._missed = missed
        #: what is wanted, and the confirmation that is waited for
        self._confirmed: dict[bytes, asyncio.Event] = {}
        #: wanted for good; the last one is confirmed behind everything else
        self._always: Sequence[bytes] = ()
        #: None: it is being made, and everything is said when it is there
        self._connection: AbstractConnection | None = None
        self._quiet = False
        #: why there is no connection, as the log has it
        self._said = ""
        self._keeper: asyncio.Task[None] | None = None
        self._unsaid: list[tuple[str, bytes]] = []
        self._speaking: asyncio.Task[None] | None = None

    def start(self, *always: bytes) -> None:
        """Hear these, at least one, from the first connection to the last."""
        self._always = always
        for name in always:
            self._confirmed[name] = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(), name="listener")

    async def close(self) -> None:
        for task in (self._keeper, self._speaking):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def subscribe(self, name: bytes) -> None:
        """Returns when nothing from now on is missed; again is nothing.

        Raises StoreUnavailable when Redis does not confirm it; it is wanted all the same.
        """
        if name not in self._confirmed:
            self._confirmed[name] = asyncio.Event()
            self._say("SUBSCRIBE", name)
        await self.confirmed(name)

    async def unsubscribe(self, name: bytes) -> None:
        self._confirmed.pop(name, None)
        self._say("UNSUBSCRIBE", name)

    async def confirmed(self, name: bytes) -> None:
        """Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(_CONFIRM):
                await self._confirmed[name].wait()
        except (TimeoutError, KeyError):
            raise errors.StoreUnavailable(self._client.name) from None

    def _say(self, what: str, name: bytes) -> None:
        """Soon, together with all that this turn of the loop says."""
        self._unsaid.append((what, name))
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.create_task(self._speak(), name="listener speaks")

    async def _speak(self) -> None:
        while self._unsaid:
            unsaid, self._unsaid = self._unsaid, []
            for what, some in groupby(unsaid, itemgetter(0)):
                names = [name for _, name in some]
                for first in range(0, len(names), _AT_ONCE):
                    connection = self._connection
                    if connection is None or not connection.is_connected:
                        self._unsaid.clear()
                        return  # the next one begins with all that is wanted
                    with contextlib.suppress(RedisError, OSError, TimeoutError):
                        await _write(connection, what, *names[first : first + _AT_ONCE])

    async def _keep(self) -> None:
        while True:
            connection = self._client.connection()
            try:
                async with asyncio.timeout(_CONFIRM):
                    await connection.connect()
                await self._serve(connection)
            except Exception as error:  # whatever it was: without this nobody hears anything
                # Once: a Redis that is away for an hour would fill the log with it.
                if errors.reason(error) != self._said:
                    self._said = errors.reason(error)
                    LOG.warning(
                        "no connection to listen to %s: %s",
                        self._client.name,
                        self._said,
                        extra={"action": "listener_lost"},
                    )
            finally:
                self._connection = None
                for event in self._confirmed.values():
                    event.clear()
                with contextlib.suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)
            await asyncio.sleep(random.uniform(*_AGAIN))

    async def _serve(self, connection: AbstractConnection) -> None:
        # Whoever comes from now on says it themselves.
        others = [name for name in self._confirmed if name not in self._always]
        self._connection, names = connection, (*others, *self._always)
        tasks = [
            asyncio.create_task(part)
            for part in (self._begin(connection, names), self._read(connection))
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, connection: AbstractConnection, names: Sequence[bytes]) -> None:
        """Say what is wanted, and then watch: a listener would never notice that it is dead."""
        for first in range(0, len(names), _AT_ONCE):
            # Those that are not wanted any more have said so by now.
            some = [name for name in names[first : first + _AT_ONCE] if name in self._confirmed]
            if some:
                await _write(connection, "SUBSCRIBE", *some)
        while True:
            self._quiet = True
            await asyncio.sleep(_QUIET)
            if self._quiet:
                await _write(connection, "PING")
                await asyncio.sleep(_ANSWER)
                if self._quiet:
                    raise TimeoutError("Redis does not answer")

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            kind, name, *rest = await connection.read_response(
                disable_decoding=True, timeout=math.inf, disconnect_on_error=False
            )
            self._quiet = False
            if kind == b"message":
                self._hear(name, rest[0])
            elif kind == b"subscribe" and name in self._confirmed:
                self._confirmed[name].set()
                if name == self._always[-1]:
                    self._complete()

    def _complete(self) -> None:
        """Everything that was wanted is confirmed."""
        self._said = ""
        if len(self._confirmed) > len(self._always):
            self._missed()  # what came while there was no connection


async def _write(connection: AbstractConnection, *command: Any) -> None:
    """Raises TimeoutError when Redis reads nothing any more."""
    async with asyncio.timeout(_CONFIRM):
        await connection.send_command(*command, check_health=False)
