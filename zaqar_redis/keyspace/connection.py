# SPDX-License-Identifier: Apache-2.0
"""A connection that is used by tasks while it lasts, and opened again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, RedisError

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

Parts = Sequence[Coroutine[Any, Any, None]]


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


class ConnectionKeeper:
    """Keeps one connection open, from `start` to `close`."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        serve: Callable[[AbstractConnection], Parts],
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
        self._about = {"action": action, "store": store}
        self._timeout = timeout
        self._backoff = self._pause = backoff
        self._backoff_max = backoff_max
        self._logged_reason = ""
        self._task: asyncio.Task[None] | None = None
        #: why there is no connection, or the last one was lost
        self.error: Exception | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def confirm(self) -> None:
        """Notes that the connection works: the next loss is logged, and repaired at once."""
        self._pause, self._logged_reason, self.error = self._backoff, "", None

    async def _run(self) -> None:
        while True:
            connection = self._connect()
            closing = False
            try:
                async with answer_within(self._timeout):
                    await connection.connect()
                await _run_until_one_ends(self._serve(connection))
            except asyncio.CancelledError:
                closing = True
                raise
            except Exception as error:  # whatever broke it, only a new connection repairs it
                self._note(error)
            finally:
                self._on_lost()
                # TLS waits for its peer at the end; not on a connection that is lost.
                with contextlib.suppress(RedisError, OSError):
                    await connection.disconnect(nowait=not closing)
            # Jitter: after an outage the workers must not all come back at once.
            await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))
            self._pause = min(2 * self._pause, self._backoff_max)

    def _note(self, error: Exception) -> None:
        self.error = error
        if isinstance(error, AuthenticationError):
            self._pause = self._backoff_max
        # Once: a store that is unavailable for an hour would fill the log.
        if errors.reason(error) != self._logged_reason:
            self._logged_reason = errors.reason(error)
            LOG.warning("no %s: %s", self._name, self._logged_reason, extra=self._about)


async def _run_until_one_ends(parts: Parts) -> None:
    """Raises what the first one raises that ends."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
