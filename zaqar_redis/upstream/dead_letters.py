# SPDX-License-Identifier: Apache-2.0
"""Dead letters inside stock Zaqar: they go to where their queue is."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from zaqar.common.storage import select
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors
from zaqar_redis.records import Draft, Retry
from zaqar_redis.upstream.options import SCHEMES
from zaqar_redis.upstream.stores import Store, Stores

LOG = logging.getLogger(__name__)


class DeadLetters:
    """Those of the queues of one store."""

    def __init__(self, conf: Any, store: Store, control_driver: Any) -> None:
        self._pooling = bool(conf.pooling)
        self._store = store
        self._control = control_driver
        self._opened: dict[str, Store] = {}

    def post(self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry) -> Any:
        """A `storage.driver.Bury`.

        Raises StoreUnavailable when the queue's store is not known now: the letter stays
        where it is, and whoever claims next tries again.
        """
        try:
            store = self._store_of(project, queue)
        except Exception as error:  # the management store may be anybody's, and so its errors
            LOG.warning(
                "dead letters for the queue %s/%s wait: %s", project, queue, errors.reason(error)
            )
            raise errors.StoreUnavailable(f"of the queue {queue}") from error
        return store.messages.bury(project, queue, letter, client=client, retry=retry)

    def _store_of(self, project: str, queue: str) -> Store:
        """With pools it is perhaps another store than the one the letter comes from."""
        if not self._pooling:
            return self._store
        ours = getattr(self._control, "stores", None)
        if isinstance(ours, Stores):
            return ours.placed(project, queue)
        pool = self._pool_of(project or None, queue)
        return self._store if pool is None else self._of_pool(pool)

    def _pool_of(self, project: str | None, queue: str) -> str | None:
        """By the catalogue of another management store; None: there are no pools."""
        catalogue = self._control.catalogue_controller
        try:
            return str(catalogue.get(project, queue)["pool"])
        except storage_errors.QueueNotMapped:
            pass
        # As stock Zaqar makes a queue.
        pool = select.weighted(self._control.pools_controller.get_pools_by_flavor())
        if pool is None:
            return None
        catalogue.insert(project, queue, pool["name"])
        self._control.queue_controller.create(queue, project=project)
        return str(pool["name"])

    def _of_pool(self, name: str) -> Store:
        """Raises ValueError when another driver has it, and ConfigurationError."""
        uri = self._control.pools_controller.get(name)["uri"]
        if urlsplit(uri).scheme not in SCHEMES:
            raise ValueError(f'the pool "{name}" is not a store of the driver zaqar-redis')
        store = self._opened.get(uri)
        if store is None:
            store = self._opened[uri] = self._store.beside(uri)
        return store

    def close(self) -> None:
        for store in self._opened.values():
            store.close()
