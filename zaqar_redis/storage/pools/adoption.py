# SPDX-License-Identifier: Apache-2.0
"""The mark of a store that names its installation: the services over one control store.

A store of another installation, or with queues that this catalogue does not have, becomes
a pool only when it is adopted: otherwise its queues would be found by no service, or by two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from zaqar_redis import errors
from zaqar_redis.pool_records import Pool
from zaqar_redis.storage.contract import Driver, Ownership
from zaqar_redis.storage.control import DEFAULT_POOL, Control
from zaqar_redis.storage.formats import check_format, use_format
from zaqar_redis.storage.pools.pool_stores import exists, opened


class StoreAdoption:
    def __init__(
        self, default: Driver, control: Control, open_pool: Callable[[Pool], Driver]
    ) -> None:
        self._default = default
        self._control = control
        self._open_pool = open_pool

    async def mark_default(self, adopt: bool = False) -> bool:
        """Marks the default pool; returns False, unless *adopt*, when it is another's.

        Raises StoreUnavailable when it or the control store does not answer.
        """
        ownership = self._default.ownership
        if ownership is None:
            return True
        installation = await self._control.installation()
        owner = None if adopt else await ownership.get()
        if owner is None:
            await ownership.put(installation)
        return owner in (None, installation)

    async def check(self, pool: Pool, adopt: bool) -> None:
        """Raises StoreOwned, unless *adopt*, and Conflict when another pool has a queue of it.

        Raises FormatTooNew.
        """
        async with opened(self._open_pool, pool) as driver:
            ownership = driver.ownership
            if ownership is None:
                return
            await check_format(ownership.format, pool.name)
            owner = await ownership.get()
            if owner == await self._control.installation():
                return
            if owner is not None and not adopt:
                raise errors.StoreOwned(whose="that belongs to another installation")
            async for project, queue, other in self._unknown(driver, ownership, pool):
                named = f'queue "{queue}" of project "{project}"'
                if other is not None:
                    raise errors.Conflict(
                        why=f"The {named} is in the store of this URI, and in the pool "
                        f'"{other}" too; delete one of the two, or move it there under '
                        "another name."
                    )
                if not adopt:
                    raise errors.StoreOwned(
                        whose=f"with queues that are in no pool here, as the {named}"
                    )

    async def take(self, pool: Pool) -> None:
        """Marks the store of a pool, and enters its queues in the catalogue.  Idempotent."""
        async with opened(self._open_pool, pool) as driver:
            ownership = driver.ownership
            if ownership is None:
                return
            await ownership.put(await self._control.installation())
            needs = (await self._control.format.get()).needs
            await use_format(ownership.format, pool.name, needs)
            async for project, queue, other in self._unknown(driver, ownership, pool):
                if other is None:
                    await self._assign(project, queue, pool.name)

    async def drop(self, pool: Pool) -> None:
        """Removes the mark from the store of a deleted pool, if it answers."""
        with contextlib.suppress(errors.Unavailable, errors.BadConfiguration):
            async with opened(self._open_pool, pool) as driver:
                ownership = driver.ownership
                if ownership and await ownership.get() == await self._control.installation():
                    await ownership.drop()

    async def _assign(self, project: str, queue: str, pool: str) -> None:
        placed = None
        while placed is None:  # pools are being changed by others
            version = (await self._control.pools.list()).version
            placed = await self._control.catalogue.assign(project, queue, pool, version)

    async def _unknown(
        self, driver: Driver, ownership: Ownership, pool: Pool
    ) -> AsyncIterator[tuple[str, str, str | None]]:
        """Yields queues of a store that are not in its pool: project, name, their pool."""
        locate = self._control.catalogue.locate
        async for project, names in ownership.content():
            located = await asyncio.gather(*(locate(project, name) for name in names))
            for name, found in zip(names, located, strict=True):
                if found.pool == pool.name or not await exists(driver, project, name):
                    continue
                # The default pool may have queues that are older than the catalogue.
                at_default = not found.pool and await exists(self._default, project, name)
                yield project, name, DEFAULT_POOL if at_default else found.pool
