# SPDX-License-Identifier: Apache-2.0
"""Partitions of a read: each is a range of ranks of one queue, for one task."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from pyspark.sql.datasource import InputPartition

from zaqar_redis.spark.columns import CLAIM_COLUMNS
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.stores import StoreLocation
from zaqar_redis.storage.redis.bulk.range_reader import RangeFields

#: A task for fewer ranks than this costs more than the reading.
_MIN_RANKS_PER_PARTITION = 10_000
#: Tasks of one queue, however wide its range is: ranks of deleted messages cost nothing
#: to read, but a task does.
_MAX_PARTITIONS_PER_QUEUE = 256


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
            holds=not self.include_claimed or not CLAIM_COLUMNS.isdisjoint(self.columns),
            delays=not self.include_delayed,
        )


@dataclass
class RangePartition(InputPartition):
    """Ranks from *start* to before *end* of one epoch of a queue."""

    queue: str
    epoch: str
    start: int
    end: int
    #: of the queue when this was planned
    location: StoreLocation


def min_partitions(options: SourceOptions) -> int:
    """Returns how many tasks there should be at least."""
    # A planner does not know Spark's cores; on one machine they are those of this one.
    return options["minPartitions"] or os.cpu_count() or 1


def partition_count(messages: int, least: int, most: int) -> int:
    """Returns into how many tasks to split so many messages of one queue."""
    enough = math.ceil(messages / most)
    useful = max(1, messages // _MIN_RANKS_PER_PARTITION)
    return min(_MAX_PARTITIONS_PER_QUEUE, max(enough, min(least, useful)))


def split(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """Splits a range into so many parts by rank: always into the same ones."""
    bounds = [start + (end - start) * part // count for part in range(count + 1)]
    return list(pairwise(bounds))


def interleaved(
    partitions: Sequence[RangePartition], group: Callable[[RangePartition], str]
) -> list[RangePartition]:
    """Returns partitions in an order in which the first tasks touch every group."""
    groups: dict[str, list[RangePartition]] = {}
    for partition in partitions:
        groups.setdefault(group(partition), []).append(partition)
    return [each for row in zip_longest(*groups.values()) for each in row if each is not None]
