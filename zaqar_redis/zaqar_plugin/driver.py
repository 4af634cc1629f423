# SPDX-License-Identifier: Apache-2.0
"""The drivers that stock Zaqar loads by name.

The stages of its pipeline are found by the name of the module that the data driver is
defined in: they are registered for this one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from zaqar import storage

from zaqar_redis.keyspace.script import Verb
from zaqar_redis.storage.pools.pool_stores import Route
from zaqar_redis.storage.pools.retry import RetryPolicy
from zaqar_redis.zaqar_plugin import options, stores
from zaqar_redis.zaqar_plugin.catalogue import CatalogueController
from zaqar_redis.zaqar_plugin.claims import ClaimController
from zaqar_redis.zaqar_plugin.dead_letters import DeadLetterRouter
from zaqar_redis.zaqar_plugin.flavors import FlavorsController
from zaqar_redis.zaqar_plugin.messages import MessageController
from zaqar_redis.zaqar_plugin.pools import PoolsController
from zaqar_redis.zaqar_plugin.queues import QueueController
from zaqar_redis.zaqar_plugin.stores import PluginRouter, PluginStore, run_verb
from zaqar_redis.zaqar_plugin.subscriptions import SubscriptionController
from zaqar_redis.zaqar_plugin.topics import TopicController

P = ParamSpec("P")
T = TypeVar("T")

#: All of them. Durability is up to Redis: with its append-only file, acknowledged writes
#: survive a restart.
_CAPABILITIES = tuple(storage.Capabilities)
#: The metadata of a queue that the verbs need.
_SETTINGS = (
    "_default_message_delay",
    "_max_claim_count",
    "_dead_letter_queue",
    "_dead_letter_queue_messages_ttl",
    "_on_expiry",
    "_redelivery_delay",
    "_content_dedup",
    "_dedup_window",
    "_max_messages",
    "_max_bytes",
    "_overflow",
    "_paused",
)
_MESSAGE_STORES = [options.store_options("message", scheme) for scheme in options.SCHEMES]
_MANAGEMENT_STORES = [options.store_options("management", scheme) for scheme in options.SCHEMES]
#: Queues whose settings are known to be in the store: about 300 bytes each.
_SETTINGS_CACHE_SIZE = 10_000


class DataDriver(storage.DataDriverBase):
    """Messages, claims and subscriptions in one store, whichever of our schemes names it.

    Raises zaqar's ConfigurationError when its URI cannot be used; while Redis is
    unreachable, each call fails.
    """

    BASE_CAPABILITIES = _CAPABILITIES
    _DRIVER_OPTIONS = _MESSAGE_STORES

    def __init__(self, conf: Any, cache: Any, control_driver: Any) -> None:
        super().__init__(conf, cache, control_driver)
        # Of a pool, stock Zaqar sets it before it opens the driver.
        self.store = stores.open_store(conf[f"drivers:message_store:{conf.drivers.message_store}"])
        self._route = Route("of this driver", self.store, None)
        self._dead_letters = DeadLetterRouter(conf, self.store, control_driver)
        self.store.route_dead_letters(self._dead_letters.post)
        self._applied_settings: dict[tuple[str, str], dict[str, Any]] = {}

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

    message_controller = functools.cached_property(MessageController)
    claim_controller = functools.cached_property(ClaimController)
    subscription_controller = functools.cached_property(SubscriptionController)

    def run(
        self,
        project: str | None,
        queue: str,
        verb_of: Callable[[PluginStore], Callable[Concatenate[str, str, P], Verb[T]]],
        *args: P.args,
        **how: P.kwargs,
    ) -> T:
        """Returns the result of a verb of this store, or of the one that the queue has moved to."""

        def act(store: PluginStore) -> Verb[T]:
            return verb_of(store)(project or "", queue, *args, **how)

        if isinstance(self.control_driver, ControlDriver):
            return self.control_driver.stores.run(project or "", queue, act, self._route)
        return run_verb(act(self.store))

    def copy_settings(self, project: str | None, queue: str) -> None:
        """Copies the queue's settings to the store.

        The metadata are in the management store, which may be another one, even of another
        driver.
        """
        control = self.control_driver
        is_ours = isinstance(control, ControlDriver)
        if is_ours and control.stores.store_of(project or "", queue).uri == self.store.uri:
            return
        metadata = self.queue_controller.get(queue, project=project)
        settings = {name: metadata[name] for name in _SETTINGS if metadata.get(name)}
        key = (project or "", queue)
        if self._applied_settings.get(key, {}) != settings:
            self._apply_settings(project or "", queue, settings)
            if len(self._applied_settings) >= _SETTINGS_CACHE_SIZE:
                self._applied_settings.clear()
            self._applied_settings[key] = settings

    def _apply_settings(self, project: str, queue: str, settings: dict[str, Any]) -> None:
        queues = self.store.queues
        while not run_verb(queues.create(project, queue, settings)):
            known = run_verb(queues.get(project, queue))
            if known is not None and run_verb(queues.update(project, known, settings)):
                return


class ControlDriver(storage.ControlDriverBase):
    """Pools, flavors and the catalogue in one store; queues and topics in the message store."""

    _DRIVER_OPTIONS = [*_MANAGEMENT_STORES, *_MESSAGE_STORES]

    def __init__(self, conf: Any, cache: Any) -> None:
        super().__init__(conf, cache)
        group = conf[f"drivers:management_store:{conf.drivers.management_store}"]
        management = stores.open_store(group)
        default = self._message_store(management)
        retry = RetryPolicy(move_timeout=group.move_timeout)
        self.stores = PluginRouter(management, default, bool(conf.pooling), retry)

    def close(self) -> None:
        self.stores.close()

    def _message_store(self, management: PluginStore) -> PluginStore:
        """Returns the store of queues: that of their messages, unless it is another driver's."""
        scheme = self.conf.drivers.message_store
        if scheme not in options.SCHEMES:
            return management
        store = stores.open_store(self.conf[f"drivers:message_store:{scheme}"])
        return management if store.uri == management.uri else store

    queue_controller = functools.cached_property(QueueController)
    topic_controller = functools.cached_property(TopicController)
    pools_controller = functools.cached_property(PoolsController)
    flavors_controller = functools.cached_property(FlavorsController)
    catalogue_controller = functools.cached_property(CatalogueController)
