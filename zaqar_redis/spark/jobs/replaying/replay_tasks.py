# SPDX-License-Identifier: Apache-2.0
"""The tasks of a replay.

The messages of a target come to one task, in order, and are split into chunks that are
the same at each try: the ledger of the target records which of them were written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from zaqar_redis import clock, errors
from zaqar_redis.rate_limiter import RateLimiter
from zaqar_redis.spark import queue_restore
from zaqar_redis.spark.jobs import tasks
from zaqar_redis.spark.jobs.tasks import OutcomeCounts
from zaqar_redis.spark.queue_restore import RestoreCommitMessage, RestorePlan
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.spark.writing import archived, rows
from zaqar_redis.spark.writing.archived import ArchivedMessage
from zaqar_redis.storage.redis.bulk.ledger import BatchDigest, ChunkMismatch, RedisLedger

#: Outcomes of a message.
WRITTEN, ALREADY_THERE, DUPLICATE = "written", "already there", "twice in the archive"


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
            # A target comes once, all of its messages together.
            for name, found in groupby(self._messages(batches), itemgetter(0)):
                target = _TargetQueue(self, stores, name, counts, advance)
                for chunk in tasks.chunks(target.distinct(found)):
                    target.post(chunk)
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

    def __post_init__(self) -> None:
        self._pace = RateLimiter(self.replay.rates.get(self.queue))

    def distinct(
        self, found: Iterable[tuple[str, int, ArchivedMessage]]
    ) -> Iterator[ArchivedMessage]:
        """Yields the messages of this target, each of them once."""
        last = None
        for _, queue_epoch, message in found:
            if (queue_epoch, message.rank) == last:
                self.counts[self.queue, DUPLICATE] += 1
                self.advance(1)
                continue
            last = queue_epoch, message.rank
            yield message

    def post(self, chunk: Sequence[ArchivedMessage]) -> None:
        self._pace.wait()
        ttl = self.replay.ttl
        parts = [(each.ttl if ttl is None else ttl, each.delay, each.tail) for each in chunk]
        new = self._with_retry(partial(self._post, chunk, parts, self._digest.add(parts)))
        self.counts[self.queue, WRITTEN if new else ALREADY_THERE] += len(chunk)
        self.advance(len(chunk))
        if new:
            self._pace.advance(len(chunk))
        self._number += 1

    def _with_retry(self, post: Callable[[StoreLocation], bool]) -> bool:
        try:
            return self.stores.with_retry(self.queue, post, make=True)
        except ChunkMismatch as error:
            raise rows.BadRow(
                f'messages for the queue "{self.queue}" differ from those of the first replay with '
                "this --write-id; nothing was written: archive, filters and --ttl must be the same"
            ) from error
        except (errors.EncryptionRequired, errors.PostRefused) as error:
            raise rows.refused(self.queue, error) from error

    def _post(
        self,
        chunk: Sequence[ArchivedMessage],
        parts: Sequence[rows.EncodedMessage],
        digest: str,
        location: StoreLocation,
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
            size=max(each.size for each in chunk),
            default_ttl=rows.DEFAULT_TTL,
            encrypted=all(each.encrypted for each in chunk),
        ).run()


def restore(plan: RestorePlan, batches: Iterator[pa.RecordBatch]) -> RestoreCommitMessage:
    """Restores the rows of a task.  Raises rows.BadRow, StoreUnavailable."""

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            advance(batch.num_rows)

    with report_progress() as advance:
        return queue_restore.write(plan, counted())
