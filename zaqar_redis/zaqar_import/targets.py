# SPDX-License-Identifier: Apache-2.0
"""Targets of an import: one store, or a service's store and its pools."""

from __future__ import annotations

from typing import Protocol

from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.router import ServiceRouter


class ImportTarget(Protocol):
    async def find(self, project: str, queue: str) -> Driver:
        """Returns the store of the queue, or the one it would be in."""

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        """Returns the store for a new queue, after writing its catalogue entry.

        Raises NoSuchFlavor.
        """

    async def forget(self, project: str, queue: str) -> None:
        """Marks the queue as deleted: it was not imported."""


class SingleStoreTarget:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def find(self, project: str, queue: str) -> Driver:
        return self._driver

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        return self._driver

    async def forget(self, project: str, queue: str) -> None:
        """Does nothing: one store has no catalogue."""


class PooledTarget:
    def __init__(self, router: ServiceRouter) -> None:
        self._router = router

    async def find(self, project: str, queue: str) -> Driver:
        return (await self._router.find(project, queue)).driver

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        return (await self._router.find(project, queue, make=True, flavor=flavor)).driver

    async def forget(self, project: str, queue: str) -> None:
        await self._router.control.catalogue.deleted(project, queue)


def target(driver: Driver) -> ImportTarget:
    return (
        PooledTarget(driver.router)
        if isinstance(driver, PooledDriver)
        else SingleStoreTarget(driver)
    )
