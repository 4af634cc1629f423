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
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from zaqar_redis import clock, errors
from zaqar_redis.records import RawClaim
from zaqar_redis.spark import data_loss, decode, offsets, partitions
from zaqar_redis.spark.decode import MessageSource
from zaqar_redis.spark.group_lease import GroupLease
from zaqar_redis.spark.idle_poll import IdlePoll
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.selection import QueueSelection, QueueSnapshot
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.stream_reader import StreamReader
from zaqar_redis.storage.redis.bulk import range_reader
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges
from zaqar_redis.storage.redis.queues import RedisQueues

LOG = logging.getLogger(__name__)

#: Messages of a claim: a few milliseconds of Redis' time to create or to end it.
_CLAIM_MESSAGES = 1000
#: Messages of a batch when no option limits it: the offset, which names the claims, then
#: has some 4000 characters.
_BATCH_MESSAGES = 100_000
#: Options without a meaning when messages are claimed: the queue decides which come next.
_UNSUPPORTED_OPTIONS = (
    "startingOffsets",
    "startingTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeExpired",
)


@dataclass
class ClaimPartition(InputPartition):
    """Some claims of one queue."""

    queue: str
    #: claim id, and the number of its messages
    claims: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class ClaimEnded(Exception):
    """A claim has ended, or lost messages, since its batch was planned."""


class ClaimReader(StreamReader["_ClaimPlanner"]):
    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        """Raises BadConfiguration."""
        if options["group"] is None:
            raise errors.BadConfiguration('option "group" must be given with consume=claim')
        super().__init__(config, options, _UNSUPPORTED_OPTIONS)
        self._columns = columns

    def begin(self) -> _ClaimPlanner:
        planner = _ClaimPlanner(self._options, StoreConnections(self._config))
        planner.begin()
        return planner

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        claims = cast(ClaimPartition, partition)
        with StoreConnections(self._config) as stores:
            for claim, count in claims.claims:
                yield _batch(stores, self._columns, claims, claim, count)

    def commit(self, end: Offset) -> None:
        self.planner.acknowledge(end)


def _batch(
    stores: StoreConnections,
    columns: tuple[str, ...],
    partition: ClaimPartition,
    claim: str,
    count: int,
) -> pa.RecordBatch:
    """Returns the messages of a claim.  Raises ClaimEnded unless all *count* exist."""
    project, queue = stores.config.project, partition.queue

    def fetch(location: StoreLocation) -> tuple[StoreLocation, RawClaim | None]:
        ranges = RedisRanges(stores.client(location.uri), clock.store)
        return location, ranges.raw_claim(project, queue, claim).run()

    location, held = stores.with_retry(queue, fetch)
    if held is None or len(held.ranks) != count:
        raise ClaimEnded(
            f'a claim of {count} messages of the queue "{queue}" has ended before its batch was '
            "read; start the query again: its messages come back, or are claimed again"
        )
    source = MessageSource(project, queue, location.pool, held.epoch)
    held_until = [float(held.until)] * count
    found = decode.rows(source, list(map(int, held.ranks)), held.envelopes, held.holds, held_until)
    return decode.batch(source, columns, found, held.now)


class _ClaimPlanner:
    """Claims the batches that Spark reads, and deletes those that it has committed."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        self._options = options
        self._stores = stores
        self._project = stores.config.project
        self._ttl, self._grace = int(options["claimTtl"]), int(options["claimGrace"])
        self._selection = QueueSelection(options, stores)
        self._idle_poll = IdlePoll(stores, options["maxWait"])
        self._group_lease = GroupLease(stores.config, options["group"], self._ttl, self._grace)
        #: with AvailableNow: by queue, the rank to stop before
        self._frozen: dict[str, int] | None = None
        self._idle: Offset | None = None
        #: claims of the last batch that was acknowledged
        self._ended: set[str] = set()
        #: by queue, its epoch as last reported
        self._epochs: dict[str, str] = {}
        #: queues that do not exist, already reported
        self._missing_queues: set[str] = set()

    def begin(self) -> None:
        self._group_lease.begin()

    def close(self) -> None:
        self._group_lease.end()
        self._idle_poll.close()
        self._stores.close()

    def initial(self) -> Offset:
        return offsets.sorted_(
            {
                self._key(snapshot.queue): _entry(snapshot.watermarks.epoch, 0, [])
                for snapshot in self._selection.snapshots()
            }
        )

    def freeze(self) -> None:
        self._frozen = {}
        for queue in self._selection.names():
            snapshot = self._selection.snapshot(queue)
            if snapshot is not None:
                self._stores.with_retry(queue, partial(self._sweep, queue))
                self._frozen[queue] = snapshot.watermarks.next_rank

    def _sweep(self, queue: str, location: StoreLocation) -> None:
        """Count messages whose claim or delay has ended as claimable."""
        queues = RedisQueues(self._stores.client(location.uri), clock.store)
        while queues.sweep(self._project, queue).run():
            pass

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Claims the next batch.  Raises group_lease.GroupTaken."""
        self._group_lease.begin()
        self.acknowledge(start)
        deadline = self._idle_poll.deadline()
        if start == self._idle and self._frozen is None and not self._idle_poll.wait(deadline):
            return start
        while True:
            found = self._fetch_snapshots(start)
            self._idle_poll.polled(found)
            end = self._claim_batch(start, found, limit)
            if end != start:
                self._idle = None
                return end
            self._idle = start
            if self._frozen is not None or time.monotonic() >= deadline:
                return start
            if not self._idle_poll.wait(deadline):
                return start

    def _fetch_snapshots(self, start: Offset) -> list[QueueSnapshot]:
        """Returns what queues hold.  Raises data_loss.DataLoss when one was deleted."""
        found = []
        for queue in self._selection.names():
            snapshot = self._selection.snapshot(queue)
            if snapshot is not None:
                found.append(snapshot)
            elif (before := start.get(self._key(queue))) and queue not in self._missing_queues:
                data_loss.queue_deleted(queue, before["epoch"], 0, self._options["failOnDataLoss"])
                self._missing_queues.add(queue)
        self._missing_queues.difference_update(snapshot.queue for snapshot in found)
        return found

    def _claim_batch(
        self, start: Offset, found: Sequence[QueueSnapshot], limit: ReadLimit
    ) -> Offset:
        for snapshot in found:
            self._check(snapshot, start.get(self._key(snapshot.queue)))
        queues = [snapshot for snapshot in found if snapshot.watermarks.count]
        left = self._rows(limit, queues)
        claims: dict[str, list[tuple[str, int]]] = {}
        # In turn, so that no queue starves behind a long one.
        while queues and left > 0:
            for snapshot in tuple(queues):
                claimed = self._claim(snapshot, min(left, _CLAIM_MESSAGES))
                if claimed is None:
                    queues.remove(snapshot)
                    continue
                claims.setdefault(snapshot.queue, []).append(claimed)
                left -= claimed[1]
                if left <= 0:
                    break
        epochs = {snapshot.queue: snapshot.watermarks.epoch for snapshot in found}
        new = {
            self._key(queue): _entry(
                epochs[queue], start.get(self._key(queue), {"offset": 0})["offset"] + 1, taken
            )
            | {"parts": self._parts(taken)}
            for queue, taken in claims.items()
        }
        return offsets.sorted_(start | new)

    def _check(self, snapshot: QueueSnapshot, before: QueueOffset | None) -> None:
        """Raises data_loss.DataLoss when the queue has another epoch than before."""
        if before is None:
            return
        if self._epochs.get(snapshot.queue, before["epoch"]) != snapshot.watermarks.epoch:
            fail = self._options["failOnDataLoss"]
            data_loss.resume_rank(snapshot.queue, before["epoch"], 0, snapshot.watermarks, fail)
        self._epochs[snapshot.queue] = snapshot.watermarks.epoch

    def _claim(self, snapshot: QueueSnapshot, limit: int) -> tuple[str, int] | None:
        """Returns a claim id and the number of its messages; None: there is nothing to claim."""
        if self._frozen is not None:
            limit = min(limit, self._left(snapshot, self._frozen.get(snapshot.queue, 0)))
        if limit <= 0:
            return None
        taken = self._stores.with_retry(
            snapshot.queue,
            lambda location: (
                self._stores.claims(location)
                .create(
                    self._project, snapshot.queue, ttl=self._ttl, grace=self._grace, limit=limit
                )
                .run()
            ),
        )
        if taken.claim_id is None:
            return None
        self._group_lease.add(snapshot.queue, taken.claim_id)
        return taken.claim_id, len(taken.messages)

    def _left(self, snapshot: QueueSnapshot, before: int) -> int:
        """Returns how many claimable messages are older than AvailableNow's start."""
        client = self._stores.client(snapshot.location.uri)
        return range_reader.count_claimable(client, self._project, snapshot.queue, before)

    def _rows(self, limit: ReadLimit, queues: Sequence[QueueSnapshot]) -> int:
        match limit:
            case ReadMaxRows(rows):
                return rows
            case ReadMaxBytes(size):
                found = [snapshot.watermarks for snapshot in queues]
                weight = sum(watermarks.size * watermarks.count for watermarks in found)
                return (
                    max(1, size * sum(watermarks.count for watermarks in found) // weight)
                    if weight
                    else _BATCH_MESSAGES
                )
            case _:
                return _BATCH_MESSAGES

    def acknowledge(self, offset: Offset) -> None:
        """Deletes the messages of the batch that ends here.  Idempotent."""
        ended = set()
        for key, entry in offset.items():
            for claim, _ in _claims(entry):
                if claim not in self._ended:
                    self._consume(offsets.queue_of(key), claim)
                ended.add(claim)
        self._ended = ended

    def _consume(self, queue: str, claim: str) -> None:
        self._stores.with_retry(
            queue,
            lambda location: (
                self._stores.claims(location).consume(self._project, queue, claim).run()
            ),
        )
        self._group_lease.drop(claim)

    def partitions(self, start: Offset, end: Offset) -> Sequence[ClaimPartition]:
        changed = {key: entry for key, entry in end.items() if entry != start.get(key)}
        if not self._is_batch_alive(changed):
            return []
        planned = []
        for key, entry in changed.items():
            claims = _claims(entry)
            parts = entry["parts"]
            for part in range(parts):
                share = tuple(
                    claims[len(claims) * part // parts : len(claims) * (part + 1) // parts]
                )
                if share:
                    planned.append(ClaimPartition(offsets.queue_of(key), share))
        return planned

    def _parts(self, claims: Sequence[tuple[str, int]]) -> int:
        return partitions.partition_count(
            sum(count for _, count in claims),
            partitions.min_partitions(self._options),
            self._options["maxRecordsPerPartition"],
        )

    def _is_batch_alive(self, changed: Offset) -> bool:
        """Returns whether every claim of the batch is alive; if not, releases all of them."""
        claims = [
            (offsets.queue_of(key), *claim)
            for key, entry in changed.items()
            for claim in _claims(entry)
        ]
        if all(self._is_alive(*claim) for claim in claims):
            return True
        LOG.warning(
            "claims of an unfinished batch have ended; its messages will be claimed again",
            extra={"action": "batch_given_back"},
        )
        for queue, claim, _ in claims:
            self._release(queue, claim)
        return False

    def _is_alive(self, queue: str, claim: str, count: int) -> bool:
        if self._group_lease.has(claim):
            return True

        def renewed(location: StoreLocation) -> bool:
            claims = self._stores.claims(location)
            if not claims.update(
                self._project, queue, claim, ttl=self._ttl, grace=self._grace
            ).run():
                return False
            held = claims.get(self._project, queue, claim).run()
            return held is not None and len(held.messages) == count

        alive = self._stores.with_retry(queue, renewed)
        if alive:
            self._group_lease.add(queue, claim)
        return alive

    def _release(self, queue: str, claim: str) -> None:
        self._stores.with_retry(
            queue,
            lambda location: (
                self._stores.claims(location).delete(self._project, queue, claim).run()
            ),
        )
        self._group_lease.drop(claim)

    def _key(self, queue: str) -> str:
        return offsets.key(self._project, queue)


def _entry(epoch: str, number: int, claims: Sequence[tuple[str, int]]) -> QueueOffset:
    named = " ".join(f"{claim}:{count}" for claim, count in claims)
    return {"epoch": epoch, "offset": number} | ({"claims": named} if named else {})


def _claims(entry: QueueOffset) -> list[tuple[str, int]]:
    pairs = (word.split(":") for word in entry.get("claims", "").split())
    return [(claim, int(count)) for claim, count in pairs]
