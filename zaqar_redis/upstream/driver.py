# SPDX-License-Identifier: Apache-2.0
"""The drivers that stock Zaqar loads by name.

The stages of its pipeline are found by the name of the module that the data driver is
defined in: they are registered for this one.
"""

from __future__ import annotations

import functools
from typing import Any

from zaqar import storage

from zaqar_redis.records import Draft, Retry
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled.places import choose
from zaqar_redis.upstream import options, stores
from zaqar_redis.upstream.catalogue import CatalogueController
from zaqar_redis.upstream.claims import ClaimController
from zaqar_redis.upstream.flavors import FlavorsController
from zaqar_redis.upstream.messages import MessageController
from zaqar_redis.upstream.pools import PoolsController
from zaqar_redis.upstream.queues import QueueController
from zaqar_redis.upstream.stores import Store, Stores, run
from zaqar_redis.upstream.subscriptions import SubscriptionController
from zaqar_redis.upstream.topics import TopicController

#: All there are. How durable the data are is up to Redis: with its append-only file,
#: what was acknowledged outlives it.
_CAPABILITIES = tuple(storage.Capabilities)
#: What the verbs go by, of a queue's metadata.
_SETTINGS = (
    "_default_message_delay",
    "_max_claim_count",
    "_dead_letter_queue",
    "_dead_letter_queue_messages_ttl",
)
#: Queues whose settings are known to be in the store: about 300 bytes each.
_REMEMBERED = 10_000


class DataDriver(storage.DataDriverBase):
    """Messages, claims and subscriptions in one Redis.

    Raises zaqar's ConfigurationError when its URI cannot be used; a Redis that is away
    is an error of each call.
    """

    SCHEME = options.SCHEMES[0]
    BASE_CAPABILITIES = _CAPABILITIES
    _DRIVER_OPTIONS = [options.of("message", SCHEME)]

    def __init__(self, conf: Any, cache: Any, control_driver: Any) -> None:
        super().__init__(conf, cache, control_driver)
        self.store = stores.opened(conf[f"drivers:message_store:{self.SCHEME}"])
        self.store.route_letters(self._bury)
        self._prepared: dict[tuple[str, str], dict[str, Any]] = {}

    @property
    def capabilities(self) -> tuple[Any, ...]:
        return self.BASE_CAPABILITIES

    def is_alive(self) -> bool:
        return self.store.is_alive()

    def _health(self) -> dict[str, Any]:
        return {
            "storage_reachable": self.is_alive(),
            "operation_status": self._get_operation_status(),
        }

    def close(self) -> None:
        self.store.close()

    @functools.cached_property
    def message_controller(self) -> MessageController:
        return MessageController(self)

    @functools.cached_property
    def claim_controller(self) -> ClaimController:
        return ClaimController(self)

    @functools.cached_property
    def subscription_controller(self) -> SubscriptionController:
        return SubscriptionController(self)

    def prepared(self, project: str | None, queue: str) -> Store:
        """The store, once it knows what the queue's metadata ask of it.

        They are in the management store, which may be another one, even of another kind.
        """
        control = self.control_driver
        ours = isinstance(control, ControlDriver)
        if ours and control.stores.of(project or "", queue).uri == self.store.uri:
            return self.store
        metadata = self.queue_controller.get(queue, project=project)
        settings = {name: metadata[name] for name in _SETTINGS if metadata.get(name)}
        key = (project or "", queue)
        if self._prepared.get(key, {}) != settings:
            self._adopt(project or "", queue, settings)
            if len(self._prepared) >= _REMEMBERED:
                self._prepared.clear()
            self._prepared[key] = settings
        return self.store

    def _adopt(self, project: str, queue: str, settings: dict[str, Any]) -> None:
        queues = self.store.queues
        while not run(queues.create(project, queue, settings)):
            known = run(queues.get(project, queue))
            if known is not None and run(queues.update(project, known, settings)):
                return

    def _bury(self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry) -> Any:
        """Send a dead letter to where its queue is, with pools perhaps another store."""
        store = self.store
        if isinstance(self.control_driver, ControlDriver) and self.control_driver.pooling:
            store = self.control_driver.placed(project, queue)
        return store.messages.bury(project, queue, letter, client=client, retry=retry)


class TlsDataDriver(DataDriver):
    SCHEME = options.SCHEMES[1]
    _DRIVER_OPTIONS = [options.of("message", SCHEME)]


class UnixDataDriver(DataDriver):
    SCHEME = options.SCHEMES[2]
    _DRIVER_OPTIONS = [options.of("message", SCHEME)]


class ControlDriver(storage.ControlDriverBase):
    """Queues, topics, pools, flavors and the catalogue in one Redis."""

    SCHEME = options.SCHEMES[0]
    _DRIVER_OPTIONS = [options.of("management", SCHEME)]

    def __init__(self, conf: Any, cache: Any) -> None:
        super().__init__(conf, cache)
        self.pooling = bool(conf.pooling)
        home = stores.opened(conf[f"drivers:management_store:{self.SCHEME}"])
        self.stores = Stores(home, self.pooling)

    def close(self) -> None:
        self.stores.close()

    def placed(self, project: str, queue: str) -> Store:
        """The store of a queue, which is given a place if it has none."""
        while True:
            if run(self.stores.catalogue.locate(project, queue)).pool is not None:
                return self.stores.of(project, queue)
            pools = run(self.stores.pools.list())
            pool = choose(pools.items, "")
            name = pool.name if pool else DEFAULT
            run(self.stores.catalogue.assign(project, queue, name, pools.version))

    @functools.cached_property
    def queue_controller(self) -> QueueController:
        return QueueController(self)

    @functools.cached_property
    def topic_controller(self) -> TopicController:
        return TopicController(self)

    @functools.cached_property
    def pools_controller(self) -> PoolsController:
        return PoolsController(self)

    @functools.cached_property
    def flavors_controller(self) -> FlavorsController:
        return FlavorsController(self)

    @functools.cached_property
    def catalogue_controller(self) -> CatalogueController:
        return CatalogueController(self)


class TlsControlDriver(ControlDriver):
    SCHEME = options.SCHEMES[1]
    _DRIVER_OPTIONS = [options.of("management", SCHEME)]


class UnixControlDriver(ControlDriver):
    SCHEME = options.SCHEMES[2]
    _DRIVER_OPTIONS = [options.of("management", SCHEME)]
