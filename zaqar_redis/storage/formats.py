# SPDX-License-Identifier: Apache-2.0
"""The format of a store: a service checks it, and raises it, when it first uses the store."""

from __future__ import annotations

from zaqar_redis import errors
from zaqar_redis.formats import CURRENT, StoreFormat
from zaqar_redis.storage.contract import FormatMark


async def check_format(mark: FormatMark, store: str) -> StoreFormat:
    """Returns the format of a store.

    Raises FormatTooNew when this release cannot work on it, and StoreUnavailable.
    """
    found = await mark.get()
    if found.needs > CURRENT.version:
        raise errors.FormatTooNew(
            store=store, version=found.version, needs=found.needs, known=CURRENT.version
        )
    return found


async def use_format(mark: FormatMark, store: str, needs: int = 1) -> None:
    """Marks a store as used by this release, so that releases must know *needs* at least.

    With 1, older ones can go on as before.  Raises FormatTooNew, StoreUnavailable.
    """
    found = await check_format(mark, store)
    if found.version < CURRENT.version or found.needs < needs:
        await mark.raise_to(CURRENT.version, needs)
