# SPDX-License-Identifier: Apache-2.0
"""Flavors for stock Zaqar.  As in its other drivers they belong to the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.pool_records import Flavor
from zaqar_redis.zaqar_plugin.stores import run_verb


class FlavorsController(storage.FlavorsBase):
    def list(
        self,
        project: str | None = None,
        marker: str | None = None,
        limit: int = 10,
        detailed: bool = False,
    ) -> Iterator[Any]:
        flavors = run_verb(self.driver.stores.flavors.list())
        page = [flavor for flavor in flavors if flavor.name > (marker or "")][:limit]
        yield (_shown(flavor, detailed) for flavor in page)
        yield page[-1].name if page else None

    def get(self, name: str, project: str | None = None, detailed: bool = False) -> dict[str, Any]:
        flavor = run_verb(self.driver.stores.flavors.get(name))
        if flavor is None:
            raise storage_errors.FlavorDoesNotExist(name)
        return _shown(flavor, detailed)

    def create(self, name: str, project: str | None = None, capabilities: Any = None) -> None:
        run_verb(self.driver.stores.flavors.describe(name, capabilities or {}))

    def exists(self, name: str, project: str | None = None) -> bool:
        return run_verb(self.driver.stores.flavors.get(name)) is not None

    def update(self, name: str, project: str | None = None, capabilities: Any = None) -> None:
        if capabilities is None:
            raise AssertionError("capabilities must be given")
        self.get(name)
        run_verb(self.driver.stores.flavors.describe(name, capabilities))

    def delete(self, name: str, project: str | None = None) -> None:
        run_verb(self.driver.stores.flavors.delete(name))

    def drop_all(self) -> None:
        for flavor in run_verb(self.driver.stores.flavors.list()):
            run_verb(self.driver.stores.flavors.delete(flavor.name))


def _shown(flavor: Flavor, detailed: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"name": flavor.name}
    if detailed:
        document["capabilities"] = flavor.capabilities
    return document
