# SPDX-License-Identifier: Apache-2.0
"""The queues that a reader reads, and the ranks between which it does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from zaqar_redis import clock, errors, rules
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.records import Watermarks
from zaqar_redis.spark.options import TOPIC, SourceOptions
from zaqar_redis.spark.positions import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    OffsetPosition,
    OffsetPositions,
)
from zaqar_redis.spark.reading import data_loss
from zaqar_redis.spark.stores import StoreConnections, StoreLocation, refused
from zaqar_redis.storage.redis.bulk import range_reader
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges

_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
#: Options that may name queues.
_BY_QUEUE = frozenset({"startingOffsets", "startingOffsetsByTimestamp", "endingOffsets"})
#: Seconds between two listings of the queues of a pattern.
_REDISCOVERY_SECONDS = 10.0


@dataclass(frozen=True)
class QueueSnapshot:
    """What a queue holds now."""

    queue: str
    location: StoreLocation
    watermarks: Watermarks


class QueueSelection:
    """The queues that options name.  Raises BadConfiguration when options are not valid."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        self._options = options
        self._stores = stores
        self._kind = options["kind"]
        self._topics = self._kind == TOPIC
        self._pattern = options["subscribePattern"]
        options.exactly_one_of("subscribe", "subscribePattern")
        self._names: Sequence[str] = options["subscribe"] or ()
        self._listed_at = -_REDISCOVERY_SECONDS

    def names(self) -> Sequence[str]:
        if self._pattern is not None and time.monotonic() > self._listed_at + _REDISCOVERY_SECONDS:
            listed = self._stores.queues(topics=self._topics)
            self._names = [name for name in listed if self.matches(name)]
            self._listed_at = time.monotonic()
        return self._names

    def check_positions(self) -> None:
        """Raises BadConfiguration when positions are given for queues that are not read."""
        names = self.names()
        for option in _BY_QUEUE & self._options.given:
            given = self._options[option]
            odd = sorted(given.keys() - set(names)) if isinstance(given, dict) else []
            if odd:
                raise errors.BadConfiguration(
                    f'option "{option}": {", ".join(odd)} is not among the queues that are read: '
                    f"{', '.join(names) or 'none'}"
                )

    def matches(self, queue: str) -> bool:
        """Returns whether the queue would be read, if it existed."""
        if self._pattern is not None:
            plain = queue.removeprefix(rules.TOPIC_PREFIX)
            return rules.is_topic(queue) == self._topics and bool(self._pattern.fullmatch(plain))
        return queue in self._names

    def snapshots(self) -> list[QueueSnapshot]:
        """Returns snapshots of the queues that exist.

        Raises BadConfiguration when a queue that was named does not, or may not be read.
        """
        found = []
        tried: set[str] = set()
        for queue in self.names():
            snapshot = self.snapshot(queue)
            if snapshot is not None:
                found.append(snapshot)
                if snapshot.location.uri not in tried:
                    self._stores.check_reading(snapshot.location, queue)
                    tried.add(snapshot.location.uri)
            elif self._pattern is None:
                raise errors.BadConfiguration(
                    f'option "subscribe": there is no {self._kind} "{queue}" in the project '
                    f'"{self._stores.config.project}"'
                )
        return found

    def snapshot(self, queue: str) -> QueueSnapshot | None:
        """Returns what the queue holds; None: it does not exist.

        Raises StoreUnavailable, and BadConfiguration when the store refuses to be read.
        """
        try:
            return snapshot_of(self._stores, queue)
        except CommandRefused as error:
            raise refused("uri", self._stores.config.uri, error) from error

    def start_rank(self, snapshot: QueueSnapshot, default: str) -> int:
        """Returns the first rank to read; *default* is EARLIEST or LATEST.

        Raises BadConfiguration, and data_loss.DataLoss when the rank does not exist.
        """
        self._options.at_most_one_of(*_STARTS)
        times = self._options["startingOffsetsByTimestamp"] or {}
        created = times.get(snapshot.queue, self._options["startingTimestamp"])
        if created is not None:
            return self.seek(snapshot, created)
        position = position_for(self._options["startingOffsets"], snapshot.queue, default)
        rank, fail = resolve_rank(position, snapshot.watermarks), self._options["failOnDataLoss"]
        return data_loss.starting_rank(
            snapshot.queue, position.epoch, rank, snapshot.watermarks, fail
        )

    def count(self, snapshot: QueueSnapshot, start: int, end: int) -> int:
        """Returns how many messages are between these ranks."""
        client = self._stores.client(snapshot.location.uri)
        return range_reader.count_range(
            client, self._stores.config.project, snapshot.queue, start, end
        )

    def seek(self, snapshot: QueueSnapshot, created: int) -> int:
        """Returns the rank of the first message created at this time (ms) or later."""

        def fetch(location: StoreLocation) -> int:
            ranges = RedisRanges(self._stores.client(location.uri), clock.store)
            rank = ranges.seek(self._stores.config.project, snapshot.queue, created).run()
            return 0 if rank is None else rank

        return self._stores.with_retry(snapshot.queue, fetch)


def snapshot_of(stores: StoreConnections, queue: str) -> QueueSnapshot | None:
    """Returns what the queue holds; None: it does not exist.  Raises StoreUnavailable."""

    def fetch(location: StoreLocation) -> QueueSnapshot | None:
        ranges = RedisRanges(stores.client(location.uri), clock.store)
        watermarks = ranges.watermarks(stores.config.project, queue).run()
        return QueueSnapshot(queue, location, watermarks) if watermarks is not None else None

    return stores.with_retry(queue, fetch)


def position_for(positions: OffsetPositions, queue: str, default: str) -> OffsetPosition:
    """Returns the position at which options begin or end in a queue."""
    given = positions.get(queue) if isinstance(positions, dict) else positions
    if isinstance(given, OffsetPosition):
        return given
    return OffsetPosition(
        None, EARLIEST_OFFSET if (given or default) == EARLIEST else LATEST_OFFSET
    )


def resolve_rank(position: OffsetPosition, watermarks: Watermarks) -> int:
    """Returns the rank that a position means in a queue."""
    return {EARLIEST_OFFSET: watermarks.first, LATEST_OFFSET: watermarks.next_rank}.get(
        position.offset, position.offset
    )
