# SPDX-License-Identifier: Apache-2.0
"""The plan of a replay: which messages, in which order, by which task."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.stores import StoreConfig

T = TypeVar("T")

_COLUMNS = (
    *("queue", "epoch", "rank", "created", "expires", "body", "ttl", "delay", "client_id"),
    *("dead_letter_from", "encrypted", "attributes"),
)


@dataclass(frozen=True)
class QueueEpoch:
    """Archived messages of one epoch of a queue: from its creation to its deletion."""

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
class ReplayPlan:
    replay_settings: ReplaySettings
    config: StoreConfig
    write_id: str
    frame: DataFrame
    #: sorted in the order of the replay
    epochs: Sequence[QueueEpoch]

    @property
    def name(self) -> str:
        """Name of the entry in the ledgers."""
        return f"replay:{self.write_id}"

    @property
    def messages(self) -> int:
        return sum(queue_epoch.messages for queue_epoch in self.epochs)

    def by_source(self) -> Counter[str]:
        return _sums((queue_epoch.queue, queue_epoch.messages) for queue_epoch in self.epochs)

    def by_target(self) -> Counter[str]:
        return _sums(
            (self.replay_settings.target_of(queue_epoch.queue), queue_epoch.messages)
            for queue_epoch in self.epochs
        )

    def partitioned(self, slots: int) -> tuple[DataFrame, dict[str, int]]:
        """Returns the rows in *slots* tasks, those of a target sorted in one, and its slot."""
        slot_of = _assign_slots(self.by_target(), slots)
        assignments = []
        for number, queue_epoch in enumerate(self.epochs):
            target = self.replay_settings.target_of(queue_epoch.queue)
            assignments.append(
                (queue_epoch.queue, queue_epoch.epoch, number, target, slot_of[target])
            )
        keys = self.frame.sparkSession.createDataFrame(
            assignments, "queue string, epoch string, epoch_number int, target string, slot int"
        )
        joined = self.frame.join(F.broadcast(keys), ["queue", "epoch"])
        placed = joined.repartitionById(slots, F.col("slot"))
        # An epoch has one queue, and a queue one target: rows of a target stay together.
        return placed.sortWithinPartitions("epoch_number", "rank"), slot_of

    def rates(self, slot_of: dict[str, int], rate: float) -> dict[str, float]:
        """Returns by target its task's share of the rate: all tasks end at the same time."""
        sizes = self.by_target()
        loads = _sums((slot, sizes[target]) for target, slot in slot_of.items())
        return {target: rate * loads[slot] / self.messages for target, slot in slot_of.items()}


def plan_replay(
    messages: DataFrame, config: StoreConfig, replay_settings: ReplaySettings
) -> ReplayPlan:
    """Returns the plan for messages of an archive, of the queues and days to replay."""
    frame = _chosen(messages, replay_settings)
    found = frame.groupBy("queue", "epoch").agg(
        F.count("*"), F.min("rank"), F.max("rank"), F.min("created")
    )
    epochs = sorted(
        (QueueEpoch(*row) for row in found.collect()), key=lambda queue_epoch: queue_epoch.order
    )
    return ReplayPlan(
        replay_settings,
        config,
        replay_settings.write_id or _write_id(config, epochs, replay_settings.preserve),
        frame,
        epochs,
    )


def _chosen(messages: DataFrame, replay_settings: ReplaySettings) -> DataFrame:
    least, most = replay_settings.rank_from, replay_settings.rank_to
    if least is not None:
        messages = messages.where(F.col("rank") >= F.lit(least))
    if most is not None:
        messages = messages.where(F.col("rank") <= F.lit(most))
    return messages.select(*_COLUMNS)


def _write_id(config: StoreConfig, epochs: Sequence[QueueEpoch], preserve: bool) -> str:
    """Returns an id that depends on the messages, not on how files were compacted.

    What restores a queue has another one than what posts the same messages.
    """
    what = [astuple(queue_epoch)[:5] for queue_epoch in epochs]
    named = (config.project, what, *(["preserve"] if preserve else []))
    return hashlib.blake2b(repr(named).encode(), digest_size=8).hexdigest()


def _sums(parts: Iterable[tuple[T, int]]) -> Counter[T]:
    found: Counter[T] = Counter()
    for key, number in parts:
        found[key] += number
    return found


def _assign_slots(sizes: Counter[str], slots: int) -> dict[str, int]:
    """Assigns targets to tasks, the largest first, each to the task with the least load."""
    loads = [0] * slots
    slot_of = {}
    for target, size in sizes.most_common():
        slot_of[target] = loads.index(min(loads))
        loads[slot_of[target]] += size
    return slot_of
