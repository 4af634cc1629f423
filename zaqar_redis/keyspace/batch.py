# SPDX-License-Identifier: Apache-2.0
"""Smart batching: one connection, many callers, few writes.

All commands issued in one iteration of the event loop leave in one write, or in two; replies
are matched in order.  The connection itself (TLS, AUTH, RESP) is redis-py's.
When it is lost, all commands without an answer fail at once, and a new one is opened in
the background (`connection`): the process never hangs on a store that is unavailable.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from time import perf_counter_ns
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import NoScriptError, RedisError, ResponseError

from zaqar_redis import errors
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts, answer_within
from zaqar_redis.keyspace.memory_guard import LOOK, MemoryGuard
from zaqar_redis.keyspace.replication import HeldAnswer, Replication, confirmation
from zaqar_redis.keyspace.replies import NO_REPLY, ParsedReplies
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.metrics import sampling
from zaqar_redis.metrics.values import Gauge

LOG = logging.getLogger(__name__)

#: The first commands of an iteration do not wait for its end, so Redis works meanwhile: so many,
#: while Redis has few, and the iteration before had not many.  The last of them must change
#: something: Redis reads in less time than one more write costs.
_EARLY, _FEW, _MANY = 2, 8, 16
#: Bytes of them at most: they do not count for the backlog any more, should Redis not read.
_SMALL = 16 * 1024


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


class TimedAnswer:
    """In the place of the future of a command whose duration is measured."""

    def __init__(self, answer: asyncio.Future[Any], store: str, verb: str) -> None:
        self.answer = answer
        self._labels = store, verb
        self._written_at = perf_counter_ns()
        self.done = answer.done
        self.exception = answer.exception
        self.set_exception = answer.set_exception

    def set_result(self, result: Any) -> None:
        metrics.STORE_CALLS.add(perf_counter_ns() - self._written_at, *self._labels)
        self.answer.set_result(result)


class CommandBatcher:
    """Sends commands in batches over one connection, which it reopens when lost."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        settings: BatchSettings,
        name: str,
        store: str,
        translate_error: Callable[[RedisError], Exception],
        take_over: Callable[[PendingCommand, RedisError], bool] | None = None,
        until_replaced: Callable[[AbstractConnection], Coroutine[Any, Any, None]] | None = None,
        up: Gauge = metrics.STORE_UP,
    ) -> None:
        """*name* is for the log, *store* for errors; *translate_error* makes them.
        *up* shows whether it is connected.

        *take_over* is asked first about a refusal: True: it answers the command.  When it raises,
        the connection is given up; also when *until_replaced* raises.
        """
        self._translate_error = translate_error
        self._take_over = take_over
        self._until_replaced = until_replaced
        self._up = up
        self._settings = settings
        self._name = name
        self._store = store
        self._guard = MemoryGuard(settings.memory_share, store)
        self._unsent: deque[PendingCommand] = deque()
        self._unsent_bytes = 0
        #: commands of the connection whose replies are to come; a new connection has its own
        self._sent: deque[PendingCommand] = deque()
        #: not None: for the first commands of this iteration of the loop
        self._early_writer: asyncio.StreamWriter | None = None
        self._wake = asyncio.Event()
        self._connected = asyncio.Event()
        #: not set while replicas are asked whether they have the last write
        self._confirmed = asyncio.Event()
        self._confirmed.set()
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
        #: methods of their own for what costs more: other writes pay nothing for it
        self._compose = self._next_replicated if settings.ack_replicas else self._next_write
        self._take = self._compose
        self._ends: list[Callable[[], None]] = []
        # Stored: to get it from asyncio costs a system call, in the hottest path.
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Connects; stops waiting, but not trying, after the connect timeout."""
        self._loop = asyncio.get_running_loop()
        self._keeper.start()
        self._ends = [
            sampling.add(self._measure_next),
            self._up.follow(self._connected.is_set, self._store),
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
        cause, Overloaded when too many commands wait, and StoreFull when the store has no
        memory for it.  A command whose connection
        is lost fails with StoreUnavailable; whether it was done is not known then.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        deadline = self._loop.time() + self._settings.timeout
        self._append(command, command.packed(), answer, deadline)
        return answer

    def send_again(
        self, command: RedisCommand, answer: asyncio.Future[Any], deadline: float
    ) -> None:
        """Sends a command that another connection has not done."""
        self._append(command, command.packed(), answer, deadline)

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def oldest(self) -> float:
        """For how many seconds the oldest command has waited for its reply."""
        if not self._sent:
            return 0.0
        return self._loop.time() - self._sent[0].deadline + self._settings.timeout

    def unanswered(self) -> Iterator[RedisCommand]:
        return (pending.command for pending in itertools.chain(self._sent, self._unsent))

    def _append(
        self, command: RedisCommand, packed: bytes, answer: asyncio.Future[Any], deadline: float
    ) -> None:
        settings = self._settings
        if not self._connected.is_set():
            unavailable = errors.StoreUnavailable(self._store)
            unavailable.__cause__ = self._keeper.error
            answer.set_exception(unavailable)
        elif self._guard.is_full and command.needs_memory:
            answer.set_exception(self._guard.refusal())
        elif (
            len(self._unsent) + len(self._sent) >= settings.in_flight
            or self._unsent_bytes + len(packed) > settings.backlog_bytes
        ):
            answer.set_exception(errors.Overloaded(store=self._store))
        else:
            if not self._unsent:
                self._wake.set()
            self._unsent.append(PendingCommand(command, packed, answer, deadline))
            self._unsent_bytes += len(packed)
            if (
                (writer := self._early_writer) is not None
                and len(self._unsent) >= _EARLY
                and len(self._sent) < _FEW
                and self._unsent_bytes < _SMALL
                and command.writes
                and self._confirmed.is_set()
                and not writer.is_closing()  # then uvloop's would raise
            ):
                self._early_writer = None  # once: more writes cost more than they bring
                writer.write(self._take())

    def _serve(self, connection: AbstractConnection) -> Parts:
        address = _named_by_sentinels(connection)
        if self._keeper.confirm(address):
            about = {"action": "store_connected", "store": self._store}
            LOG.info("connected to %s%s", self._name, address and f": {address}", extra=about)
        self._connected.set()
        parts = [self._write(connection), self._read(connection), self._watch_deadlines()]
        if not self._guard.is_off:
            parts.append(self._watch_memory())
        if self._until_replaced is not None:
            parts.append(self._until_replaced(connection))
        return parts

    def _on_lost(self) -> None:
        # Attempts to connect that fail are no losses.  No error: it is being closed.
        error = self._keeper.error
        if self._connected.is_set() and error is not None:
            metrics.STORE_LOST.add(self._store)
        self._connected.clear()
        self._early_writer = None
        is_late = isinstance(error, TimeoutError)
        self._fail(errors.StoreTimeout if is_late else errors.StoreUnavailable, error)

    async def _write(self, connection: AbstractConnection) -> None:
        writer = early = connection._writer
        # A store in memory has another one; with a timeout a task of redis-py writes, later.
        if not isinstance(writer, asyncio.StreamWriter) or connection.socket_timeout is not None:
            early = None
        self._early_writer = early
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._early_writer = early if len(self._unsent) < _MANY else None
            while self._unsent:
                # Redis does nothing of a connection while WAIT waits: several in a row would be
                # late by all of their timeouts, and what only reads with them.
                if self._confirmed.is_set():
                    await connection.send_packed_command(self._take(), False)
                else:
                    await self._confirmed.wait()  # another may have been sent early since

    def _measure_next(self) -> None:
        self._take = self._next_write_measured

    def _next_write_measured(self) -> bytes:
        """Returns the same as `_compose`, and measures one of its commands."""
        self._take = self._compose
        before = len(self._sent)
        data = self._compose()
        written = len(self._sent) - before
        if written:
            metrics.STORE_BATCH.observe(written, self._store)
            pending = self._sent[before + random.randrange(written)]
            command = pending.command
            verb = command.script.name if isinstance(command, Call) else str(command.command()[0])
            timed = TimedAnswer(pending.answer, self._store, verb)
            pending.answer = cast("asyncio.Future[Any]", timed)
        return data

    def _next_replicated(self) -> bytes:
        """Returns the same as `_next_write`, and what asks replicas if something in it writes."""
        before = len(self._sent)
        data = self._next_write()
        settings = self._settings
        writing = [
            pending
            for pending in itertools.islice(self._sent, before, None)
            if pending.command.writes
        ]
        if not writing:
            return data
        self._confirmed.clear()
        replication = Replication(settings.ack_replicas, self._store, self._confirmed.set)
        for pending in writing:
            pending.answer = cast("asyncio.Future[Any]", HeldAnswer(pending.answer, replication))
        trace, wait = confirmation(
            [pending.command for pending in writing],
            settings.ack_replicas,
            settings.ack_timeout_ms,
        )
        deadline = self._loop.time() + settings.timeout
        nobody: asyncio.Future[Any] = self._loop.create_future()
        nobody.cancel()
        answer = cast("asyncio.Future[Any]", replication)
        self._sent.append(PendingCommand(trace, b"", nobody, deadline))
        self._sent.append(PendingCommand(wait, b"", answer, deadline))
        return data + trace.packed() + wait.packed()

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
        replies = ParsedReplies(connection)
        sent = self._sent
        while True:
            await replies.receive()
            while (reply := replies.next()) is not NO_REPLY:
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
        while isinstance(answer, (TimedAnswer, HeldAnswer)):  # of this write only
            answer = pending.answer = answer.answer
        if isinstance(refusal, NoScriptError) and isinstance(pending.command, Call):
            # A new or flushed server: nothing was done yet.
            source = pending.command.with_source()
            self._append(pending.command, source.packed(), answer, pending.deadline)
            return
        try:
            if self._take_over is not None and self._take_over(pending, refusal):
                return
        except RedisError:
            self._sent.appendleft(pending)  # it fails with the others
            raise
        error = self._translate_error(refusal)
        if error is not refusal:
            error.__cause__ = refusal
        answer.set_exception(error)

    async def _watch_deadlines(self) -> None:
        """Drops the connection when an answer is overdue.

        Only their order ties replies to commands, so a missing reply makes the
        connection useless.  The commands fail when nobody reads it any more (`_on_lost`): while it
        is read, others may be sent, which would get the replies of those that have failed.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._settings.timeout / 8)
            for queue in (self._sent, self._unsent):
                if queue and queue[0].deadline < loop.time():
                    raise TimeoutError(f"no answer within {self._settings.timeout:g} s")

    async def _watch_memory(self) -> None:
        guard = self._guard
        while True:
            try:
                guard.note(await self.send(LOOK))
            except errors.Unavailable:
                pass  # the next look tells
            except ResponseError as refusal:
                # E.g. its user may not: Redis itself refuses then, when it is full.
                guard.note(b"")
                LOG.warning(
                    "the memory of %s is not watched: %s",
                    self._name,
                    errors.reason(refusal),
                    extra={"action": "memory_not_watched", "store": self._store},
                )
                await asyncio.Event().wait()
            await asyncio.sleep(guard.pause)

    def _fail(self, kind: type[errors.StoreUnavailable], cause: Exception | None = None) -> None:
        for queue in (self._sent, self._unsent):
            for pending in queue:
                if not pending.answer.done():
                    error = kind(self._store)
                    error.__cause__ = cause
                    pending.answer.set_exception(error)
                    # Some callers have gone: mark the exception as retrieved.
                    pending.answer.exception()
        # Not emptied: whatever still reads the lost connection finds no command of the next one.
        self._sent, self._unsent, self._unsent_bytes = deque(), deque(), 0


def _named_by_sentinels(connection: AbstractConnection) -> str:
    """Returns the address of the server, if sentinels have named it; else an empty text."""
    if not isinstance(connection, SentinelManagedConnection):
        return ""
    host, port = connection.host, connection.port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
