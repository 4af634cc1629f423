# SPDX-License-Identifier: Apache-2.0
"""The copy of a queue from one store to another, without move locks and records.

Messages are copied while the queue is in use, which takes long; then, while it is frozen,
the present state of each, and what is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from zaqar_redis.keyspace.script import Steps, Verb
from zaqar_redis.storage.transfer import Transfer, TransferTarget

#: Copies messages while the queue is in use: called with project, queue, the token of the move
#: lock in the target, source and target.  Returns the rank up to which every message was
#: copied; later ones may not be.
CopyLive = Callable[[str, str, str, Transfer, TransferTarget], Awaitable[int]]
#: Compares a frozen queue with its copy, before the copy is relied upon: called with project,
#: queue and the result of `CopyLive`.  Raises CannotMove when they differ.
VerifyCopy = Callable[[str, str, int], Awaitable[None]]


def copy_messages(
    project: str,
    queue: str,
    token: str,
    source: Transfer,
    target: TransferTarget,
    *,
    on_page: Callable[[int], None] = lambda messages: None,
) -> Verb[int]:
    """Copies page by page, as a `CopyLive`; the last, short page is left to `copy_frozen`.

    *on_page* is called with the number of messages of each page that was copied.
    """
    return Verb(None, _copy_pages(project, queue, token, source, target, on_page))


def _copy_pages(
    project: str,
    queue: str,
    token: str,
    source: Transfer,
    target: TransferTarget,
    on_page: Callable[[int], None],
) -> Steps[int]:
    after = 0
    chunk = yield source.export_messages(project, queue, after)
    while chunk.next_cursor is not None:
        after = int(chunk.next_cursor)
        messages = len(chunk.items) // 2  # rank and envelope of each
        # Read the next chunk while this one is written: both stores work.
        _, chunk = yield [
            target.import_chunk(project, queue, token, chunk),
            source.export_messages(project, queue, after),
        ]
        on_page(messages)
    return after


def copy_frozen(
    project: str,
    queue: str,
    copied_rank: int,
    source: tuple[Transfer, str],
    target: tuple[TransferTarget, str],
) -> Steps[int]:
    """Copies what is left after *copied_rank*; returns how many messages the queue has.

    *source* and *target* come with the tokens of their move locks.
    """
    outgoing, out_token = source
    incoming, into_token = target
    count = 0
    chunk = yield outgoing.export_frozen(project, queue, out_token, copied_rank, "")
    while chunk.next_cursor is not None:
        count += len(chunk.items) // 6 if chunk.kind == "index" else 0
        _, chunk = yield [
            incoming.import_chunk(project, queue, into_token, chunk),
            outgoing.export_frozen(project, queue, out_token, copied_rank, chunk.next_cursor),
        ]
    yield incoming.import_chunk(project, queue, into_token, chunk)
    return count
