# SPDX-License-Identifier: Apache-2.0
"""Queues for stock Zaqar, and what its pipeline does to their messages."""

from __future__ import annotations

import copy
import heapq
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.records import Message, Page, Queue
from zaqar_redis.upstream.listing import filtered
from zaqar_redis.upstream.stores import run

#: How often a change is tried when others change the same queue meanwhile.
_TRIES = 10
#: Seconds for which metadata are believed: stock's transports ask for them before each
#: post and each listing, which is half of what these cost.  And of how many queues, of
#: some hundred bytes each.
_BELIEVED, _REMEMBERED = 1.0, 10_000


class QueueController(storage.Queue):
    """The queues of the management store, and of its pools."""

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self._seen: dict[tuple[str, str], tuple[float, Queue]] = {}

    def _list(
        self,
        project: str | None = None,
        kfilter: dict[str, Any] | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_QUEUES_PER_PAGE,
        detailed: bool = False,
        name: str | None = None,
    ) -> Iterator[Any]:
        stores = self.driver.stores.with_queues_of(project or "")

        def page(after: str, most: int) -> Page[Queue]:
            pages = [
                run(store.queues.list(project or "", after, most, None)).items for store in stores
            ]
            merged: dict[str, Queue] = {}
            for queue in heapq.merge(*pages, key=lambda queue: queue.name):
                merged.setdefault(queue.name, queue)  # one that moves may be in two stores
                if len(merged) == most:
                    break
            return Page(items=list(merged.values()))

        return filtered(page, kfilter, marker, limit, detailed, name)

    def _get(self, name: str, project: str | None = None) -> dict[str, Any]:
        queue = self._known(name, project)
        return queue.metadata if queue else {}

    def get_metadata(self, name: str, project: str | None = None) -> dict[str, Any]:
        """The metadata, which another process may have changed a second ago."""
        key = (project or "", name)
        until, queue = self._seen.get(key, (0.0, None))
        if queue is None or until < time.monotonic():
            queue = self._known(name, project)
            if queue is None:
                raise storage_errors.QueueDoesNotExist(name, project)
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[key] = (time.monotonic() + _BELIEVED, queue)
        return copy.deepcopy(queue.metadata)  # callers change it

    def set_metadata(self, name: str, metadata: dict[str, Any], project: str | None = None) -> None:
        """Raises MessageConflict when others have changed what these were made from."""
        key = (project or "", name)
        queues = self.driver.stores.of(*key).queues
        until, seen = self._seen.pop(key, (0.0, None))
        if until + _BELIEVED < time.monotonic():
            seen = None  # these were not made from that
        for _ in range(1 if seen else _TRIES):
            queue = seen or run(queues.get(*key))
            if queue is None:
                raise storage_errors.QueueDoesNotExist(name, project)
            if run(queues.update(project or "", queue, metadata)):
                return
        raise storage_errors.MessageConflict(name, project)

    def _create(
        self, name: str, metadata: dict[str, Any] | None = None, project: str | None = None
    ) -> bool:
        self._seen.pop((project or "", name), None)
        store = self.driver.stores.of(project or "", name)
        return run(store.queues.create(project or "", name, metadata or {}))

    def _exists(self, name: str, project: str | None = None) -> bool:
        return self._known(name, project) is not None

    def _delete(self, name: str, project: str | None = None) -> None:
        self._seen.pop((project or "", name), None)
        store = self.driver.stores.of(project or "", name)
        run(store.queues.delete(project or "", name))

    def _stats(self, name: str, project: str | None = None) -> None:
        """Answered by the pipeline's stage, which knows the messages."""

    def _calculate_resource_count(self, project: str | None = None) -> int:
        stores = self.driver.stores.with_queues_of(project or "")
        return sum(run(store.queues.count(project or "")) for store in stores)

    def _known(self, name: str, project: str | None) -> Queue | None:
        return run(self.driver.stores.of(project or "", name).queues.get(project or "", name))


class MessageQueueStage:
    """What happens to the messages of a queue with it: stock's pipeline calls this first."""

    def __init__(self, driver: Any, control_driver: Any) -> None:
        self._driver = driver
        self._queues = control_driver.queue_controller

    def delete(self, name: str, project: str | None = None) -> None:
        run(self._driver.store.queues.delete(project or "", name))

    def stats(self, name: str, project: str | None = None) -> dict[str, Any]:
        if not self._queues.exists(name, project=project):
            raise storage_errors.QueueDoesNotExist(name, project)
        stats = run(self._driver.store.queues.stats(project or "", name))
        counts: dict[str, Any] = {
            "claimed": stats.claimed,
            "free": stats.free,
            "total": stats.total,
        }
        if stats.oldest and stats.newest:
            counts |= {"oldest": _end(stats.oldest), "newest": _end(stats.newest)}
        return {"messages": counts}


class MessageTopicStage:
    """Topics have no messages yet: the controller does it all."""

    def __init__(self, driver: Any, control_driver: Any) -> None:
        self._topics = control_driver.topic_controller

    def delete(self, name: str, project: str | None = None) -> None:
        """Nothing of its own to do."""

    def stats(self, name: str, project: str | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self._topics._stats(name, project)
        return found


def _end(message: Message) -> dict[str, Any]:
    created = datetime.fromtimestamp(message.created // 1000, UTC)
    return {"id": message.id, "age": message.age, "created": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
