# SPDX-License-Identifier: Apache-2.0
"""Streaming reads that claim and delete messages: each batch is a few claims.

    {"acme/orders": {"claims": "4f…:1000 9a…:212", "epoch": "9f…", "offset": 8, "parts": 1}}

*offset* counts the batches of the queue, *claims* are those of the batch that ends here,
with the number of messages in each.  Their messages are deleted once the batch is in the
commit log.  Spark reports a commit late or not at all: a request for the batch that follows
is the first certain sign of it.

A batch that is repeated is read from the same claims.  If one of them has ended in
between, other consumers may have its messages, so the whole batch is released: a part
of it would have other rows than the first time, and a sink that counts rows would take
them for rows that it has already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from zaqar_redis import errors
from zaqar_redis.records import Lease
from zaqar_redis.spark import offsets
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.reading import claims, data_loss, partitions
from zaqar_redis.spark.reading.claims import ClaimPartition, CountedClaim, QueueClaims
from zaqar_redis.spark.reading.group_lease import GroupLease
from zaqar_redis.spark.reading.selection import QueueSnapshot
from zaqar_redis.spark.reading.stream_planner import StreamPlanner
from zaqar_redis.spark.reading.stream_reader import StreamReader
from zaqar_redis.spark.stores import StoreConfig, StoreConnections

LOG = logging.getLogger(__name__)

#: Messages of a claim: a few milliseconds of Redis' time to create or to end it.
_CLAIM_MESSAGES = 1000
#: Messages of a batch when no option limits it: the offset, which names the claims, then
#: has some 4000 characters.
_BATCH_MESSAGES = 100_000


class ClaimEnded(Exception):
    """A claim has ended, or lost messages, since its batch was planned."""


class _ClaimPlanner(StreamPlanner):
    """Claims the batches that Spark reads, and deletes those that it has committed."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        """Raises group_lease.GroupTaken."""
        super().__init__(options, stores)
        lease = Lease(int(options["claimTtl"]), int(options["claimGrace"]))
        self._group_lease = GroupLease(stores.config, options["group"], lease)
        self._claims = QueueClaims(stores, self._group_lease)
        #: claims of the last batch that was acknowledged
        self._ended: set[str] = set()
        #: by queue, its epoch as last reported
        self._epochs: dict[str, str] = {}
        self._group_lease.begin()

    def close(self) -> None:
        self._group_lease.end()
        super().close()

    def freeze(self) -> None:
        super().freeze()
        for queue in self._snapshots:
            self._claims.sweep(queue)

    def _first(self, snapshot: QueueSnapshot) -> QueueOffset:
        return _entry(snapshot.watermarks.epoch, 0, [])

    def _rank(self, entry: QueueOffset) -> int:
        return 0  # offsets count batches

    def _behind(self, snapshot: QueueSnapshot, end: QueueOffset | None) -> QueueOffset:
        # The snapshot is older than the claims of the batch.
        claimed = sum(count for claim, count in _claims(end or {}) if claim not in self._ended)
        lag = max(0, snapshot.watermarks.count - claimed)
        return {"epoch": snapshot.watermarks.epoch, "lag": lag}

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Claims the next batch.  Raises group_lease.GroupTaken."""
        self._group_lease.begin()
        self.acknowledge(start)
        return super().latest(start, limit)

    def _next_batch(self, start: Offset, limit: ReadLimit) -> Offset | None:
        for snapshot in self._snapshots.values():
            self._check(snapshot, start.get(self._key(snapshot.queue)))
        messages = {queue: each.watermarks.count for queue, each in self._snapshots.items()}
        rows = self._rows(limit, messages)
        batch = self._claim_in_turn(
            [queue for queue, count in messages.items() if count],
            _BATCH_MESSAGES if rows is None else max(1, int(rows)),
        )
        if not batch:
            return None
        new = {
            self._key(queue): _entry(
                self._snapshots[queue].watermarks.epoch,
                start.get(self._key(queue), {"offset": 0})["offset"] + 1,
                claimed,
            )
            | {"parts": self._parts(claimed)}
            for queue, claimed in batch.items()
        }
        return offsets.sorted_(start | new)

    def _claim_in_turn(self, queues: list[str], left: int) -> dict[str, list[CountedClaim]]:
        """Claims *left* messages, in turn, so that no queue starves behind a long one."""
        batch: dict[str, list[CountedClaim]] = {}
        while queues and left > 0:
            for queue in tuple(queues):
                before = None if self._frozen is None else self._frozen.get(queue, 0)
                claimed = self._claims.create(queue, min(left, _CLAIM_MESSAGES), before)
                if claimed is None:
                    queues.remove(queue)
                    continue
                batch.setdefault(queue, []).append(claimed)
                left -= claimed[1]
                if left <= 0:
                    break
        return batch

    def _check(self, snapshot: QueueSnapshot, before: QueueOffset | None) -> None:
        """Raises data_loss.DataLoss when the queue has another epoch than before."""
        if before is None:
            return
        if self._epochs.get(snapshot.queue, before["epoch"]) != snapshot.watermarks.epoch:
            data_loss.resume_rank(
                snapshot.queue, before["epoch"], 0, snapshot.watermarks, self._fail_on_data_loss
            )
        self._epochs[snapshot.queue] = snapshot.watermarks.epoch

    def acknowledge(self, offset: Offset) -> None:
        """Deletes the messages of the batch that ends here.  Idempotent."""
        ended = set()
        for queue, claim, _ in _all_claims(offset):
            if claim not in self._ended:
                self._claims.consume(queue, claim)
            ended.add(claim)
        self._ended = ended

    def partitions(self, start: Offset, end: Offset) -> Sequence[ClaimPartition]:
        changed = {key: entry for key, entry in end.items() if entry != start.get(key)}
        if not self._is_batch_alive(changed):
            return []
        planned = []
        for key, entry in changed.items():
            claimed, parts = _claims(entry), entry["parts"]
            for part in range(parts):
                share = claimed[len(claimed) * part // parts : len(claimed) * (part + 1) // parts]
                if share:
                    planned.append(ClaimPartition(offsets.queue_of(key), tuple(share)))
        return planned

    def _parts(self, claimed: Sequence[CountedClaim]) -> int:
        return partitions.partition_count(
            sum(count for _, count in claimed),
            partitions.min_partitions(self._options),
            self._options["maxRecordsPerPartition"],
        )

    def _is_batch_alive(self, changed: Offset) -> bool:
        """Returns whether every claim of the batch is alive; if not, releases all of them."""
        if all(self._claims.is_complete(*claim) for claim in _all_claims(changed)):
            return True
        LOG.warning(
            "claims of an unfinished batch have ended; its messages will be claimed again",
            extra={"action": "batch_given_back"},
        )
        for queue, claim, _ in _all_claims(changed):
            self._claims.release(queue, claim)
        return False


class ClaimReader(StreamReader):
    planner_class = _ClaimPlanner
    # The queue decides which messages come next.
    unsupported = (
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "includeExpired",
        "readReplicas",
    )

    @staticmethod
    def knows(entry: QueueOffset) -> bool:
        return "claims" in entry or not entry["offset"]

    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        """Raises BadConfiguration."""
        if options["group"] is None:
            raise errors.BadConfiguration('option "group" must be given with consume=claim')
        super().__init__(config, options, columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the messages of claims.  Raises ClaimEnded unless all of them exist."""
        planned = cast(ClaimPartition, partition)
        with StoreConnections(self._config) as stores:
            for claim, count in planned.claims:
                batch = claims.read(stores, planned.queue, claim, self._columns)
                if batch is None or batch.num_rows != count:
                    raise ClaimEnded(
                        f'a claim of {count} messages of the queue "{planned.queue}" has ended '
                        "before its batch was read; start the query again: its messages come "
                        "back, or are claimed again"
                    )
                yield batch


def _entry(epoch: str, number: int, claimed: Sequence[CountedClaim]) -> QueueOffset:
    named = " ".join(f"{claim}:{count}" for claim, count in claimed)
    return {"epoch": epoch, "offset": number} | ({"claims": named} if named else {})


def _claims(entry: QueueOffset) -> list[CountedClaim]:
    pairs = (word.split(":") for word in entry.get("claims", "").split())
    return [(claim, int(count)) for claim, count in pairs]


def _all_claims(offset: Offset) -> list[tuple[str, str, int]]:
    """Returns queue, claim id and number of messages of all claims."""
    return [
        (offsets.queue_of(key), *claimed)
        for key, entry in offset.items()
        for claimed in _claims(entry)
    ]
