# SPDX-License-Identifier: Apache-2.0
"""Notifications from the store of a queue, also after it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.records import PostedBatch
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools.router import ServiceRouter
from zaqar_redis.storage.watched import HistoryPage

EventT = TypeVar("EventT")
EventT_co = TypeVar("EventT_co", covariant=True)

#: Watches that are subscribed at once: one that a slow store holds up holds up few others.
_CONCURRENT_WATCHES = 64
#: Seconds for which the default pool keeps the reserved epoch of a queue without a pool, as the
#: control store does: a client that does not use the catalogue may create the queue there.
_RESERVED_EPOCH_TTL_SECONDS = 86_400


class _EventSource(Protocol[EventT_co]):
    """The source of one kind of events in a store."""

    def watch(
        self, project: str, queue: str, listener: Callable[[EventT_co], None], /
    ) -> Awaitable[None]: ...

    def unwatch(
        self, project: str, queue: str, listener: Callable[[EventT_co], None], /
    ) -> None: ...


@dataclass(eq=False)
class _Watch(Generic[EventT]):
    """A listener, and the stores that it is subscribed in."""

    project: str
    queue: str
    listener: Callable[[EventT], None]
    deliver: InitVar[Callable[[_Watch[EventT], EventT], None]]
    #: called by stores
    on_event: Callable[[EventT], None] = field(init=False)
    #: stores that may call the listener, and those of them that have confirmed it
    asked: frozenset[Driver] = frozenset()
    drivers: frozenset[Driver] = frozenset()
    #: whether the queue is known to have a pool, in which it is watched
    placed: bool = False
    #: epoch and rank of the last event, while the queue has no pool
    last: tuple[str, int] = ("", 0)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self, deliver: Callable[[_Watch[EventT], EventT], None]) -> None:
        self.on_event = partial(deliver, self)


class _RoutedWatches(Generic[EventT]):
    def __init__(
        self,
        router: ServiceRouter,
        source: Callable[[Driver], _EventSource[EventT] | None],
        gap: EventT,
    ) -> None:
        """*gap* is the event that says that some may have been missed."""
        self._router = router
        self._source = source
        self._gap = gap
        self._watched: dict[tuple[str, str], dict[Callable[[EventT], None], _Watch[EventT]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        #: looks up all watched queues that have no pool
        self._lookup_task: asyncio.Task[None] | None = None
        #: pools have changed while it does
        self._looks_again = False
        router.move_listeners.append(self._on_move)

    async def watch(self, project: str, queue: str, listener: Callable[[EventT], None]) -> None:
        # Registered before the catalogue is read, so that no move is missed.
        watches = self._watched.setdefault((project, queue), {})
        watch = watches.get(listener)
        if watch is None:
            watch = watches[listener] = _Watch(project, queue, listener, self._deliver)
        await self._resubscribe(watch)

    def unwatch(self, project: str, queue: str, listener: Callable[[EventT], None]) -> None:
        watches = self._watched.get((project, queue), {})
        watch = watches.pop(listener, None)
        if not watches:
            self._watched.pop((project, queue), None)
        if watch is not None:
            self._unsubscribe(watch, watch.asked)

    async def _stores(self, project: str, queue: str) -> tuple[Sequence[Driver], bool]:
        """Returns the stores to subscribe in, and whether the queue has a pool."""
        return [(await self._router.find(project, queue)).driver], True

    def _deliver(self, watch: _Watch[EventT], event: EventT) -> None:
        watch.listener(event)

    async def _resubscribe(self, watch: _Watch[EventT]) -> None:
        """Subscribes in the present store of the queue.  Raises StoreUnavailable."""
        known = watch.asked
        drivers, placed = await self._stores(watch.project, watch.queue)
        waits = watch.changing.locked() or watch.asked != known
        if not waits and known == frozenset(drivers):
            # Nothing changes: what was lost with a connection is restored.
            now = await self._subscribe(watch, drivers)
            if watch.asked == known:
                self._note_confirmed(watch, now, placed)
            return
        async with watch.changing:
            if waits:  # the queue may have moved on meanwhile
                drivers, placed = await self._stores(watch.project, watch.queue)
            watch.placed = placed and watch.placed
            now = await self._subscribe(watch, drivers)
            self._unsubscribe(watch, watch.asked.difference(drivers))
            watch.asked = frozenset(drivers)
            self._note_confirmed(watch, now, placed)

    def _note_confirmed(self, watch: _Watch[EventT], now: frozenset[Driver], placed: bool) -> None:
        before, watch.drivers, watch.placed = watch.drivers, now, placed
        # What another store got before it confirmed the watch may have been missed.
        if before and now - before:
            watch.listener(self._gap)

    async def _subscribe(
        self, watch: _Watch[EventT], drivers: Sequence[Driver]
    ) -> frozenset[Driver]:
        """Subscribes in all stores; returns those that confirm it.

        The others may just be slow: they keep the subscription, and confirm it later.  Raises
        StoreUnavailable when the first one is one of these.
        """

        async def subscribe(driver: Driver) -> errors.Unavailable | None:
            source = self._source(driver)
            try:
                if source is not None:
                    await source.watch(watch.project, watch.queue, watch.on_event)
            except errors.Unavailable as error:
                return error
            return None

        if not self._is_wanted(watch):
            return frozenset()
        watch.asked = watch.asked.union(drivers)
        answers = await asyncio.gather(*map(subscribe, drivers))
        if not self._is_wanted(watch):
            self._unsubscribe(watch, drivers)
            return frozenset()
        if answers[0] is not None:
            raise answers[0]
        return frozenset(
            each for each, error in zip(drivers, answers, strict=True) if error is None
        )

    def _is_wanted(self, watch: _Watch[EventT]) -> bool:
        """Returns whether the watch was not removed meanwhile."""
        return self._watched.get((watch.project, watch.queue), {}).get(watch.listener) is watch

    def _unsubscribe(self, watch: _Watch[EventT], drivers: Iterable[Driver]) -> None:
        for driver in drivers:
            source = self._source(driver)
            if source is not None:
                source.unwatch(watch.project, watch.queue, watch.on_event)

    def _on_move(self, queue: tuple[str, str] | None) -> None:
        if queue is not None:
            if watches := self._watched.get(queue):
                self._spawn(self._resubscribe_all([*watches.values()]))
        elif self._lookup_task is not None and not self._lookup_task.done():
            self._looks_again = True
        elif self._without_pool():
            self._lookup_task = self._spawn(self._look_up())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _look_up(self) -> None:
        """Looks for pools of queues that have none: some may be new, or answer again."""
        self._looks_again = True
        while self._looks_again:
            self._looks_again = False
            await self._resubscribe_all(self._without_pool())

    def _without_pool(self) -> Sequence[_Watch[EventT]]:
        watches = (each for some in self._watched.values() for each in some.values())
        return [watch for watch in watches if not watch.placed]

    async def _resubscribe_all(self, watches: Sequence[_Watch[EventT]]) -> None:
        for at in range(0, len(watches), _CONCURRENT_WATCHES):
            some = watches[at : at + _CONCURRENT_WATCHES]
            await asyncio.gather(*map(self._resubscribe_or_tell, some))

    async def _resubscribe_or_tell(self, watch: _Watch[EventT]) -> None:
        try:
            await self._resubscribe(watch)
        # The listener polls now and then anyway.
        except (errors.Unavailable, errors.BadConfiguration):
            watch.placed = False  # looked up again
            watch.listener(self._gap)


class RoutedFeed(_RoutedWatches[int]):
    def __init__(self, router: ServiceRouter) -> None:
        super().__init__(router, lambda driver: driver.feed, 0)


class RoutedLive(_RoutedWatches[PostedBatch | None]):
    """Live messages of queues, from the first one on of a queue that has no pool yet.

    Such a queue is watched in every store, so also in the one that it gets; its epoch is
    reserved in the control store, and used by whoever creates the queue.
    """

    def __init__(self, router: ServiceRouter) -> None:
        super().__init__(router, lambda driver: driver.live, None)

    async def _stores(self, project: str, queue: str) -> tuple[Sequence[Driver], bool]:
        located = await self._router.control.catalogue.locate(project, queue)
        if located.pool is not None:
            return [(await self._router.stores.get(located.pool)).driver], True
        return await self._router.stores.drivers(), False

    def _deliver(self, watch: _Watch[PostedBatch | None], event: PostedBatch | None) -> None:
        if not watch.placed and event is not None:
            # Two pools in one Redis receive each other's events.
            position = (event.epoch, event.messages[-1].rank)
            if position[0] == watch.last[0] and position[1] <= watch.last[1]:
                return
            watch.last = position
        watch.listener(event)

    async def history(
        self,
        project: str,
        queue: str,
        *,
        first: int,
        last: int,
        limit: int,
        reverse: bool,
        reserve_epoch: bool = True,
    ) -> HistoryPage:
        async def read(driver: Driver, reserve_epoch: bool = False) -> HistoryPage:
            if driver.live is None:
                raise errors.StoreUnavailable(f"of the queue {queue}")
            return await driver.live.history(
                project,
                queue,
                first=first,
                last=last,
                limit=limit,
                reverse=reverse,
                reserve_epoch=reserve_epoch,
            )

        page = await self._router.route(project, queue, read)
        if page.epoch or not reserve_epoch:
            return page
        located = await self._router.control.catalogue.reserve_epoch(project, queue)
        if located.pool is not None:
            return await self._router.route(project, queue, partial(read, reserve_epoch=True))
        default = self._router.stores.default.driver.transfer
        if default is not None:
            await default.reserve_epoch(
                project, queue, located.reserved_epoch, _RESERVED_EPOCH_TTL_SECONDS
            )
        return HistoryPage(located.reserved_epoch, 0, [])
