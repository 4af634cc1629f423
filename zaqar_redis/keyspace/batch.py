# SPDX-License-Identifier: Apache-2.0
"""Smart batching: one connection, many callers, few writes.

All commands issued in one iteration of the event loop leave in one write; replies
are matched in order.  The connection itself (TLS, AUTH, RESP) is redis-py's.
When it is lost, all commands without an answer fail at once, and a new one is opened
in the background: the process never hangs on a store that is unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any

import hiredis
import msgspec
from msgspec import Meta
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from zaqar_redis import errors
from zaqar_redis.keyspace.script import Argument

LOG = logging.getLogger(__name__)
Command = tuple[Argument, ...]


class BatchSettings(msgspec.Struct, frozen=True):
    #: more gain nothing, and delay replies
    batch_commands: Annotated[int, Meta(ge=1), "Maximum number of commands in one write."] = 512
    #: a few times what a socket buffer takes at once
    batch_bytes: Annotated[
        int, Meta(ge=1024), "Approximate maximum number of bytes in one write."
    ] = 1024 * 1024
    #: more are refused with Overloaded
    in_flight: Annotated[
        int,
        Meta(ge=1),
        "Maximum number of commands of one worker without a reply; beyond, requests get 503.",
    ] = 8192
    #: the memory that a slow store may cost a worker
    backlog_bytes: Annotated[
        int,
        Meta(ge=1024 * 1024),
        "Maximum number of bytes of commands that wait to be written; beyond, requests get 503.",
    ] = 64 * 1024 * 1024
    timeout: Annotated[float, Meta(ge=0.1), "Seconds that a command waits for its reply."] = 5.0
    connect_timeout: Annotated[float, Meta(ge=0.1), "Seconds that connecting may take."] = 2.0
    backoff: Annotated[float, Meta(ge=0.001), "Seconds before the first attempt to reconnect."] = (
        0.05
    )
    #: it doubles with each attempt, up to this
    backoff_max: Annotated[
        float, Meta(ge=0.001), "Maximum number of seconds between attempts to reconnect."
    ] = 2.0


class PendingCommand:
    """A command, and the future of its answer."""

    __slots__ = ("answer", "deadline", "packed")

    def __init__(self, packed: bytes, answer: asyncio.Future[Any], deadline: float) -> None:
        self.packed = packed
        self.answer = answer
        self.deadline = deadline


class CommandBatcher:
    """Sends commands in batches over one connection, which it reopens when lost."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        settings: BatchSettings,
        name: str,
        store: str,
    ) -> None:
        """*name* is for the log, *store* for errors."""
        self._connect = connect
        self._settings = settings
        self._name = name
        self._store = store
        self._unsent: deque[PendingCommand] = deque()
        self._unsent_bytes = 0
        self._sent: deque[PendingCommand] = deque()
        self._wake = asyncio.Event()
        self._connected = asyncio.Event()
        self._connection_task: asyncio.Task[None] | None = None
        #: why there is no connection
        self._last_error: Exception | None = None
        # Stored: to get it from asyncio costs a system call, in the hottest path.
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Connects; stops waiting, but not trying, after the connect timeout."""
        self._loop = asyncio.get_running_loop()
        self._connection_task = asyncio.create_task(
            self._run_connection(), name=f"redis {self._name}"
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.connect_timeout):
                await self._connected.wait()

    async def close(self) -> None:
        if self._connection_task:
            self._connection_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._connection_task
        self._fail(errors.StoreUnavailable)

    def send(self, command: Command) -> asyncio.Future[Any]:
        """Returns the future of the answer: a reply, or a `redis.exceptions.ResponseError`.

        Raises StoreUnavailable while there is no connection, with the reason as its
        cause, and Overloaded when too many commands wait.  A command whose connection
        is lost fails with StoreUnavailable; whether it was done is not known then.
        """
        settings = self._settings
        if not self._connected.is_set():
            raise errors.StoreUnavailable(self._store) from self._last_error
        packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # ints too
        if (
            len(self._unsent) + len(self._sent) >= settings.in_flight
            or self._unsent_bytes + len(packed) > settings.backlog_bytes
        ):
            raise errors.Overloaded(store=self._store)
        loop = self._loop
        answer: asyncio.Future[Any] = loop.create_future()
        self._unsent.append(PendingCommand(packed, answer, loop.time() + settings.timeout))
        self._unsent_bytes += len(packed)
        self._wake.set()
        return answer

    async def _run_connection(self) -> None:
        pause = self._settings.backoff
        logged_reason = ""
        while True:
            connection = self._connect()
            closing = False
            try:
                async with asyncio.timeout(self._settings.connect_timeout):
                    await connection.connect()
                LOG.info("connected to %s", self._name, extra={"action": "store_connected"})
                pause, logged_reason, self._last_error = self._settings.backoff, "", None
                self._connected.set()
                await self._serve(connection)
            except asyncio.CancelledError:
                closing = True
                raise
            except Exception as error:  # whatever broke it, only a new connection repairs it
                self._last_error = error
                # Once: a store that is unavailable for an hour would fill the log.
                if errors.reason(error) != logged_reason:
                    logged_reason = errors.reason(error)
                    LOG.warning(
                        "no connection to %s: %s",
                        self._name,
                        logged_reason,
                        extra={"action": "store_lost"},
                    )
                if isinstance(error, AuthenticationError):
                    pause = self._settings.backoff_max
            finally:
                self._connected.clear()
                self._fail(errors.StoreUnavailable)
                # TLS waits for its peer at the end; not on a connection that is lost.
                with contextlib.suppress(RedisError):
                    await connection.disconnect(nowait=not closing)
            # Jitter: after an outage the workers must not all come back at once.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, self._settings.backoff_max)

    async def _serve(self, connection: AbstractConnection) -> None:
        parts = (self._write(connection), self._read(connection), self._watch_deadlines())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                await connection.send_packed_command(self._next_write(), False)

    def _next_write(self) -> bytes:
        settings = self._settings
        pieces: list[bytes] = []
        size = 0
        while (
            self._unsent and len(pieces) < settings.batch_commands and size < settings.batch_bytes
        ):
            pending = self._unsent.popleft()
            self._unsent_bytes -= len(pending.packed)
            if pending.answer.done():
                continue  # its caller has gone, and it was never sent
            size += len(pending.packed)
            pieces.append(pending.packed)
            pending.packed = b""  # free the memory of a sent command
            self._sent.append(pending)
        return b"".join(pieces)

    async def _read(self, connection: AbstractConnection) -> None:
        sent = self._sent
        while True:
            try:
                reply = await connection.read_response(
                    disable_decoding=True, timeout=math.inf, disconnect_on_error=False
                )
            except ResponseError as refusal:
                answer = sent.popleft().answer
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                answer = sent.popleft().answer
                if not answer.done():
                    answer.set_result(reply)

    async def _watch_deadlines(self) -> None:
        """Drops the connection when an answer is overdue.

        Only their order ties replies to commands, so a missing reply makes the
        connection useless.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._settings.timeout / 8)
            for queue in (self._sent, self._unsent):
                if queue and queue[0].deadline < loop.time():
                    self._fail(errors.StoreTimeout)
                    raise errors.StoreTimeout(self._store)

    def _fail(self, error: type[errors.StoreUnavailable]) -> None:
        for queue in (self._sent, self._unsent):
            for pending in queue:
                if not pending.answer.done():
                    pending.answer.set_exception(error(self._store))
                    # Some callers have gone: mark the exception as retrieved.
                    pending.answer.exception()
            queue.clear()
        self._unsent_bytes = 0
