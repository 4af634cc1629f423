# SPDX-License-Identifier: Apache-2.0
"""The catalogue for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.keyspace import keys
from zaqar_redis.zaqar_plugin.stores import run_verb

#: Entries read at once.
_PAGE = 100
#: Milliseconds for which the catalogue entry of a deleted queue is kept: stock Zaqar's
#: own cache lasts 10 s.  And how many older ones each `delete` removes.
_TOMBSTONE_MS, _FORGET_BATCH = 60_000, 10


class CatalogueController(storage.CatalogueBase):
    def list(self, project: str | None) -> Iterator[dict[str, Any]]:
        catalogue = self.driver.stores.catalogue
        for pool in run_verb(catalogue.pools_of(project or "")):
            for placed in self._entries(project or "", pool):
                if self.exists(project, placed.queue):
                    yield _shown(project, placed.queue, pool)

    def get(self, project: str | None, queue: str) -> dict[str, Any]:
        pool = self.driver.stores.pool_of(project or "", queue)
        if pool is None:
            raise storage_errors.QueueNotMapped(queue, project)
        return _shown(project, queue, pool)

    def exists(self, project: str | None, queue: str) -> bool:
        """API: True also after a `delete` of a queue that is still in its store.

        When a queue's flavor is changed, stock Zaqar deletes the entry and, if it no longer
        exists, maps the queue anew, which would leave its messages behind.
        """
        return self.driver.stores.pool_of(project or "", queue) is not None

    def insert(self, project: str | None, queue: str, pool: str) -> None:
        run_verb(self.driver.stores.catalogue.put(project or "", queue, pool))

    def update(self, project: str | None, queue: str, pool: str | None = None) -> None:
        self.get(project, queue)
        if pool is None:
            raise AssertionError("pool must be given")
        run_verb(self.driver.stores.catalogue.put(project or "", queue, pool))

    def delete(self, project: str | None, queue: str) -> None:
        catalogue = self.driver.stores.catalogue
        run_verb(catalogue.deleted(project or "", queue))
        for placed in run_verb(catalogue.deleted_since(_TOMBSTONE_MS, 0, _FORGET_BATCH)):
            if self.driver.stores.has_queue(placed.pool, placed.project, placed.queue):
                run_verb(catalogue.alive(placed.project, placed.queue))
            else:
                run_verb(catalogue.release(placed.project, placed.queue, placed.pool))

    def drop_all(self) -> None:
        self.driver.stores.drop_catalogue()

    def _entries(self, project: str, pool: str) -> Iterator[Any]:
        catalogue = self.driver.stores.catalogue
        after = keys.entry(project, "").decode()
        while page := run_verb(catalogue.queues_of(pool, after, _PAGE)):
            for placed in page:
                if placed.project != project:
                    return
                yield placed
            after = page[-1].marker


def _shown(project: str | None, queue: str, pool: str) -> dict[str, Any]:
    return {"queue": queue, "project": project, "pool": pool}
