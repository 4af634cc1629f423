# SPDX-License-Identifier: Apache-2.0
"""How a queue gets from one store to another, gates and records aside.

Messages are copied while the queue is in use, which takes long; then, frozen, what has
become of each, and what is new.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from zaqar_redis.storage.transfer import Transfer


class CopyLive(Protocol):
    """Copies messages while the queue is in use."""

    async def __call__(
        self, project: str, queue: str, token: str, here: Transfer, there: Transfer
    ) -> int:
        """The rank up to which every message was copied; what is behind it may not be."""


class Verify(Protocol):
    """Looks at a frozen queue and its copy, before that is relied upon."""

    async def __call__(self, project: str, queue: str, staged: int) -> None:
        """*staged* is what `CopyLive` gave.  Raises CannotMove when they differ."""


async def trust(project: str, queue: str, staged: int) -> None:
    """Verify nothing."""


async def copy_live(project: str, queue: str, token: str, here: Transfer, there: Transfer) -> int:
    """Page by page; the last page is short, and comes with the rest."""
    after = 0
    portion = await here.live(project, queue, after)
    while portion.following is not None:
        after = int(portion.following)
        # The next is read while this one is written: two stores at work.
        _, portion = await asyncio.gather(
            there.take_in(project, queue, token, portion), here.live(project, queue, after)
        )
    return after


async def copy_frozen(
    project: str,
    queue: str,
    staged: int,
    here: tuple[Transfer, str],
    there: tuple[Transfer, str],
) -> int:
    """All that `copy_live` has left, up to the rank *staged*; how many messages there were.

    *here* and *there* come with the tokens of their gates.
    """
    source, leaving = here
    target, coming = there
    count = 0
    portion = await source.frozen(project, queue, leaving, staged, "")
    while portion.following is not None:
        count += len(portion.items) // 6 if portion.kind == "index" else 0
        _, portion = await asyncio.gather(
            target.take_in(project, queue, coming, portion),
            source.frozen(project, queue, leaving, staged, portion.following),
        )
    await target.take_in(project, queue, coming, portion)
    return count
