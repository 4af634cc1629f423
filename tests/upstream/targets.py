# SPDX-License-Identifier: Apache-2.0
"""The drivers that stock's tests may be run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class DriverUnderTest:
    """A driver: its classes as ``module:Class``, and how its stores are addressed."""

    #: Scheme of its URIs; also the name of its entry points and of its groups of options.
    scheme: str
    #: Template of the URI, formatted with that of the store as ``uri``, which names hosts and
    #: has no query: stock's tests append a path to it.
    uri: str
    data: str
    control: str
    queues: str
    messages: str
    claims: str
    subscriptions: str
    pools: str
    catalogue: str
    flavors: str
    #: More options for both of its groups.
    options: Mapping[str, str] = field(default_factory=dict)

    def load(self, part: str) -> Any:
        """Returns a class, named by a field or as ``module:Class``.  Raises ImportError."""
        return _named(part if ":" in part else getattr(self, part))


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_STOCK = "zaqar.storage.redis"
_OURS = "zaqar_redis.zaqar_plugin"

TARGETS = {
    "redis": DriverUnderTest(
        scheme="redis",
        uri="{uri}",
        data=f"{_STOCK}.driver:DataDriver",
        control=f"{_STOCK}.driver:ControlDriver",
        queues=f"{_STOCK}.controllers:QueueController",
        messages=f"{_STOCK}.controllers:MessageController",
        claims=f"{_STOCK}.controllers:ClaimController",
        subscriptions=f"{_STOCK}.controllers:SubscriptionController",
        pools=f"{_STOCK}.controllers:PoolsController",
        catalogue=f"{_STOCK}.controllers:CatalogueController",
        flavors=f"{_STOCK}.controllers:FlavorsController",
        # By default it retries a failed command for seventeen minutes.
        options={"max_reconnect_attempts": "3", "reconnect_sleep": "0.1"},
    ),
    "zaqar-redis": DriverUnderTest(
        scheme="zaqar-redis",
        uri="zaqar-{uri}",
        data=f"{_OURS}.driver:DataDriver",
        control=f"{_OURS}.driver:ControlDriver",
        queues=f"{_OURS}.queues:QueueController",
        messages=f"{_OURS}.messages:MessageController",
        claims=f"{_OURS}.claims:ClaimController",
        subscriptions=f"{_OURS}.subscriptions:SubscriptionController",
        pools=f"{_OURS}.pools:PoolsController",
        catalogue=f"{_OURS}.catalogue:CatalogueController",
        flavors=f"{_OURS}.flavors:FlavorsController",
    ),
}


def find(name: str) -> DriverUnderTest:
    """Returns a target by its name in TARGETS, or by the ``module:NAME`` of its definition."""
    found = TARGETS[name] if name in TARGETS else _named(name)
    if not isinstance(found, DriverUnderTest):
        raise TypeError(f"{name} is not a Target")
    return found
