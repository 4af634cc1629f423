# SPDX-License-Identifier: Apache-2.0
"""A task of migrate: copies a range of ranks from one Redis to another.

A second run writes the same messages with the same content, so a task may run twice; the
target refuses a task that comes too late, when the queue is frozen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zaqar_redis.keyspace import blocking, keys
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage.redis.bulk.range_reader import RangeFields, RangeReader, RawPage
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: Messages in one round trip: a few milliseconds of Redis' time, as for the service's mover.
_PAGE = 1000
#: Connections of a task: it does one thing at a time.
_CONNECTIONS = 1
#: Bytes of a checksum, which is to find faults, not forgery.
_DIGEST = 8


class CopyMismatch(Exception):
    """The target holds other messages than were written to it."""


@dataclass(frozen=True)
class CopyRange:
    """Source and target of a copy; serialized to tasks."""

    project: str
    queue: str
    epoch: str
    #: of the move lock at the target
    token: str
    source: str
    target: str
    #: seconds for an answer
    timeout: float


@dataclass(frozen=True)
class CopyResult:
    """The result of copying a range."""

    messages: int
    #: of ranks and envelopes, equal in source and target
    checksum: str


def copy(copy_range: CopyRange, start: int, end: int) -> CopyResult:
    """Copies the messages from the rank *start* to before *end*, and reads them back.

    Raises EpochChanged when the queue has another epoch now, MoveLocked when the move was
    abandoned, StoreUnavailable, and CopyMismatch.
    """
    settings = BatchSettings(timeout=copy_range.timeout)
    source = blocking.client(copy_range.source, settings, _CONNECTIONS)
    target = blocking.client(copy_range.target, settings, _CONNECTIONS)
    try:
        with report_progress() as advance:
            return _copied(copy_range, source, target, start, end, advance)
    finally:
        source.close()
        target.close()


def _copied(
    copy_range: CopyRange,
    source: BlockingClient,
    target: BlockingClient,
    start: int,
    end: int,
    advance: Callable[[int], None],
) -> CopyResult:
    reader = RangeReader(source, copy_range.project, copy_range.queue, copy_range.epoch)
    transfer = RedisTransfer(target)
    bodies = keys.of_queue(copy_range.project, copy_range.queue).bodies
    given, found = (hashlib.blake2b(digest_size=_DIGEST) for _ in range(2))
    messages = 0
    for page in reader.pages(start, end, _PAGE, RangeFields()):
        ranks, items = _items(page)
        if not ranks:
            continue
        chunk = TransferChunk(kind="messages", items=items)
        transfer.import_chunk(copy_range.project, copy_range.queue, copy_range.token, chunk).run()
        stored = target.command("HMGET", bodies, *ranks)
        given.update(_flat(ranks, items[1::2]))
        found.update(_flat(ranks, stored))
        messages += len(ranks)
        advance(len(ranks))
    if given.digest() != found.digest():
        raise CopyMismatch(f"the copy of the messages {start} to {end - 1} differs from them")
    return CopyResult(messages, given.hexdigest())


def _items(page: RawPage) -> tuple[list[int], list[int | bytes]]:
    """Returns ranks, and rank and envelope, of the messages that still exist."""
    ranks: list[int] = []
    items: list[int | bytes] = []
    for rank, envelope in zip(page.ranks, page.envelopes, strict=True):
        if envelope is not None:
            ranks.append(rank)
            items += (rank, envelope)
    return ranks, items


def _flat(ranks: Sequence[int], envelopes: Sequence[int | bytes | None]) -> bytes:
    """Returns the input of a checksum: different contents give different bytes."""
    texts = [envelope if isinstance(envelope, bytes) else b"" for envelope in envelopes]
    sizes = ",".join(
        f"{rank}:{len(text)}" for rank, text in zip(ranks, texts, strict=True)
    ).encode()
    return b"".join([sizes, b";", *texts])
