# SPDX-License-Identifier: Apache-2.0
"""The catalogue for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.keyspace import keys
from zaqar_redis.upstream.stores import run

#: Entries read at once.
_PAGE = 100
#: Milliseconds for which the place of a deleted queue is kept: stock Zaqar believes its
#: own cache for 10 s.  And how many are forgotten in passing.
_KEPT, _FORGET = 60_000, 10


class CatalogueController(storage.CatalogueBase):
    def list(self, project: str | None) -> Iterator[dict[str, Any]]:
        catalogue = self.driver.stores.catalogue
        for pool in run(catalogue.pools_of(project or "")):
            for placed in self._entries(project or "", pool):
                if self.exists(project, placed.queue):
                    yield _shown(project, placed.queue, pool)

    def get(self, project: str | None, queue: str) -> dict[str, Any]:
        pool = self.driver.stores.pool_of(project or "", queue)
        if pool is None:
            raise storage_errors.QueueNotMapped(queue, project)
        return _shown(project, queue, pool)

    def exists(self, project: str | None, queue: str) -> bool:
        """API: also behind a `delete` of a queue that is still in its store.

        When a queue's flavor is changed stock Zaqar takes the queue out and, if it has
        gone, maps it anew, which would leave its messages behind.
        """
        return self.driver.stores.pool_of(project or "", queue) is not None

    def insert(self, project: str | None, queue: str, pool: str) -> None:
        run(self.driver.stores.catalogue.put(project or "", queue, pool))

    def update(self, project: str | None, queue: str, pool: str | None = None) -> None:
        self.get(project, queue)
        if pool is None:
            raise AssertionError("pool must be given")
        run(self.driver.stores.catalogue.put(project or "", queue, pool))

    def delete(self, project: str | None, queue: str) -> None:
        catalogue = self.driver.stores.catalogue
        run(catalogue.deleted(project or "", queue))
        for placed in run(catalogue.deleted_since(_KEPT, 0, _FORGET)):
            if self.driver.stores.has(placed.pool, placed.project, placed.queue):
                run(catalogue.alive(placed.project, placed.queue))
            else:
                run(catalogue.release(placed.project, placed.queue, placed.pool))

    def drop_all(self) -> None:
        self.driver.stores.drop_catalogue()

    def _entries(self, project: str, pool: str) -> Iterator[Any]:
        catalogue = self.driver.stores.catalogue
        after = keys.entry(project, "").decode()
        while page := run(catalogue.queues_of(pool, after, _PAGE)):
            for placed in page:
                if placed.project != project:
                    return
                yield placed
            after = page[-1].marker


def _shown(project: str | None, queue: str, pool: str) -> dict[str, Any]:
    return {"queue": queue, "project": project, "pool": pool}
