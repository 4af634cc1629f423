# SPDX-License-Identifier: Apache-2.0
"""What one task reads: a range of ranks of one queue."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from pyspark.sql.datasource import InputPartition

from zaqar_redis.spark.options import Options
from zaqar_redis.spark.stores import Place

#: A task for fewer ranks than this costs more than it reads.
_LEAST = 10_000
#: Tasks of one queue, however wide its range is: ranks of messages that are gone cost
#: nothing to read, but a task does.
_MOST = 256


@dataclass
class RangePartition(InputPartition):
    """Ranks from *start* to before *end* of a queue in one of its lives."""

    queue: str
    epoch: str
    start: int
    end: int
    #: where it was when this was planned
    place: Place

    def __post_init__(self) -> None:
        super().__init__(None)


def wanted(options: Options) -> int:
    """How many tasks there should be at least."""
    # A planner does not know what Spark has; on one machine it is what this one has.
    return options["minPartitions"] or os.cpu_count() or 1


def parts(messages: int, least: int, most: int) -> int:
    """Into how many tasks to split so many messages of one queue."""
    enough = math.ceil(messages / most)
    useful = max(1, messages // _LEAST)
    return min(_MOST, max(enough, min(least, useful)))


def split(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """The range in so many parts, by rank: the same ones whenever it is done."""
    bounds = [start + (end - start) * part // count for part in range(count + 1)]
    return list(pairwise(bounds))


def by_store(partition: RangePartition) -> str:
    return partition.place.uri


def by_queue(partition: RangePartition) -> str:
    """For batches that may be repeated: by then a queue may be in another store, and a
    sink knows tasks by their number."""
    return partition.queue


def interleaved(
    partitions: Sequence[RangePartition], group: Callable[[RangePartition], str]
) -> list[RangePartition]:
    """In an order in which the first tasks touch every group."""
    groups: dict[str, list[RangePartition]] = {}
    for partition in partitions:
        groups.setdefault(group(partition), []).append(partition)
    return [each for row in zip_longest(*groups.values()) for each in row if each is not None]
