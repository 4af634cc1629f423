# SPDX-License-Identifier: Apache-2.0
"""What is to be replayed, in which order, and by which task."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.replaying.settings import Settings
from zaqar_redis.spark.stores import Where

T = TypeVar("T")

_COLUMNS = (
    *("queue", "epoch", "rank", "created", "expires", "body", "ttl", "delay", "client_id"),
    *("dead_letter_from", "encrypted"),
)


@dataclass(frozen=True)
class Life:
    """Messages of a queue between its making and its deletion."""

    queue: str
    epoch: str
    messages: int
    first: int
    last: int
    begun: datetime

    @property
    def order(self) -> tuple[str, datetime, str]:
        return self.queue, self.begun, self.epoch


@dataclass(frozen=True)
class Plan:
    how: Settings
    where: Where
    write_id: str
    frame: DataFrame
    #: in the order in which they are replayed
    lives: Sequence[Life]

    @property
    def name(self) -> str:
        """Of the entry in the ledgers."""
        return f"replay:{self.write_id}"

    @property
    def messages(self) -> int:
        return sum(life.messages for life in self.lives)

    def by_source(self) -> Counter[str]:
        return _sums((life.queue, life.messages) for life in self.lives)

    def by_target(self) -> Counter[str]:
        return _sums((self.how.target_of(life.queue), life.messages) for life in self.lives)

    def ordered(self, slots: int) -> tuple[DataFrame, dict[str, int]]:
        """The rows, those of each target in order in one of so many tasks; which one."""
        slot_of = _spread(self.by_target(), slots)
        places = []
        for number, life in enumerate(self.lives):
            target = self.how.target_of(life.queue)
            places.append((life.queue, life.epoch, number, target, slot_of[target]))
        keys = self.frame.sparkSession.createDataFrame(
            places, "queue string, epoch string, life int, target string, slot int"
        )
        joined = self.frame.join(F.broadcast(keys), ["queue", "epoch"])
        placed = joined.repartitionById(slots, F.col("slot"))
        # A life is of one queue, and a queue of one target: all of a target come together.
        return placed.sortWithinPartitions("life", "rank"), slot_of

    def rates(self, slot_of: dict[str, int], rate: float) -> dict[str, float]:
        """By target, its task's share of the rate: all tasks end at the same time."""
        sizes = self.by_target()
        loads = _sums((slot, sizes[target]) for target, slot in slot_of.items())
        return {target: rate * loads[slot] / self.messages for target, slot in slot_of.items()}


def planned(messages: DataFrame, at: Where, how: Settings) -> Plan:
    """Of the messages of an archive: of the queues and days that are wanted."""
    frame = _chosen(messages, how)
    found = frame.groupBy("queue", "epoch").agg(
        F.count("*"), F.min("rank"), F.max("rank"), F.min("created")
    )
    lives = sorted((Life(*row) for row in found.collect()), key=lambda life: life.order)
    return Plan(how, at, how.write_id or _write_id(at, lives), frame, lives)


def _chosen(messages: DataFrame, how: Settings) -> DataFrame:
    least, most = how.ranks
    if least is not None:
        messages = messages.where(F.col("rank") >= F.lit(least))
    if most is not None:
        messages = messages.where(F.col("rank") <= F.lit(most))
    return messages.select(*_COLUMNS)


def _write_id(at: Where, lives: Sequence[Life]) -> str:
    """The same for the same messages, in whatever files they are: some are compacted."""
    what = [(life.queue, life.epoch, life.messages, life.first, life.last) for life in lives]
    return hashlib.blake2b(repr((at.project, what)).encode(), digest_size=8).hexdigest()


def _sums(parts: Iterable[tuple[T, int]]) -> Counter[T]:
    found: Counter[T] = Counter()
    for key, number in parts:
        found[key] += number
    return found


def _spread(sizes: Counter[str], slots: int) -> dict[str, int]:
    """Targets to tasks, the largest first, each to the task that has least to do."""
    loads = [0] * slots
    slot_of = {}
    for target, size in sizes.most_common():
        slot_of[target] = loads.index(min(loads))
        loads[slot_of[target]] += size
    return slot_of
