# SPDX-License-Identifier: Apache-2.0
"""News from whichever store a queue lives in, also after it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.records import Arrived, Past
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled.places import Places

News = TypeVar("News")
News_co = TypeVar("News_co", covariant=True)

#: Seconds for which the service's own store keeps the epoch of a queue that is nowhere, as the
#: control store does: somebody may make it there who does not ask for its place.
_KEPT = 86_400


class _Source(Protocol[News_co]):
    """What a store has for one kind of news."""

    def watch(
        self, project: str, queue: str, listener: Callable[[News_co], None], /
    ) -> Awaitable[None]: ...

    def unwatch(self, project: str, queue: str, listener: Callable[[News_co], None], /) -> None: ...


class _Watch(Generic[News]):
    """A listener, and where it listens."""

    __slots__ = ("changing", "drivers", "hear", "last", "listener", "placed", "project", "queue")

    def __init__(
        self,
        project: str,
        queue: str,
        listener: Callable[[News], None],
        tell: Callable[[_Watch[News], News], None],
    ) -> None:
        self.project = project
        self.queue = queue
        self.listener = listener
        #: what stores call
        self.hear = partial(tell, self)
        self.drivers: frozenset[Driver] = frozenset()
        #: whether the queue has a place
        self.placed = True
        #: epoch and rank of what was heard last, while there is none
        self.last = ("", 0)
        self.changing = asyncio.Lock()


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
        self._watched: dict[tuple[str, str], dict[Callable[[News], None], _Watch[News]]] = {}
        self._following: set[asyncio.Task[Any]] = set()
        #: looks at all queues that have no place
        self._looking: asyncio.Task[None] | None = None
        places.moved.append(self._moved)

    async def watch(self, project: str, queue: str, listener: Callable[[News], None]) -> None:
        # Noted before it is asked where the queue is: no move goes by unnoticed.
        watches = self._watched.setdefault((project, queue), {})
        watch = watches.get(listener)
        if watch is None:
            watch = watches[listener] = _Watch(project, queue, listener, self._tell)
        await self._settle(watch)

    def unwatch(self, project: str, queue: str, listener: Callable[[News], None]) -> None:
        watches = self._watched.get((project, queue), {})
        watch = watches.pop(listener, None)
        if not watches:
            self._watched.pop((project, queue), None)
        if watch is not None:
            self._leave(watch, watch.drivers)

    async def _stores(self, project: str, queue: str) -> tuple[Sequence[Driver], bool]:
        """Where to listen, and whether the queue has a place."""
        return [(await self._places.find(project, queue)).driver], True

    def _tell(self, watch: _Watch[News], news: News) -> None:
        watch.listener(news)

    async def _settle(self, watch: _Watch[News]) -> None:
        """Let it listen where the queue is now.  Raises StoreUnavailable."""
        drivers, placed = await self._stores(watch.project, watch.queue)
        if watch.drivers == frozenset(drivers):
            watch.placed = placed
            await self._listen(watch, drivers)  # what was lost with a connection comes back
            return
        waits = watch.changing.locked()
        async with watch.changing:
            if waits:  # the queue may have moved on meanwhile
                drivers, placed = await self._stores(watch.project, watch.queue)
            watch.placed = placed and watch.placed
            before, now = watch.drivers, await self._listen(watch, drivers)
            watch.drivers, watch.placed = now, placed
            self._leave(watch, before - now)
        if before and not before & now:
            watch.listener(self._unknown)

    async def _listen(self, watch: _Watch[News], drivers: Sequence[Driver]) -> frozenset[Driver]:
        """In the first, and in those of the others that answer; which these are.

        Raises StoreUnavailable.
        """

        async def listen(driver: Driver) -> errors.Unavailable | None:
            source = self._source(driver)
            try:
                if source is not None:
                    await source.watch(watch.project, watch.queue, watch.hear)
            except errors.Unavailable as error:
                return error
            return None

        answers = await asyncio.gather(*map(listen, drivers))
        now = frozenset(each for each, error in zip(drivers, answers, strict=True) if error is None)
        if self._watched.get((watch.project, watch.queue), {}).get(watch.listener) is not watch:
            self._leave(watch, now)  # it was taken back meanwhile
            return frozenset()
        if answers[0] is not None:
            self._leave(watch, now - watch.drivers)
            raise answers[0]
        return now

    def _leave(self, watch: _Watch[News], drivers: Iterable[Driver]) -> None:
        for driver in drivers:
            source = self._source(driver)
            if source is not None:
                source.unwatch(watch.project, watch.queue, watch.hear)

    def _moved(self, queue: tuple[str, str] | None) -> None:
        if queue is not None:
            found = [*self._watched.get(queue, {}).values()]
        elif self._looking is None or self._looking.done():  # pools may be new, or answer again
            watches = [each for some in self._watched.values() for each in some.values()]
            found = [watch for watch in watches if not watch.placed]
        else:
            return
        if found:
            task = asyncio.create_task(self._follow(found))
            self._following.add(task)
            task.add_done_callback(self._following.discard)
            if queue is None:
                self._looking = task

    async def _follow(self, watches: Sequence[_Watch[News]]) -> None:
        for watch in watches:
            try:
                await self._settle(watch)
            except errors.Unavailable:  # who listens looks now and then anyway
                watch.listener(self._unknown)


class Feed(_Following[int]):
    def __init__(self, places: Places) -> None:
        super().__init__(places, lambda driver: driver.feed, 0)


class Live(_Following[Arrived | None]):
    """Who follows a queue that is nowhere hears it from its first message on.

    It listens in every store, so in the one that the queue gets; and it knows the epoch,
    which the control store keeps and whoever makes the queue brings along.
    """

    def __init__(self, places: Places) -> None:
        super().__init__(places, lambda driver: driver.live, None)

    async def _stores(self, project: str, queue: str) -> tuple[Sequence[Driver], bool]:
        located = await self._places.control.catalogue.locate(project, queue)
        if located.pool is not None:
            return [(await self._places.place(located.pool)).driver], True
        return await self._places.drivers(), False

    def _tell(self, watch: _Watch[Arrived | None], news: Arrived | None) -> None:
        if not watch.placed and news is not None:
            # Two pools in one Redis hear each other.
            at = (news.epoch, news.messages[-1].rank)
            if at[0] == watch.last[0] and at[1] <= watch.last[1]:
                return
            watch.last = at
        watch.listener(news)

    async def history(
        self,
        project: str,
        queue: str,
        *,
        first: int,
        last: int,
        limit: int,
        reverse: bool,
        promise: bool = True,
    ) -> Past:
        async def read(driver: Driver, promise: bool = False) -> Past:
            if driver.live is None:
                raise errors.StoreUnavailable(f"of the queue {queue}")
            return await driver.live.history(
                project,
                queue,
                first=first,
                last=last,
                limit=limit,
                reverse=reverse,
                promise=promise,
            )

        past = await self._places.run(project, queue, read)
        if past.epoch or not promise:
            return past
        located = await self._places.control.catalogue.promise(project, queue)
        if located.pool is not None:
            return await self._places.run(project, queue, partial(read, promise=True))
        home = self._places.home.driver.transfer
        if home is not None:
            await home.promise(project, queue, located.promised, _KEPT)
        return Past(located.promised, 0, [])
