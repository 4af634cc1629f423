# SPDX-License-Identifier: Apache-2.0
"""Targets of an import: one store, or a service's store and its pools.

An import copies queues from another installation, or from a backup, each completely or not at all.
A copy has the creation time of its queue, in milliseconds, by which the next import recognises it:
nobody else creates a queue in the past.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable
from enum import StrEnum
from typing import Any

from zaqar_redis import errors
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import IMPORT_PREFIX
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.move.queue_import import ImportObstacle, QueueImport, obstructs
from zaqar_redis.storage.move.queue_move import transfer_of
from zaqar_redis.storage.pools import PooledDriver


class ImportStatus(StrEnum):
    """The outcome for one queue."""

    COPIED = "copied"
    WANTED = "to be copied"
    THERE = "already there"
    CONFLICT = "conflict"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        return self not in (ImportStatus.CONFLICT, ImportStatus.FAILED)


class ImportConflict(Exception):
    """Another queue has this name; the text says which."""


async def store_of(driver: Driver, project: str, queue: str, **how: Any) -> Driver:
    """Returns the store of a queue, or the one it would be in; *how*: as of `Router.find`."""
    if not isinstance(driver, PooledDriver):
        return driver
    return (await driver.router.find(project, queue, **how)).driver


class QueueImporter:
    """Imports queues into the stores of a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def has_copy(self, project: str, queue: str, created: int, *, dry_run: bool) -> bool:
        """Returns whether an earlier import finished the queue that was created then.

        Unless *dry_run*, it is listed from now on.  Raises ImportConflict when another queue has
        its name.
        """
        driver = await store_of(self._driver, project, queue)
        transfer = transfer_of(driver, "the target", queue)
        lock = await transfer.move_lock(project, queue)
        if obstructs(lock):
            raise ImportConflict(ImportObstacle.BEING_MOVED.value)
        if lock is not None:
            return False
        existing = await driver.queues.get(project, queue)
        if existing is None:
            return False
        if existing.created != created:
            raise ImportConflict("another queue of this name exists")
        if not dry_run:
            # The import may have been killed before it could list the queue.
            await transfer.commit_import(project, queue, IMPORT_PREFIX)
        return True

    async def has_flavor(self, flavor: str) -> bool:
        """Returns whether new queues may have it: none, or that of a pool that takes queues."""
        if not isinstance(self._driver, PooledDriver):
            return True
        return await self._driver.router.stores.has_flavor(flavor, takes_queues=True)

    async def copy(
        self, project: str, queue: str, flavor: str, chunks: AsyncIterable[TransferChunk]
    ) -> None:
        """Imports a queue; what *chunks* raises undoes it.

        Raises ImportConflict, CannotMove and NoSuchFlavor.
        """
        driver = await store_of(self._driver, project, queue, make=True, flavor=flavor)
        queue_import = QueueImport(transfer_of(driver, "the target", queue), project, queue)
        obstacle = await queue_import.begin()
        if obstacle is not None:
            raise ImportConflict(f"meanwhile {obstacle.value}")
        try:
            async for chunk in chunks:
                await queue_import.add(chunk)
        except (Exception, asyncio.CancelledError):
            with contextlib.suppress(errors.Unavailable):  # else the next import does it
                if await queue_import.abort() and isinstance(self._driver, PooledDriver):
                    await self._driver.control.catalogue.deleted(project, queue)
            raise
        await queue_import.commit()
