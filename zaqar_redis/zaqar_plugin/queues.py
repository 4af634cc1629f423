# SPDX-License-Identifier: Apache-2.0
"""Queues for stock Zaqar, and what its pipeline does to their messages."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.records import Message, Page, Queue
from zaqar_redis.rules import TOPIC_PREFIX
from zaqar_redis.zaqar_plugin.stores import run_verb

#: How often a change is tried when others change the same queue meanwhile.
_MAX_UPDATE_ATTEMPTS = 10
#: Seconds for which metadata are cached: stock's transports read them before each post
#: and each listing, which is half the cost of these.  And for how many queues, of some
#: hundred bytes each.
_METADATA_TTL_SECONDS, _METADATA_CACHE_SIZE = 1.0, 10_000
#: Items of a listing that are read at once while some of them are filtered out.
_STEP = 100


class QueueController(storage.Queue):
    """The queues of the default pool, and of the pools of the catalogue."""

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self._metadata_cache: dict[tuple[str, str], tuple[float, Queue]] = {}

    def _list(
        self,
        project: str | None = None,
        kfilter: dict[str, Any] | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_QUEUES_PER_PAGE,
        detailed: bool = False,
        name: str | None = None,
    ) -> Iterator[Any]:
        def page(after: str, most: int) -> Page[Queue]:
            return run_verb(self.driver.stores.queues.list(project or "", after, most, None))

        return filtered(page, kfilter, marker, limit, detailed, name)

    def _get(self, name: str, project: str | None = None) -> dict[str, Any]:
        queue = self._find(name, project)
        return queue.metadata if queue else {}

    def get_metadata(self, name: str, project: str | None = None) -> dict[str, Any]:
        """Returns the metadata, up to a second old.  Raises QueueDoesNotExist."""
        key = (project or "", name)
        until, queue = self._metadata_cache.get(key, (0.0, None))
        if queue is None or until < time.monotonic():
            queue = self._find(name, project)
            if queue is None:
                raise storage_errors.QueueDoesNotExist(name, project)
            if len(self._metadata_cache) >= _METADATA_CACHE_SIZE:
                self._metadata_cache.clear()
            self._metadata_cache[key] = (time.monotonic() + _METADATA_TTL_SECONDS, queue)
        return copy.deepcopy(queue.metadata)  # callers change it

    def set_metadata(self, name: str, metadata: dict[str, Any], project: str | None = None) -> None:
        """Raises QueueDoesNotExist, and MessageConflict when others changed what was read."""
        key = (project or "", name)
        until, cached = self._metadata_cache.pop(key, (0.0, None))
        if until + _METADATA_TTL_SECONDS < time.monotonic():
            cached = None  # too old: *metadata* was not derived from it
        for _ in range(1 if cached else _MAX_UPDATE_ATTEMPTS):
            queue = cached or self._find(name, project)
            if queue is None:
                raise storage_errors.QueueDoesNotExist(name, project)
            if self._updated(project or "", queue, metadata):
                return
        raise storage_errors.MessageConflict(name, project)

    def _create(
        self, name: str, metadata: dict[str, Any] | None = None, project: str | None = None
    ) -> bool:
        self._metadata_cache.pop((project or "", name), None)
        return self.driver.stores.run(
            project or "",
            name,
            lambda store: store.queues.create(project or "", name, metadata or {}),
        )

    def _exists(self, name: str, project: str | None = None) -> bool:
        return self._find(name, project) is not None

    def _delete(self, name: str, project: str | None = None) -> None:
        self._metadata_cache.pop((project or "", name), None)
        self.driver.stores.run(
            project or "", name, lambda store: store.queues.delete(project or "", name)
        )

    def _stats(self, name: str, project: str | None = None) -> None:
        """Does nothing: the pipeline's stage counts the messages."""

    def _calculate_resource_count(self, project: str | None = None) -> int:
        return run_verb(self.driver.stores.queues.count(project or ""))

    def _find(self, name: str, project: str | None) -> Queue | None:
        return self.driver.stores.run(
            project or "", name, lambda store: store.queues.get(project or "", name)
        )

    def _updated(self, project: str, queue: Queue, metadata: dict[str, Any]) -> bool:
        return self.driver.stores.run(
            project, queue.name, lambda store: store.queues.update(project, queue, metadata)
        )


class MessageQueueStage:
    """The messages' part in deletes and stats of queues: stock's pipeline calls this first."""

    def __init__(self, driver: Any, control_driver: Any) -> None:
        self._driver = driver
        self._queues = control_driver.queue_controller

    def delete(self, name: str, project: str | None = None) -> None:
        self._driver.run(project, name, lambda store: store.queues.delete)

    def stats(self, name: str, project: str | None = None) -> dict[str, Any]:
        if not self._queues.exists(name, project=project):
            raise storage_errors.QueueDoesNotExist(name, project)
        stats = self._driver.run(project, name, lambda store: store.queues.stats)
        counts: dict[str, Any] = {
            "claimed": stats.claimed,
            "free": stats.free,
            "total": stats.total,
        }
        if stats.oldest and stats.newest:
            counts |= {"oldest": _end(stats.oldest), "newest": _end(stats.newest)}
        return {"messages": counts}


class MessageTopicStage(MessageQueueStage):
    """The same of topics."""

    def delete(self, name: str, project: str | None = None) -> None:
        super().delete(f"{TOPIC_PREFIX}{name}", project)

    def stats(self, name: str, project: str | None = None) -> dict[str, Any]:
        try:
            return super().stats(f"{TOPIC_PREFIX}{name}", project)
        except storage_errors.QueueDoesNotExist:
            raise storage_errors.TopicDoesNotExist(name, project) from None


def _end(message: Message) -> dict[str, Any]:
    created = datetime.fromtimestamp(message.created // 1000, UTC)
    return {"id": message.id, "age": message.age, "created": f"{created:%Y-%m-%dT%H:%M:%SZ}"}


def filtered(
    page: Callable[[str, int], Page[Any]],
    kfilter: dict[str, Any] | None,
    marker: str | None,
    limit: int,
    detailed: bool,
    name: str | None,
) -> Iterator[Any]:
    """Yields the queues or topics whose name contains *name* and whose metadata have *kfilter*,
    then the marker.
    """
    found: list[dict[str, Any]] = []
    wanted = kfilter or {}
    after, step = marker or "", _STEP if wanted or name else limit
    while len(found) < limit:
        read = page(after, step)
        for item in read.items:
            after = item.name
            if (name or "") not in after or any(
                item.metadata.get(key) != value for key, value in wanted.items()
            ):
                continue
            found.append({"name": after} | ({"metadata": item.metadata} if detailed else {}))
            if len(found) == limit:
                break
        if len(read.items) < step:
            break
    yield iter(found)
    yield found[-1]["name"] if found else None
