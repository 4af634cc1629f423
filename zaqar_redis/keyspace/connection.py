# SPDX-License-Identifier: Apache-2.0
"""A connection that is used by tasks while it lasts, and opened again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from redis.exceptions import AuthenticationError, RedisError

from zaqar_redis import errors, runner
from zaqar_redis.keyspace.outages import ConnectionLog

Parts = Sequence[Coroutine[Any, Any, None]]

#: Seconds after which a task that goes on is cancelled anew.
_CANCEL_SECONDS = 1.0


class KeptConnection(Protocol):
    """What a keeper needs of a connection; those of redis-py have it."""

    async def connect(self) -> None:
        """Opens it; raises any exception when that fails."""

    async def disconnect(self, nowait: bool = False) -> None:
        """Closes it whole, whatever state it is in; *nowait*: without waiting for the peer.

        Raises at most RedisError and OSError.
        """


K = TypeVar("K", bound=KeptConnection)


@contextlib.asynccontextmanager
async def answer_within(seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError, with a text for operators, when the block takes longer."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"no answer within {seconds:g} s") from error
        raise


class ConnectionKeeper(Generic[K]):
    """Keeps one connection open, from `start` to `close`."""

    def __init__(
        self,
        connect: Callable[[], K],
        serve: Callable[[K], Parts],
        on_lost: Callable[[], None],
        *,
        name: str,
        store: str,
        action: str,
        timeout: float,
        backoff: float,
        backoff_max: float,
    ) -> None:
        """*connect* returns a connection that is not open yet.

        *serve* returns the coroutines that use it; it is given up when one of them ends.
        *on_lost* is called then, and after an attempt to connect that has failed.  *name*,
        *store* and *action* are for the log.  *timeout* is for connecting; *backoff* and
        *backoff_max* are the first and the longest pause between attempts, in seconds: it is
        doubled each time.
        """
        self._connect = connect
        self._serve = serve
        self._on_lost = on_lost
        self._name = name
        self._log = ConnectionLog(name, store, action)
        self._timeout = timeout
        self._backoff = self._pause = backoff
        self._backoff_max = backoff_max
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        #: why there is no connection, or the last one was lost
        self.error: Exception | None = None

    def start(self) -> None:
        self._is_closing = False
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self) -> None:
        try:
            while self._task and not self._task.done():
                # Again and again, until it is noticed: redis-py sends by wait_for, which loses a
                # cancellation that comes when it is done (Python 3.11).
                if not self._is_closing:
                    self._task.cancel()
                await asyncio.wait([self._task], timeout=_CANCEL_SECONDS)
        finally:
            self._log.closed()

    def confirm(self, address: str = "") -> bool:
        """Notes that the connection works: the next loss is logged, and repaired at once.

        Returns whether it is the first of this process to its place.  *address*: of the server,
        when the name does not have it.
        """
        self._pause, self.error = self._backoff, None
        return self._log.back(address)

    async def _run(self) -> None:
        while True:
            connection, is_answered = self._connect(), False
            try:
                async with answer_within(self._timeout):
                    await connection.connect()
                await run_until_one_ends(self._serve(connection))
            except asyncio.CancelledError:
                self._is_closing = True
                raise
            except Exception as error:  # whatever broke it, only a new connection repairs it
                self._note(error)
                is_answered = isinstance(error, AuthenticationError)
            finally:
                self._on_lost()
                # TLS waits for its peer at the end; not on a connection that is lost.
                with contextlib.suppress(RedisError, OSError):
                    await connection.disconnect(nowait=not (self._is_closing or is_answered))
            # Jitter: after an outage the workers must not all come back at once.
            await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))
            self._pause = min(2 * self._pause, self._backoff_max)

    def _note(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, AuthenticationError):
            self._pause = self._backoff_max
        self._log.lost(errors.reason(error))


async def run_until_one_ends(parts: Parts) -> None:
    """Raises what the first one raises that ends."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await runner.cancel(*tasks)
