# SPDX-License-Identifier: Apache-2.0
"""The copy of a queue from one store to another, without move locks and records.

Messages are copied while the queue is in use, which takes long; then, while it is frozen,
the present state of each, and what is new.
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
        """Returns the rank up to which every message was copied; later ones may not be."""


class VerifyCopy(Protocol):
    """Compares a frozen queue with its copy, before the copy is relied upon."""

    async def __call__(self, project: str, queue: str, copied_rank: int) -> None:
        """Raises CannotMove when they differ.  *copied_rank* is the result of `CopyLive`."""


async def skip_verification(project: str, queue: str, copied_rank: int) -> None:
    """Verifies nothing."""


async def copy_messages(
    project: str, queue: str, token: str, here: Transfer, there: Transfer
) -> int:
    """Copies page by page; the last, short page is left to `copy_frozen`."""
    after = 0
    chunk = await here.export_messages(project, queue, after)
    while chunk.next_cursor is not None:
        after = int(chunk.next_cursor)
        # Read the next chunk while this one is written: both stores work.
        _, chunk = await asyncio.gather(
            there.import_chunk(project, queue, token, chunk),
            here.export_messages(project, queue, after),
        )
    return after


async def copy_frozen(
    project: str,
    queue: str,
    copied_rank: int,
    here: tuple[Transfer, str],
    there: tuple[Transfer, str],
) -> int:
    """Copies what is left after `copy_messages` got to *copied_rank*; returns the message count.

    *here* and *there* come with the tokens of their move locks.
    """
    source, source_token = here
    target, target_token = there
    count = 0
    chunk = await source.export_frozen(project, queue, source_token, copied_rank, "")
    while chunk.next_cursor is not None:
        count += len(chunk.items) // 6 if chunk.kind == "index" else 0
        _, chunk = await asyncio.gather(
            target.import_chunk(project, queue, target_token, chunk),
            source.export_frozen(project, queue, source_token, copied_rank, chunk.next_cursor),
        )
    await target.import_chunk(project, queue, target_token, chunk)
    return count
