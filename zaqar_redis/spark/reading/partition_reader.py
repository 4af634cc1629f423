# SPDX-License-Identifier: Apache-2.0
"""A task of a read: ranks of a queue in, Arrow batches out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from zaqar_redis import errors
from zaqar_redis.spark.reading import data_loss, decode
from zaqar_redis.spark.reading.decode import MessageSource
from zaqar_redis.spark.reading.partitions import RangePartition
from zaqar_redis.spark.reading.selection import snapshot_of
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.task import gc_disabled
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage.redis.bulk.range_reader import (
    EpochChanged,
    RangeFields,
    RangeReader,
    RawPage,
)

LOG = logging.getLogger(__name__)

#: Failures of a store in a row, though it answers the look-ups between: another fault.
_MAX_FAILURES = 10
_CLAIM_COLUMNS = frozenset({"claim_id", "claim_expires", "claim_count"})


@dataclass(frozen=True)
class ReadSpec:
    """Which messages a read includes, and which columns."""

    columns: tuple[str, ...]
    #: messages in a round trip, and rows in a batch
    size: int
    include_expired: bool
    include_claimed: bool = True
    include_delayed: bool = True
    fail_on_data_loss: bool = True

    @property
    def content(self) -> RangeFields:
        return RangeFields(
            holds=not self.include_claimed or not _CLAIM_COLUMNS.isdisjoint(self.columns),
            delays=not self.include_delayed,
        )


def read(
    config: StoreConfig, read_spec: ReadSpec, partition: RangePartition
) -> Iterator[pa.RecordBatch]:
    """Yields the messages of a range, in order of rank.

    Raises data_loss.DataLoss when the queue no longer has the epoch that was planned, and
    StoreUnavailable when its store stays unreachable.
    """
    with StoreConnections(config) as stores, gc_disabled(), report_progress() as advance:
        for batch in _PartitionReader(stores, read_spec, partition).batches():
            advance(batch.num_rows)
            yield batch


class _PartitionReader:
    def __init__(
        self, stores: StoreConnections, read_spec: ReadSpec, partition: RangePartition
    ) -> None:
        self._stores = stores
        self._read_spec = read_spec
        self._partition = partition
        self._next_rank = partition.start
        self._source: MessageSource

    def batches(self) -> Iterator[pa.RecordBatch]:
        pages = self._pages(self._partition.location)
        failures = 0
        while True:
            try:
                page = next(pages, None)
            except (EpochChanged, errors.Unavailable) as error:
                failures += 1
                if failures > _MAX_FAILURES:
                    raise
                found = self._reopen(error)
                if found is None:
                    return
                pages = found
                continue
            if page is None:
                return
            failures = 0
            batch = decode.page(self._source, self._read_spec, page)
            self._next_rank = page.ranks[-1] + 1
            if batch.num_rows:
                yield batch

    def _pages(self, location: StoreLocation) -> Iterator[RawPage]:
        partition, project = self._partition, self._stores.config.project
        self._source = MessageSource(project, partition.queue, location.pool, partition.epoch)
        reader = RangeReader(
            self._stores.client(location.uri), project, partition.queue, partition.epoch
        )
        return reader.pages(
            self._next_rank, partition.end, self._read_spec.size, self._read_spec.content
        )

    def _reopen(self, error: Exception) -> Iterator[RawPage] | None:
        """Returns pages from the next rank on, in the queue's store now; None: it is gone."""
        partition = self._partition
        LOG.info(
            "locating %s again: %s",
            partition.queue,
            errors.reason(error),
            extra={"action": "reread"},
        )
        snapshot = snapshot_of(self._stores, partition.queue)
        if snapshot is not None and snapshot.watermarks.epoch == partition.epoch:
            return self._pages(snapshot.location)
        fail = self._read_spec.fail_on_data_loss
        if snapshot is None:
            data_loss.queue_deleted(partition.queue, partition.epoch, self._next_rank, fail)
        else:
            data_loss.resume_rank(
                partition.queue, partition.epoch, self._next_rank, snapshot.watermarks, fail
            )
        return None
