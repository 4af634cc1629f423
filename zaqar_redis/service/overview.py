# SPDX-License-Identifier: Apache-2.0
"""What operators see first: the queues of a project, stores, nodes, and what is wrong.

Nothing that is away delays it for longer than a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from zaqar_redis import errors, runner
from zaqar_redis.figures import Alarm, FailingSubscriptions, LargeQueue
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.service.alarms import node_alarms, reached_by_others, sort_alarms, store_alarms
from zaqar_redis.service.nodes import NodeMonitor
from zaqar_redis.service.queue_figures import ProjectFigures, QueueFiguresService
from zaqar_redis.service.queue_history import HistoryService, HistorySettings
from zaqar_redis.service.stores import StoreMonitor, StoreReport, open_store, store_names
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver

T = TypeVar("T")

#: Seconds that anything may take: then the rest is shown without it.
PATIENCE = 0.9


class FailingSource(Struct, frozen=True):
    """A queue or topic with subscriptions to which every attempt has failed for five minutes."""

    kind: Literal["queues", "topics"]
    name: str
    subscriptions: FailingSubscriptions


class Overview(Struct):
    figures: ProjectFigures
    #: those that have failed for longest first
    failing: list[FailingSource]
    stores: list[StoreReport]
    nodes: list[NodeReport]
    alarms: list[Alarm]


class OverviewService:
    def __init__(
        self,
        queues: QueueFiguresService,
        stores: StoreMonitor,
        history: HistoryService | None,
        nodes: NodeMonitor | None,
    ) -> None:
        """*history*: None: the service has no control store.  *nodes*: None: it has no channels."""
        self._queues = queues
        self._stores = stores
        self._history = history
        self._nodes = nodes

    async def get(self, project: str, *, everything: bool) -> Overview:
        """*everything*: stores and nodes too, and what is wrong with them."""
        figures, topics, alarms, stores, nodes, largest = await asyncio.gather(
            self._queues.get(project, PATIENCE),
            self._queues.get(project, PATIENCE, topics=True),
            self._queue_alarms(project),
            self._stores.reports(PATIENCE) if everything else _absent([]),
            self._nodes.reports() if everything and self._nodes is not None else _absent([]),
            self._largest_queues() if everything else _absent({}),
        )
        away = {store.name for store in stores if not store.available}
        missing: Sequence[tuple[str, float]] = ()
        if self._nodes is not None:
            missing = self._nodes.missing(nodes)
            # What another node reaches is not away: this one is in trouble, and its report says so.
            alone = reached_by_others(away, nodes, self._nodes.own)
            away -= alone
            for node in nodes:
                if node.node == self._nodes.own:
                    node.unavailable = sorted(alone.union(node.unavailable))
        found = [
            *(
                alarm
                for store in stores
                if store.available or store.name in away
                for alarm in store_alarms(store, _of_store(store, largest))
                if alarm.severity != "info"
            ),
            *node_alarms(nodes, missing if everything else (), away),
            *alarms,
        ]
        if not everything:
            found += map(_away, sorted({*figures.unavailable, *topics.unavailable}))
        failing = [*_failing("queues", figures), *_failing("topics", topics)]
        failing.sort(key=lambda each: each.subscriptions.since)
        return Overview(figures, failing, stores, nodes, sort_alarms(found))

    async def _queue_alarms(self, project: str) -> Sequence[Alarm]:
        return () if self._history is None else await _told(self._history.alarms(project), ())

    async def _largest_queues(self) -> Mapping[str, Sequence[LargeQueue]]:
        return {} if self._history is None else await _told(self._history.largest_queues(), {})


def _away(store: str) -> Alarm:
    """Returns what those see who do not run the installation."""
    return Alarm(
        "critical",
        f"store {store}",
        f"Store {store} is away: queues and topics of this project that are in it can be neither "
        "read nor written.",
        "Tell whoever runs the service, if it lasts.",
    )


def _failing(kind: Literal["queues", "topics"], found: ProjectFigures) -> Iterator[FailingSource]:
    for row in found.rows:
        if row.figures.failing is not None:
            yield FailingSource(kind, row.name, row.figures.failing)


async def _told(asked: Awaitable[T], otherwise: T) -> T:
    """Returns what the control store answers, or *otherwise* if it does not answer in time."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asked
    except (errors.Unavailable, TimeoutError):
        return otherwise


def _of_store(
    store: StoreReport, largest: Mapping[str, Sequence[LargeQueue]]
) -> Sequence[LargeQueue]:
    return largest.get(store.name, ()) if store.kind == "queues" else ()


async def _absent(value: T) -> T:
    return value


class OperatorServices:
    """The services of the console, for one worker."""

    def __init__(self, driver: Driver, settings: HistorySettings, node: Node | None) -> None:
        """*node*: None: the service has no channels."""
        self._driver = driver
        self.queues = QueueFiguresService(driver)
        self._stores = StoreMonitor(driver, None if node is None else node.engine.ping)
        #: None: there are no channels, which nodes are for
        self.nodes: NodeMonitor | None = None
        if node is not None:
            node.stores = self._stores
            self.nodes = NodeMonitor(node, PATIENCE)
        #: None: there is no control store, or it is switched off
        self.history: HistoryService | None = None
        if isinstance(driver, PooledDriver) and settings.interval:
            self.history = HistoryService(driver, settings)
        self.overview = OverviewService(self.queues, self._stores, self.history, self.nodes)
        #: None: there is no control store
        self.access_keys = driver.control.access_keys if isinstance(driver, PooledDriver) else None
        self._sampling: asyncio.Task[None] | None = None

    async def projects(self) -> tuple[list[str], bool]:
        """Returns the projects that have queues or topics, by name, and whether these are all.

        A store that is away or has very many keys is read for a second at most.
        """
        found: set[str] = set()
        try:
            async with asyncio.timeout(PATIENCE):
                for name in await store_names(self._driver):
                    figures = (await open_store(self._driver, name)).figures
                    if figures is not None:
                        async for project, _ in figures.projects():
                            found.add(project)
        except (errors.Unavailable, errors.BadConfiguration, TimeoutError):
            return sorted(found), False
        return sorted(found), True

    def start(self) -> None:
        if self.history is not None:
            self._sampling = asyncio.create_task(self.history.run(), name="history")

    async def close(self) -> None:
        if self.history is not None and self._sampling is not None:
            await runner.cancel(self._sampling)
            await self.history.resign()
        await asyncio.gather(self.queues.close(), self._stores.close())
