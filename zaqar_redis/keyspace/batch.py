# SPDX-License-Identifier: Apache-2.0
"""Smart batching: one connection, many callers, few writes.

All commands issued in one iteration of the event loop leave in one write; replies
are matched in order.  The connection itself (TLS, AUTH, RESP) is redis-py's.
When it is lost, all commands without an answer fail at once, and a new one is opened in
the background (`connection`): the process never hangs on a store that is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Annotated, Any, cast

import hiredis
import msgspec
from msgspec import Meta
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts, answer_within
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.metrics import sampling

LOG = logging.getLogger(__name__)

#: Bytes that are read at once: some hundred replies.
_READ_SIZE = 64 * 1024
_NO_REPLY = object()


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

    __slots__ = ("answer", "command", "deadline", "packed")

    def __init__(
        self, command: RedisCommand, packed: bytes, answer: asyncio.Future[Any], deadline: float
    ) -> None:
        self.command = command
        self.packed = packed
        self.answer = answer
        self.deadline = deadline


class _TimedAnswer:
    """In the place of the future of a command whose duration is measured."""

    def __init__(self, answer: asyncio.Future[Any], store: str, verb: str) -> None:
        self._answer = answer
        self._labels = store, verb
        self._written_at = perf_counter_ns()
        self.done = answer.done
        self.exception = answer.exception
        self.set_exception = answer.set_exception

    def set_result(self, result: Any) -> None:
        metrics.STORE_CALLS.add(perf_counter_ns() - self._written_at, *self._labels)
        self._answer.set_result(result)


class CommandBatcher:
    """Sends commands in batches over one connection, which it reopens when lost."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        settings: BatchSettings,
        name: str,
        store: str,
        translate_error: Callable[[RedisError], Exception],
    ) -> None:
        """*name* is for the log, *store* for errors; *translate_error* makes them."""
        self._translate_error = translate_error
        self._settings = settings
        self._name = name
        self._store = store
        self._unsent: deque[PendingCommand] = deque()
        self._unsent_bytes = 0
        self._sent: deque[PendingCommand] = deque()
        self._wake = asyncio.Event()
        self._connected = asyncio.Event()
        self._keeper = ConnectionKeeper(
            connect,
            self._serve,
            self._on_lost,
            name=f"connection to {name}",
            store=store,
            action="store_lost",
            timeout=settings.connect_timeout,
            backoff=settings.backoff,
            backoff_max=settings.backoff_max,
        )
        #: a method of its own for a write that is measured: the others cost nothing more
        self._take = self._next_write
        self._ends: list[Callable[[], None]] = []
        # Stored: to get it from asyncio costs a system call, in the hottest path.
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Connects; stops waiting, but not trying, after the connect timeout."""
        self._loop = asyncio.get_running_loop()
        self._keeper.start()
        self._ends = [
            sampling.add(self._measure_next),
            metrics.STORE_UP.follow(self._connected.is_set, self._store),
            metrics.STORE_IN_FLIGHT.follow(
                lambda: len(self._unsent) + len(self._sent), self._store
            ),
        ]
        try:
            async with answer_within(self._settings.connect_timeout):
                await self._connected.wait()
        except TimeoutError as late:
            self._keeper.error = self._keeper.error or late

    async def close(self) -> None:
        for end in self._ends:
            end()
        await self._keeper.close()
        self._fail(errors.StoreUnavailable)

    def send(self, command: RedisCommand) -> asyncio.Future[Any]:
        """Returns the future of the answer.

        It raises StoreUnavailable while there is no connection, with the reason as its
        cause, and Overloaded when too many commands wait.  A command whose connection
        is lost fails with StoreUnavailable; whether it was done is not known then.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._append(command, command.packed(), answer)
        return answer

    def _append(self, command: RedisCommand, packed: bytes, answer: asyncio.Future[Any]) -> None:
        settings = self._settings
        if not self._connected.is_set():
            unavailable = errors.StoreUnavailable(self._store)
            unavailable.__cause__ = self._keeper.error
            answer.set_exception(unavailable)
        elif (
            len(self._unsent) + len(self._sent) >= settings.in_flight
            or self._unsent_bytes + len(packed) > settings.backlog_bytes
        ):
            answer.set_exception(errors.Overloaded(store=self._store))
        else:
            if not self._unsent:
                self._wake.set()
            deadline = self._loop.time() + settings.timeout
            self._unsent.append(PendingCommand(command, packed, answer, deadline))
            self._unsent_bytes += len(packed)

    def _serve(self, connection: AbstractConnection) -> Parts:
        about = {"action": "store_connected", "store": self._store}
        LOG.info("connected to %s", self._name, extra=about)
        self._keeper.confirm()
        self._connected.set()
        return self._write(connection), self._read(connection), self._watch_deadlines()

    def _on_lost(self) -> None:
        # Attempts to connect that fail are no losses.  No error: it is being closed.
        if self._connected.is_set() and self._keeper.error is not None:
            metrics.STORE_LOST.add(self._store)
        self._connected.clear()
        self._fail(errors.StoreUnavailable, self._keeper.error)

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                await connection.send_packed_command(self._take(), False)

    def _measure_next(self) -> None:
        self._take = self._next_write_measured

    def _next_write_measured(self) -> bytes:
        """Returns the same as `_next_write`, and measures one of its commands."""
        self._take = self._next_write
        before = len(self._sent)
        data = self._next_write()
        written = len(self._sent) - before
        if written:
            metrics.STORE_BATCH.observe(written, self._store)
            pending = self._sent[before + random.randrange(written)]
            command = pending.command
            verb = command.script.name if isinstance(command, Call) else str(command.command()[0])
            timed = _TimedAnswer(pending.answer, self._store, verb)
            pending.answer = cast("asyncio.Future[Any]", timed)
        return data

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
        # Straight from the stream: redis-py takes two coroutines for each reply.
        stream = cast(asyncio.StreamReader, connection._reader)
        parse_error = connection._parser.parse_error
        reader = hiredis.Reader(replyError=parse_error, notEnoughData=_NO_REPLY)
        sent = self._sent
        while True:
            data = await stream.read(_READ_SIZE)
            if not data:
                raise ConnectionError("the server closed the connection")
            reader.feed(data)
            while (reply := reader.gets()) is not _NO_REPLY:
                pending = sent.popleft()
                if isinstance(reply, RedisError):
                    self._refuse(pending, reply)
                elif not pending.answer.done():
                    pending.answer.set_result(reply)
                del pending  # a store may be silent for long: its last answer is not to be kept

    def _refuse(self, pending: PendingCommand, refusal: RedisError) -> None:
        answer = pending.answer
        if answer.done():
            return
        if isinstance(refusal, NoScriptError) and isinstance(pending.command, Call):
            # A new or flushed server: nothing was done yet.
            self._append(pending.command, pending.command.packed_with_source(), answer)
            return
        error = self._translate_error(refusal)
        if error is not refusal:
            error.__cause__ = refusal
        answer.set_exception(error)

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
                    late = TimeoutError(f"no answer within {self._settings.timeout:g} s")
                    self._fail(errors.StoreTimeout, late)
                    raise late

    def _fail(self, kind: type[errors.StoreUnavailable], cause: Exception | None = None) -> None:
        for queue in (self._sent, self._unsent):
            for pending in queue:
                if not pending.answer.done():
                    error = kind(self._store)
                    error.__cause__ = cause
                    pending.answer.set_exception(error)
                    # Some callers have gone: mark the exception as retrieved.
                    pending.answer.exception()
            queue.clear()
        self._unsent_bytes = 0
