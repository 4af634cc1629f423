# SPDX-License-Identifier: Apache-2.0
"""The drivers that stock Zaqar loads by name.

The stages of its pipeline are found by the name of the module that the data driver is
defined in: they are registered for this one.
"""

from __future__ import annotations

import functools
from typing import Any

from zaqar import storage

from zaqar_redis.upstream import options, stores
from zaqar_redis.upstream.catalogue import CatalogueController
from zaqar_redis.upstream.claims import ClaimController
from zaqar_redis.upstream.dead_letters import DeadLetters
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
_MESSAGE_STORES = [options.of("message", scheme) for scheme in options.SCHEMES]
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
        self._dead_letters = DeadLetters(conf, self.store, control_driver)
        self.store.route_letters(self._dead_letters.post)
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
        self._dead_letters.close()
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


class TlsDataDriver(DataDriver):
    SCHEME = options.SCHEMES[1]
    _DRIVER_OPTIONS = [options.of("message", SCHEME)]


class UnixDataDriver(DataDriver):
    SCHEME = options.SCHEMES[2]
    _DRIVER_OPTIONS = [options.of("message", SCHEME)]


class ControlDriver(storage.ControlDriverBase):
    """Pools, flavors and the catalogue in one Redis; queues and topics in the message store."""

    SCHEME = options.SCHEMES[0]
    _DRIVER_OPTIONS = [options.of("management", SCHEME), *_MESSAGE_STORES]

    def __init__(self, conf: Any, cache: Any) -> None:
        super().__init__(conf, cache)
        management = stores.opened(conf[f"drivers:management_store:{self.SCHEME}"])
        home = self._message_store(management)
        self.stores = Stores(management, home, bool(conf.pooling))

    def close(self) -> None:
        self.stores.close()

    def _message_store(self, management: Store) -> Store:
        """Queues are kept where their messages are, unless that is another driver's."""
        scheme = self.conf.drivers.message_store
        if scheme not in options.SCHEMES:
            return management
        store = stores.opened(self.conf[f"drivers:message_store:{scheme}"])
        return management if store.uri == management.uri else store

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
    _DRIVER_OPTIONS = [options.of("management", SCHEME), *_MESSAGE_STORES]


class UnixControlDriver(ControlDriver):
    SCHEME = options.SCHEMES[2]
    _DRIVER_OPTIONS = [options.of("management", SCHEME), *_MESSAGE_STORES]
