# SPDX-License-Identifier: Apache-2.0
"""The notifier: finds queues with deliveries that are due, and delivers for some of them.

Any number of notifiers work side by side, in services and in processes of their own.  Each queue
is served by one of them at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from zaqar_redis import errors, runner
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify.circuit import FailingCircuits
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.limits import DeliverySlots, MessageMemory
from zaqar_redis.notify.source import Source
from zaqar_redis.notify.target import Target
from zaqar_redis.notify.targets import Targets
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import DeliveryLease
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

#: Seconds between looks for queues that are due, and that no hint has named, at most.
_LOOK_SECONDS = 5.0
#: Seconds for which a process that stops keeps its queues, for attempts that are under way; and
#: seconds between two settlements of those that have ended later.
_KEPT_SECONDS, _LATE_SECONDS = 2.0, 0.5
#: Queues that a process goes on with when their next delivery is due; a look finds others.
_TIMERS_MAX = 10_000


class NotifierSettings(msgspec.Struct, frozen=True):
    in_service: Annotated[
        bool,
        "Deliver to subscribers in the workers of the service, too. Off: only zaqar-redis notify "
        "does.",
    ] = True
    max_attempts: Annotated[
        int,
        Meta(ge=1, le=10_000),
        "Maximum number of deliveries by HTTP and mail that one process attempts at a time; one "
        "project may take four fifths of them, or less while others have some.",
    ] = 256
    max_sources: Annotated[
        int,
        Meta(ge=1, le=100_000),
        "Maximum number of queues and topics that one process delivers for at a time; each has up "
        "to 10 000 deliveries in memory, and all of them 128 MiB of messages.",
    ] = 500
    lease: Annotated[
        float,
        Meta(ge=1, le=300),
        "Seconds after which the queues of a process that has died are served by another one.",
    ] = 10.0
    require_confirmation: Annotated[
        bool,
        "Deliver messages only to subscribers that have confirmed their subscription.",
    ] = False


class Notifier:
    def __init__(
        self,
        driver: Driver,
        messages: MessageService,
        targets: Targets,
        settings: NotifierSettings,
    ) -> None:
        self.driver = driver
        self.messages = messages
        self.slots = DeliverySlots(settings.max_attempts)
        self.memory = MessageMemory()
        self.circuits = FailingCircuits()
        self.failures = FailureRuns()
        self.requires_confirmation = settings.require_confirmation
        self._lease_ms = round(settings.lease * 1000)
        self._look_seconds = min(_LOOK_SECONDS, settings.lease)
        self._targets = targets
        self._settings = settings
        self._sources: dict[tuple[Driver, str, str], tuple[Source, asyncio.Task[None]]] = {}
        #: of queues that it has left, and that have something to deliver later
        self._timers: dict[tuple[Driver, str, str], asyncio.TimerHandle] = {}
        #: stores that are watched
        self._watched: set[Driver] = set()
        self._looking: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._end_measuring: Sequence[Callable[[], None]] = ()

    def target(self, subscriber: str) -> Target | None:
        try:
            return self._targets.find(subscriber)
        except errors.BadConfiguration as error:
            LOG.error(
                "subscribers of a scheme get nothing",
                extra={"action": "target_failed", "error": errors.reason(error)},
            )
            return None

    async def start(self) -> None:
        self._looking = asyncio.create_task(self._look(), name="notifier")
        self._end_measuring = (
            metrics.NOTIFIED_SOURCES.follow(lambda: len(self._sources)),
            metrics.FAILING_SUBSCRIPTIONS.follow(self.failures.failing),
            metrics.WAITING_SUBSCRIPTIONS.follow(lambda: self.slots.waiting),
        )

    async def close(self, grace: float = 10.0) -> None:
        """Begins nothing new, and waits *grace* seconds for attempts that are under way.

        Other notifiers have its queues before that, when most attempts have ended.
        """
        self._is_stopping = True
        for end in self._end_measuring:
            end()
        for timer in self._timers.values():
            timer.cancel()
        if self._looking is not None:
            await runner.cancel(self._looking)
        loop = asyncio.get_running_loop()
        until = loop.time() + grace
        running = [*self._sources.values()]
        for source, _ in running:
            source.stop(grace)
        tasks = [task for _, task in running]
        if tasks:
            await asyncio.wait(tasks, timeout=min(grace, _KEPT_SECONDS))
        await runner.cancel(*tasks)
        is_done = False
        while not is_done and (left := until - loop.time()) > 0:
            is_done = await self.slots.wait(min(left, _LATE_SECONDS))
            settling = [source.settle_late() for source, _ in running]
            with contextlib.suppress(TimeoutError):  # what is not settled is made once more
                await asyncio.wait_for(asyncio.gather(*settling, return_exceptions=True), left)
        await self.slots.close()

    async def _look(self) -> None:
        while True:
            for store in await self._stores():
                try:
                    await self._look_in(store)
                except errors.Unavailable:
                    continue  # the others still have deliveries
                except Exception:  # the service goes on, and the next look tries again
                    LOG.exception("a notifier failed", extra={"action": "notifier_failed"})
            await asyncio.sleep(self._look_seconds)

    async def _stores(self) -> list[Driver]:
        if not isinstance(self.driver, PooledDriver):
            return [self.driver]
        try:
            return [each for each in (await self.driver.stores()).values() if each is not None]
        except errors.Unavailable:
            return [*self._watched]

    async def _look_in(self, store: Driver) -> None:
        if store.deliveries is None:
            return
        if store not in self._watched:
            self._watched.add(store)
            await store.deliveries.watch(partial(self._on_hint, store))
        # One process at a time is enough: what it has no room for is due the next time, too.
        async for project, queue in store.deliveries.due(turn=self._look_seconds / 2):
            self._on_hint(store, project, queue)

    def _on_hint(self, store: Driver, project: str, queue: str) -> None:
        key = store, project, queue
        if timer := self._timers.pop(key, None):
            timer.cancel()
        known = self._sources.get(key)
        if known is not None:
            known[0].hint()
        elif len(self._sources) < self._settings.max_sources and not self._is_stopping:
            source = self._source(*key)
            if source is None:
                return
            task = asyncio.create_task(source.run(), name=f"deliveries of {queue}")
            self._sources[key] = source, task
            task.add_done_callback(partial(self._on_end, key))

    def _source(self, store: Driver, project: str, queue: str) -> Source | None:
        if store.subscriptions is None or store.deliveries is None:
            return None
        token = f"{os.getpid()}-{os.urandom(8).hex()}"
        leased = LeasedQueue(
            store.queues,
            store.subscriptions,
            store.deliveries,
            (project, queue),
            DeliveryLease(token, self._lease_ms),
        )
        return Source(self, leased)

    def _on_end(self, key: tuple[Driver, str, str], task: asyncio.Task[None]) -> None:
        source, _ = self._sources.pop(key)
        with contextlib.suppress(asyncio.CancelledError):
            if error := task.exception():
                LOG.error(
                    "deliveries failed", exc_info=error, extra={"action": "deliveries_failed"}
                )
            elif source.was_hinted:  # as it was about to end
                self._on_hint(*key)
            elif source.due_at is not None and not self._is_stopping:
                self._wait(key, source.due_at)

    def _wait(self, key: tuple[Driver, str, str], until: float) -> None:
        if len(self._timers) < _TIMERS_MAX:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_at(until, self._on_hint, *key)
