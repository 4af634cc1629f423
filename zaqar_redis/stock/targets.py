# SPDX-License-Identifier: Apache-2.0
"""Where queues are imported to: one store, or a service's store and its pools."""

from __future__ import annotations

from typing import Protocol

from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled import PooledDriver
from zaqar_redis.storage.pooled.places import Places


class Target(Protocol):
    async def find(self, project: str, queue: str) -> Driver:
        """The store that the queue is in, if it is in any."""

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        """The store that the queue shall be in; from now on others look for it there.

        Raises NoSuchFlavor.
        """

    async def give_up(self, project: str, queue: str) -> None:
        """There is no such queue after all."""


class Plain:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def find(self, project: str, queue: str) -> Driver:
        return self._driver

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        return self._driver

    async def give_up(self, project: str, queue: str) -> None:
        """Nobody was told of it."""


class Pooled:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def find(self, project: str, queue: str) -> Driver:
        return (await self._places.find(project, queue)).driver

    async def make(self, project: str, queue: str, flavor: str) -> Driver:
        return (await self._places.find(project, queue, make=True, flavor=flavor)).driver

    async def give_up(self, project: str, queue: str) -> None:
        await self._places.control.catalogue.deleted(project, queue)


def target(driver: Driver) -> Target:
    return Pooled(driver.places) if isinstance(driver, PooledDriver) else Plain(driver)
