# SPDX-License-Identifier: Apache-2.0
"""The tasks of a replay.

The messages of a target come to one task, in order, and are split into chunks that are
the same at each try: the ledger of the target records which of them were written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from zaqar_redis import clock
from zaqar_redis.spark import archived, queue_restore, rows
from zaqar_redis.spark.archived import ArchivedMessage
from zaqar_redis.spark.jobs.tasks import OutcomeCounts, RateLimiter
from zaqar_redis.spark.queue_restore import RestoreCommitMessage, RestorePlan
from zaqar_redis.spark.sink import DEFAULT_TTL
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage.contract import EncryptionRequired
from zaqar_redis.storage.redis.bulk.ledger import BatchDigest, ChunkMismatch, RedisLedger

#: Outcomes of a message.
WRITTEN, ALREADY_THERE, DUPLICATE = "written", "already there", "twice in the archive"

#: Messages of a chunk.  A constant, so that a retry at another rate has the same chunks;
#: larger ones would make the rate bursty, smaller ones cost more round trips.
CHUNK = 200
#: Bytes of a chunk.
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ReplayTask:
    """Posts the rows of a task; serialized to tasks."""

    config: StoreConfig
    #: name of the entry in the ledgers
    name: str
    #: 16 bytes of the client id, where the archive has none
    client: bytes
    #: seconds; None: each message its own
    ttl: int | None
    #: by target, messages a second; a missing target has no limit
    rates: Mapping[str, float]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> OutcomeCounts:
        """Writes the rows of a task, which are sorted by epoch and rank.

        Raises rows.BadRow, StoreUnavailable, BadRequest.
        """
        counts: OutcomeCounts = Counter()
        with StoreConnections(self.config) as stores, report_progress() as advance:
            target: _TargetQueue | None = None
            last = None
            for name, queue_epoch, message in self._messages(batches):
                if (queue_epoch, message.rank) == last:
                    counts[name, DUPLICATE] += 1
                    advance(1)
                    continue
                last = queue_epoch, message.rank
                if target is None or target.queue != name:
                    if target is not None:
                        target.flush()
                    target = _TargetQueue(self, stores, name, counts, advance)
                target.add(message)
            if target is not None:
                target.flush()
        return counts

    def _messages(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[str, int, ArchivedMessage]]:
        for batch in batches:
            targets = batch.column("target").to_pylist()
            epochs = batch.column("epoch_number").to_pylist()
            found = archived.messages(batch, self.client)
            yield from zip(targets, epochs, found, strict=True)


@dataclass
class _TargetQueue:
    replay: ReplayTask
    stores: StoreConnections
    queue: str
    counts: OutcomeCounts
    #: called with the number of messages done
    advance: Callable[[int], None]
    _number: int = 0
    _digest: BatchDigest = field(default_factory=BatchDigest)
    _chunk: list[ArchivedMessage] = field(default_factory=list)
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._pace = RateLimiter(self.replay.rates.get(self.queue))

    def add(self, message: ArchivedMessage) -> None:
        full = len(self._chunk) == CHUNK or self._bytes + message.size > _CHUNK_BYTES
        if self._chunk and full:
            self.flush()
        self._chunk.append(message)
        self._bytes += message.size

    def flush(self) -> None:
        if not self._chunk:
            return
        self._pace.wait()
        ttl = self.replay.ttl
        parts = [(each.ttl if ttl is None else ttl, each.delay, each.tail) for each in self._chunk]
        new = self._with_retry(partial(self._post, parts, self._digest.add(parts)))
        count = len(self._chunk)
        self.counts[self.queue, WRITTEN if new else ALREADY_THERE] += count
        self.advance(count)
        if new:
            self._pace.advance(count)
        self._number += 1
        self._chunk, self._bytes = [], 0

    def _with_retry(self, post: Callable[[StoreLocation], bool]) -> bool:
        try:
            return self.stores.with_retry(self.queue, post, make=True)
        except ChunkMismatch as error:
            raise rows.BadRow(
                f'messages for the queue "{self.queue}" differ from those of the first replay with '
                "this --write-id; nothing was written: archive, filters and --ttl must be the same"
            ) from error
        except EncryptionRequired as error:
            raise rows.needs_encryption(self.queue) from error

    def _post(
        self, parts: Sequence[rows.EncodedMessage], digest: str, location: StoreLocation
    ) -> bool:
        ledger = RedisLedger(self.stores.client(location.uri), clock.store)
        return ledger.post(
            self.replay.config.project,
            self.queue,
            parts,
            name=self.replay.name,
            batch=0,
            chunk=self._number,
            digest=digest,
            size=max(each.size for each in self._chunk),
            default_ttl=DEFAULT_TTL,
            encrypted=all(each.encrypted for each in self._chunk),
        ).run()


@dataclass(frozen=True)
class RestoreTask:
    """Restores the rows of a task; serialized to tasks."""

    restore: RestorePlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> RestoreCommitMessage:
        """Raises rows.BadRow, StoreUnavailable."""
        with report_progress() as advance:
            return queue_restore.write(self.restore, _with_progress(batches, advance))


def _with_progress(
    batches: Iterator[pa.RecordBatch], advance: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        advance(batch.num_rows)
