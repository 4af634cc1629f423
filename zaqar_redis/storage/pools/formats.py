# SPDX-License-Identifier: Apache-2.0
"""The formats of all stores of a driver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.formats import CURRENT, UNMARKED
from zaqar_redis.storage.contract import Driver, FormatMark
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.formats import use_format
from zaqar_redis.storage.pools import PooledDriver


async def use_formats(driver: Driver, *, has_queues: bool = True) -> None:
    """Marks all stores of a driver, pools and the control store too, that answer.

    All need what the first one needs; a new installation needs this release, but not a store
    that is only for channels.  Raises FormatTooNew when this release cannot work on one of them,
    and else Unavailable when one has not answered.
    """
    marks = await _marks(driver)
    needs = UNMARKED.needs
    with contextlib.suppress(errors.Unavailable):
        if has_queues:
            needs = await _needed(driver, [*marks.values()])
    outcomes = await asyncio.gather(
        *(use_format(mark, store, needs) for store, mark in marks.items()), return_exceptions=True
    )
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    for error in sorted(failed, key=lambda each: not isinstance(each, errors.FormatTooNew)):
        raise error


async def _needed(driver: Driver, marks: Sequence[FormatMark]) -> int:
    """Returns what a release must know to work on the stores.  Raises StoreUnavailable."""
    found = await marks[0].get() if marks else UNMARKED
    if found != UNMARKED:
        return min(found.needs, CURRENT.needs)
    stores = [*(await driver.stores()).values()] if isinstance(driver, PooledDriver) else [driver]
    for store in stores:
        if store is None or store.ownership is None:
            return UNMARKED.needs
        async for _ in store.ownership.content():
            return UNMARKED.needs
    return CURRENT.needs  # nobody has used them


async def _marks(driver: Driver) -> dict[str, FormatMark]:
    """Returns the marks of the stores, by their names.  Raises StoreUnavailable."""
    if not isinstance(driver, PooledDriver):
        return {DEFAULT_POOL: driver.ownership.format} if driver.ownership else {}
    stores = await driver.stores()
    found = {"control": driver.control.format}
    for name, store in stores.items():
        if store is not None and store.ownership is not None:
            found[name] = store.ownership.format
    return found
