# SPDX-License-Identifier: Apache-2.0
"""Dead letters inside stock Zaqar: posted to the store of the dead-letter queue."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from zaqar.common.storage import select
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors
from zaqar_redis.records import IdempotencyKey, NewMessage
from zaqar_redis.zaqar_plugin.options import SCHEMES
from zaqar_redis.zaqar_plugin.stores import PluginRouter, PluginStore

LOG = logging.getLogger(__name__)


class DeadLetterRouter:
    """Posts the dead letters of the queues of one store."""

    def __init__(self, conf: Any, store: PluginStore, control_driver: Any) -> None:
        self._pooling = bool(conf.pooling)
        self._store = store
        self._control = control_driver
        self._opened: dict[str, PluginStore] = {}

    def post(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Any:
        """Posts a dead letter: a `storage.contract.PostDeadLetter`.

        Raises StoreUnavailable when the store of the queue cannot be found now: the message
        stays in its queue, and the next claim tries again.
        """
        how: Any = {"client": client, "idempotency_key": idempotency_key}
        ours = getattr(self._control, "stores", None)
        if self._pooling and isinstance(ours, PluginRouter):
            return ours.dead_letter(project, queue, message, **how)
        try:
            store = self._store_of(project, queue)
        except Exception as error:  # the management store may be another driver's, as its errors
            LOG.warning(
                "cannot post a dead letter to the queue %s/%s, the next claim tries again: %s",
                project,
                queue,
                errors.reason(error),
            )
            raise errors.StoreUnavailable(f"of the queue {queue}") from error
        return store.messages.dead_letter(project, queue, message, **how)

    def _store_of(self, project: str, queue: str) -> PluginStore:
        """Returns the store of a queue; with pools it may differ from the message's own."""
        if not self._pooling:
            return self._store
        pool = self._pool_of(project or None, queue)
        return self._store if pool is None else self._of_pool(pool)

    def _pool_of(self, project: str | None, queue: str) -> str | None:
        """Returns a pool by another driver's catalogue; None when there are no pools."""
        catalogue = self._control.catalogue_controller
        try:
            return str(catalogue.get(project, queue)["pool"])
        except storage_errors.QueueNotMapped:
            pass
        # As stock Zaqar creates a queue.
        pool = select.weighted(self._control.pools_controller.get_pools_by_flavor())
        if pool is None:
            return None
        catalogue.insert(project, queue, pool["name"])
        self._control.queue_controller.create(queue, project=project)
        return str(pool["name"])

    def _of_pool(self, name: str) -> PluginStore:
        """Raises ValueError for a pool of another driver, and zaqar's ConfigurationError."""
        uri = self._control.pools_controller.get(name)["uri"]
        if urlsplit(uri).scheme not in SCHEMES:
            raise ValueError(f'the pool "{name}" is not a store of the driver zaqar-redis')
        store = self._opened.get(uri)
        if store is None:
            store = self._opened[uri] = self._store.open_sibling(uri)
        return store

    def close(self) -> None:
        for store in self._opened.values():
            store.close()
