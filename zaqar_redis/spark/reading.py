# SPDX-License-Identifier: Apache-2.0
"""What a task does: ranks of a queue in, Arrow batches out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from zaqar_redis import clock, errors
from zaqar_redis.records import Top
from zaqar_redis.spark import decode, losses
from zaqar_redis.spark.collector import no_collector
from zaqar_redis.spark.counting import counting
from zaqar_redis.spark.decode import Origin
from zaqar_redis.spark.partitions import RangePartition
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.drivers.redis.range_reader import (
    Content,
    EpochChanged,
    RangeReader,
    RawPage,
)
from zaqar_redis.storage.drivers.redis.ranges import Ranges

LOG = logging.getLogger(__name__)

#: Failures of a store in a row, between which it answered: something else is wrong with it.
_FAILURES = 10
_CLAIM_COLUMNS = frozenset({"claim_id", "claim_expires", "claim_count"})


@dataclass(frozen=True)
class Wanted:
    """What to make of messages."""

    columns: tuple[str, ...]
    #: messages in a trip, and rows in a batch
    size: int
    include_expired: bool
    include_claimed: bool = True
    include_delayed: bool = True
    fail_on_data_loss: bool = True

    @property
    def content(self) -> Content:
        return Content(
            holds=not self.include_claimed or not _CLAIM_COLUMNS.isdisjoint(self.columns),
            delays=not self.include_delayed,
        )


def read(at: Where, wanted: Wanted, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in order of rank.

    Raises losses.DataLoss when the queue is not the one that was planned any more, and
    StoreUnavailable when its store stays away.
    """
    with Stores(at) as stores, no_collector(), counting() as did:
        for batch in _Range(stores, wanted, partition).batches():
            did(batch.num_rows)
            yield batch


class _Range:
    def __init__(self, stores: Stores, wanted: Wanted, partition: RangePartition) -> None:
        self._stores = stores
        self._wanted = wanted
        self._partition = partition
        self._at = partition.start
        self._origin: Origin

    def batches(self) -> Iterator[pa.RecordBatch]:
        pages = self._pages(self._partition.place)
        failures = 0
        while True:
            try:
                page = next(pages, None)
            except (EpochChanged, errors.Unavailable) as error:
                failures += 1
                if failures > _FAILURES:
                    raise
                found = self._found_again(error)
                if found is None:
                    return
                pages = found
                continue
            if page is None:
                return
            failures = 0
            batch = decode.page(self._origin, self._wanted, page)
            self._at = page.ranks[-1] + 1
            if batch.num_rows:
                yield batch

    def _pages(self, place: Place) -> Iterator[RawPage]:
        partition, project = self._partition, self._stores.where.project
        self._origin = Origin(project, partition.queue, place.pool, partition.epoch)
        reader = RangeReader(
            self._stores.client(place.uri), project, partition.queue, partition.epoch
        )
        return reader.pages(self._at, partition.end, self._wanted.size, self._wanted.content)

    def _found_again(self, error: Exception) -> Iterator[RawPage] | None:
        """Pages from where it was, wherever the queue is now; None: it is gone."""
        partition = self._partition

        def look(place: Place) -> tuple[Place, Top | None]:
            ranges = Ranges(self._stores.client(place.uri), clock.store)
            return place, ranges.top(self._stores.where.project, partition.queue).run()

        LOG.info(
            "looking for %s again: %s",
            partition.queue,
            errors.reason(error),
            extra={"action": "reread"},
        )
        place, top = self._stores.patiently(partition.queue, look)
        if top is not None and top.epoch == partition.epoch:
            return self._pages(place)
        fail = self._wanted.fail_on_data_loss
        if top is None:
            losses.gone(partition.queue, partition.epoch, self._at, fail)
        else:
            losses.start(partition.queue, partition.epoch, self._at, top, fail)
        return None
