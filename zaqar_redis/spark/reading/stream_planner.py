# SPDX-License-Identifier: Apache-2.0
"""What planners of streams have in common, whether they browse or claim."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from zaqar_redis.spark import offsets
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.reading import data_loss
from zaqar_redis.spark.reading.selection import QueueSelection, QueueSnapshot
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.redis.bulk.blocking_feed import BlockingFeed

#: Seconds after which queues are polled without a notification: one may be lost, and a
#: queue may have moved.
_MAX_POLL_INTERVAL_SECONDS = 5.0
#: Seconds between two polls, however many notifications there are.
_MIN_POLL_INTERVAL_SECONDS = 0.05
#: Seconds to wait on one store, when there are several.
_STORE_TURN_SECONDS = 0.05


class IdlePoll:
    """An idle stream waits for notifications of its queues.

    By itself, Spark polls an idle source a hundred times a second.
    """

    def __init__(self, stores: StoreConnections, max_wait: float) -> None:
        self._stores = stores
        self._max_wait = max_wait
        self._hints: dict[str, BlockingFeed] = {}
        self._polled_at = 0.0

    def polled(self, found: Iterable[QueueSnapshot]) -> None:
        """Notes that these queues were polled just now, and subscribes to them."""
        self._polled_at = time.monotonic()
        for snapshot in found:
            uri = snapshot.location.uri
            if uri not in self._hints:
                self._hints[uri] = BlockingFeed(self._stores.client(uri))
            self._hints[uri].watch(self._stores.config.project, snapshot.queue)

    def deadline(self) -> float:
        """Returns until when Spark, asking now, gets its answer (monotonic seconds)."""
        return time.monotonic() + self._max_wait

    def wait(self, deadline: float) -> bool:
        """Waits for a notification until *deadline* at most; returns whether to poll again."""
        while True:
            if self._poll_due() or self._wait_for_hint(deadline):
                time.sleep(
                    max(0.0, self._polled_at + _MIN_POLL_INTERVAL_SECONDS - time.monotonic())
                )
                return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        for hints in self._hints.values():
            hints.close()

    def _poll_due(self) -> bool:
        return not self._max_wait or time.monotonic() > self._polled_at + _MAX_POLL_INTERVAL_SECONDS

    def _wait_for_hint(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        turn = left if len(self._hints) == 1 else min(left, _STORE_TURN_SECONDS)
        if not self._hints:
            time.sleep(turn)
        return sum(hints.wait(turn) for hints in self._hints.values()) > 0


class StreamPlanner(ABC):
    """Plans where batches begin and end.  For one process.

    Methods raise data_loss.DataLoss and StoreUnavailable.
    """

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        self._options = options
        self._stores = stores
        self._selection = QueueSelection(options, stores)
        self._fail_on_data_loss: bool = options["failOnDataLoss"]
        self._idle_poll = IdlePoll(stores, options["maxWait"])
        #: with AvailableNow: by queue, the rank to stop before
        self._frozen: dict[str, int] | None = None
        #: the offset at which the stream was last idle
        self._idle: Offset | None = None
        #: by queue, as last fetched
        self._snapshots: dict[str, QueueSnapshot] = {}
        #: the end of the batch that was planned last
        self._end: Offset = {}
        #: queues that do not exist, already reported
        self._missing_queues: set[str] = set()

    def close(self) -> None:
        self._idle_poll.close()
        self._stores.close()

    def initial(self) -> Offset:
        """Returns the offset at which a query without a checkpoint begins."""
        return offsets.sorted_(
            {
                self._key(snapshot.queue): self._first(snapshot)
                for snapshot in self._selection.snapshots()
            }
        )

    def freeze(self) -> None:
        """Ignores messages that are posted from now on."""
        self._fetch_snapshots({})
        self._frozen = {
            queue: snapshot.watermarks.next_rank for queue, snapshot in self._snapshots.items()
        }

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Returns the end of the next batch; *start*: no batch.  All before *start* is done."""
        self._end = self._planned(start, limit)
        return self._end

    def _planned(self, start: Offset, limit: ReadLimit) -> Offset:
        deadline = self._idle_poll.deadline()
        if start == self._idle and self._can_wait() and not self._idle_poll.wait(deadline):
            return start
        while True:
            self._fetch_snapshots(start)
            self._idle_poll.polled(self._snapshots.values())
            end = self._next_batch(start, limit)
            if end is not None:
                self._idle = None
                return end
            self._idle = start
            # A hint may be about another queue: Spark gets its answer by the deadline all the same.
            if self._frozen is not None or time.monotonic() >= deadline:
                return start
            if not self._idle_poll.wait(deadline):
                return start

    def latest_available(self) -> Offset:
        """Returns for Spark's progress reports how far each queue goes, as last seen.

        *lag* is what the batch that was planned last leaves.
        """
        return offsets.sorted_(
            {
                self._key(queue): self._behind(snapshot, self._end.get(self._key(queue)))
                for queue, snapshot in self._snapshots.items()
            }
        )

    @abstractmethod
    def _behind(self, snapshot: QueueSnapshot, end: QueueOffset | None) -> QueueOffset:
        """Returns what is known of a queue when a batch ends at *end*; None: it is new."""

    def acknowledge(self, offset: Offset) -> None:  # noqa: B027  # browsing need not
        """Ends the batch that ends here.  Idempotent."""

    @abstractmethod
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns the tasks of a batch: the same ones whenever it is repeated."""

    @abstractmethod
    def _first(self, snapshot: QueueSnapshot) -> QueueOffset:
        """Returns the entry of a queue in the initial offset."""

    @abstractmethod
    def _next_batch(self, start: Offset, limit: ReadLimit) -> Offset | None:
        """Returns the end of the next batch, by the snapshots; None: there is none yet."""

    def _can_wait(self) -> bool:
        """Returns whether an idle stream may wait before it looks for messages."""
        return self._frozen is None

    def _queues(self, start: Offset) -> Iterable[str]:
        """Returns the queues to read, whether they exist or not."""
        return self._selection.names()

    def _rank(self, entry: QueueOffset) -> int:
        """Returns the rank up to which a queue is read; 0: unknown."""
        return int(entry["offset"])

    def _fetch_snapshots(self, start: Offset) -> None:
        found = {}
        for queue in self._queues(start):
            snapshot = self._selection.snapshot(queue)
            if snapshot is not None:
                found[queue] = snapshot
            elif (before := start.get(self._key(queue))) and queue not in self._missing_queues:
                data_loss.queue_deleted(
                    queue, before["epoch"], self._rank(before), self._fail_on_data_loss
                )
                self._missing_queues.add(queue)
        self._missing_queues.difference_update(found)
        self._snapshots = found

    def _rows(self, limit: ReadLimit, messages: Mapping[str, int]) -> float | None:
        """Returns how many of these messages, by queue, a batch may have; None: no limit."""
        match limit:
            case ReadMaxRows(rows):
                return rows
            case ReadMaxBytes(size):
                weight = sum(
                    number * self._snapshots[queue].watermarks.size
                    for queue, number in messages.items()
                    if number
                )
                return size * sum(messages.values()) / weight if weight else None
            case _:
                return None

    def _key(self, queue: str) -> str:
        return offsets.key(self._stores.config.project, queue)
