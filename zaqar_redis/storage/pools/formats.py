# SPDX-License-Identifier: Apache-2.0
"""The formats of all stores of a driver."""

from __future__ import annotations

import asyncio
import contextlib

from zaqar_redis import errors
from zaqar_redis.formats import CURRENT, UNMARKED
from zaqar_redis.storage.contract import Driver, FormatMark
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.formats import use_format
from zaqar_redis.storage.pools import PooledDriver


async def use_formats(driver: Driver, *, is_new: bool = False) -> None:
    """Marks all stores of a driver, pools and the control store too, that answer.

    All need what the first one needs, or of a new installation this release.  Raises FormatTooNew
    when this release cannot work on one of them, and else Unavailable when one has not answered.
    """
    marks = await _marks(driver)
    needs = CURRENT.needs if is_new else UNMARKED.needs
    with contextlib.suppress(errors.Unavailable):
        for mark in [*marks.values()][:1]:
            needs = max(needs, min((await mark.get()).needs, CURRENT.needs))
    outcomes = await asyncio.gather(
        *(use_format(mark, store, needs) for store, mark in marks.items()), return_exceptions=True
    )
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    for error in sorted(failed, key=lambda each: not isinstance(each, errors.FormatTooNew)):
        raise error


async def is_new(driver: Driver) -> bool:
    """Returns whether no release has worked on the stores: before this one assigns them to itself.

    Raises StoreUnavailable.
    """
    if any([await mark.get() != UNMARKED for mark in (await _marks(driver)).values()]):
        return False
    stores = [*(await driver.stores()).values()] if isinstance(driver, PooledDriver) else [driver]
    for store in stores:
        if store is None or store.ownership is None or await store.ownership.get() is not None:
            return False
        async for _ in store.ownership.content():
            return False
    return True


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
