# SPDX-License-Identifier: Apache-2.0
"""News from whichever store a queue lives in, also after it has moved."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.records import Arrived, Past
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled.places import Places

News = TypeVar("News")
News_co = TypeVar("News_co", covariant=True)


class _Source(Protocol[News_co]):
    """What a store has for one kind of news."""

    def watch(
        self, project: str, queue: str, listener: Callable[[News_co], None], /
    ) -> Awaitable[None]: ...

    def unwatch(self, project: str, queue: str, listener: Callable[[News_co], None], /) -> None: ...


class _Following(Generic[News]):
    def __init__(
        self,
        places: Places,
        source: Callable[[Driver], _Source[News] | None],
        unknown: News,
    ) -> None:
        """*unknown* is the news that something may have been missed."""
        self._places = places
        self._source = source
        self._unknown = unknown
        self._watched: dict[tuple[str, str], dict[Callable[[News], None], Driver]] = {}
        self._following: set[asyncio.Task[Any]] = set()
        places.moved.append(self._moved)

    async def watch(self, project: str, queue: str, listener: Callable[[News], None]) -> None:
        driver = (await self._places.find(project, queue)).driver
        self._watched.setdefault((project, queue), {})[listener] = driver
        source = self._source(driver)
        if source is not None:
            await source.watch(project, queue, listener)

    def unwatch(self, project: str, queue: str, listener: Callable[[News], None]) -> None:
        listeners = self._watched.get((project, queue), {})
        driver = listeners.pop(listener, None)
        if not listeners:
            self._watched.pop((project, queue), None)
        source = self._source(driver) if driver is not None else None
        if source is not None:
            source.unwatch(project, queue, listener)

    def _moved(self, project: str, queue: str) -> None:
        if (project, queue) in self._watched:
            task = asyncio.create_task(self._follow(project, queue))
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    async def _follow(self, project: str, queue: str) -> None:
        for listener, before in tuple(self._watched.get((project, queue), {}).items()):
            # Who listens looks now and then anyway.
            with contextlib.suppress(errors.Unavailable):
                if (await self._places.find(project, queue)).driver is before:
                    continue
                source = self._source(before)
                if source is not None:
                    source.unwatch(project, queue, listener)
                await self.watch(project, queue, listener)
            listener(self._unknown)


class Feed(_Following[int]):
    def __init__(self, places: Places) -> None:
        super().__init__(places, lambda driver: driver.feed, 0)


class Live(_Following[Arrived | None]):
    def __init__(self, places: Places) -> None:
        super().__init__(places, lambda driver: driver.live, None)

    async def history(
        self, project: str, queue: str, *, first: int, last: int, limit: int, reverse: bool
    ) -> Past:
        async def read(driver: Driver) -> Past:
            if driver.live is None:
                raise errors.StoreUnavailable(f"of the queue {queue}")
            return await driver.live.history(
                project, queue, first=first, last=last, limit=limit, reverse=reverse
            )

        return await self._places.run(project, queue, read)
