# SPDX-License-Identifier: Apache-2.0
"""Send dead letters back to the queues that they came from.

    zaqar-redis pipeline redrive --queue orders-dead \\
        --where "get_json_object(cast(body as string), '$.kind') = 'retry'"

Dead letters are claimed, which raises their claim count; those that match the conditions are
posted to their queue, with their ttl in the dead-letter queue, and then deleted from it.  The
others are released at the end, and so are those whose queue does not exist.  --where is a
condition of Spark SQL on the columns of the data source.  Dead letters that arrive meanwhile
are left for the next run.

However a run ends, no message is lost, and none is posted twice if it is run again within a
day: a queue remembers for that long which messages it got back.  Messages that a killed run
held can be claimed again two minutes later.

Nothing counts how often a message was sent back: messages have no field for that.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from zaqar_redis import errors
from zaqar_redis.records import Lease
from zaqar_redis.spark.jobs import arguments, redrive_tasks, running, tasks
from zaqar_redis.spark.jobs.arguments import argument
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.redrive_tasks import (
    ALREADY_THERE,
    BEYOND_LIMIT,
    FILTERED,
    MOVED,
    NO_ORIGIN,
    NO_ORIGIN_QUEUE,
    SCHEMA,
    RedriveTask,
)
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.tasks import OutcomeCounts
from zaqar_redis.spark.reading.claims import CountedClaim, QueueClaims
from zaqar_redis.spark.reading.group_lease import GroupLease, GroupTaken
from zaqar_redis.spark.reading.selection import QueueSnapshot, snapshot_of
from zaqar_redis.spark.source import ZaqarDataSource
from zaqar_redis.spark.stores import StoreConfig, StoreConnections

NAME = "redrive"

WOULD_MOVE = "would be moved"

#: Messages of a claim: a few milliseconds of Redis' time to create it.
_CLAIM_MESSAGES = 1000
#: Messages of a round: enough work for the tasks that Spark starts for it.
_ROUND_MESSAGES = 100_000
#: Messages stay claimed so long after a redrive was killed.
_LEASE = Lease(ttl=120, grace=60)


@dataclass(frozen=True)
class RedriveSettings:
    #: a condition of Spark SQL
    where: str | None = argument("only messages that match it", metavar="CONDITION")
    origins: Sequence[str] = argument(
        "only dead letters from this queue; may be given more than once",
        flag="--from-queue",
        default=(),
        action="append",
        metavar="QUEUE",
        check=arguments.queue_name,
    )
    target: str | None = argument(
        "where to send them (where they came from)",
        flag="--target-queue",
        metavar="QUEUE",
        check=arguments.queue_name,
    )
    limit: int | None = argument(
        "move so many at most, oldest first",
        type=int,
        metavar="N",
        check=arguments.bounds(1, 2**53 - 1),
    )
    rate: float | None = arguments.rate()
    dry_run: bool = argument("only count, and change nothing", default=False)
    quiet: bool = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", required=True, metavar="QUEUE", help="the dead-letter queue")
    arguments.add(parser, RedriveSettings)


def check(parsed: argparse.Namespace) -> None:
    _check(parsed.queue, arguments.read(RedriveSettings, parsed))


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    settings = arguments.read(RedriveSettings, parsed)
    return redrive(spark, parsed.queue, arguments.store_options(parsed), settings)


def redrive(
    spark: SparkSession, queue: str, store: dict[str, str], settings: RedriveSettings | None = None
) -> JobReport:
    """Sends messages of the dead-letter queue *queue* back, in the store that options of the
    data source name (``uri``, ``controlUri``, ``project``).

    Raises BadConfiguration; JobRefused when another redrive of the queue runs; and what
    Spark raises.
    """
    settings = settings or RedriveSettings()
    began = time.monotonic()
    _check(queue, settings)
    condition = _condition(spark, settings)
    config = tasks.store_config(store)
    with StoreConnections(config) as stores:
        snapshot = snapshot_of(stores, queue)
        if snapshot is None:
            raise _missing("--queue", queue, config)
        if settings.target is not None and snapshot_of(stores, settings.target) is None:
            raise _missing("--target-queue", settings.target, config)
        if settings.dry_run:
            counts = _dry_run_counts(spark, stores, queue, store, condition, settings)
        else:
            counts = _RedriveRun(spark, stores, snapshot, condition, settings).all()
    return _report(counts, settings, time.monotonic() - began)


def _missing(option: str, queue: str, config: StoreConfig) -> errors.BadConfiguration:
    return errors.BadConfiguration(
        f'{option}: there is no queue "{queue}" in the project "{config.project}"'
    )


def _check(queue: str, settings: RedriveSettings) -> None:
    """Raises BadConfiguration."""
    arguments.check_value("--queue", queue, arguments.queue_name)
    arguments.check(settings)
    if settings.target == queue:
        raise errors.BadConfiguration("--target-queue: it is the dead-letter queue itself")


def _condition(spark: SparkSession, settings: RedriveSettings) -> Column:
    """Returns the condition of messages to move.  Raises BadConfiguration."""
    wanted = F.lit(True)
    if settings.origins:
        wanted &= F.col("dead_letter_from").isin(list(settings.origins))
    if settings.where is not None:
        _check_condition(spark, settings.where)
        wanted &= F.expr(settings.where)
    return F.coalesce(wanted, F.lit(False)).alias("wanted")


def _check_condition(spark: SparkSession, text: str) -> None:
    try:
        found = spark.createDataFrame([], SCHEMA).select(F.expr(text)).schema
    except (AnalysisException, ParseException) as error:
        # Without the plan that Spark shows around it.
        raise errors.BadConfiguration(f"--where: {error.getMessage()}") from error
    if found.fields[0].dataType != BooleanType():
        kind = found.fields[0].dataType.simpleString()
        raise errors.BadConfiguration(f"--where: it must be a condition, not of type {kind}")


def _dry_run_counts(
    spark: SparkSession,
    stores: StoreConnections,
    queue: str,
    store: dict[str, str],
    condition: Column,
    settings: RedriveSettings,
) -> OutcomeCounts:
    spark.dataSource.register(ZaqarDataSource)
    dead_letters = (
        spark.read.format("zaqar")
        .options(**store, subscribe=queue, includeClaimed="false", includeDelayed="false")
        .schema(SCHEMA)
        .load()
    )
    with progress_bar(spark, "counting", settings.quiet):
        found = dead_letters.groupBy("dead_letter_from", condition).count().collect()
    counts: OutcomeCounts = Counter()
    left = settings.limit
    for origin, wanted, number in sorted(found, key=lambda row: row[0] or ""):
        target = settings.target or origin
        outcome = WOULD_MOVE
        if not wanted:
            outcome = FILTERED
        elif target is None or snapshot_of(stores, target) is None:
            outcome = NO_ORIGIN
        elif left is not None:
            moved = min(left, number)
            counts[origin or NO_ORIGIN_QUEUE, BEYOND_LIMIT] += number - moved
            left, number = left - moved, moved
        counts[origin or NO_ORIGIN_QUEUE, outcome] += number
    return counts


class _RedriveRun:
    def __init__(
        self,
        spark: SparkSession,
        stores: StoreConnections,
        snapshot: QueueSnapshot,
        condition: Column,
        settings: RedriveSettings,
    ) -> None:
        self._spark = spark
        self._stores = stores
        self._queue = queue = snapshot.queue
        #: messages behind it are left: they may be those that were sent back just now
        self._end = snapshot.watermarks.next_rank
        self._seen = snapshot.watermarks.count if settings.limit is None else None
        self._condition = condition
        self._redrive_settings = settings
        self._group_lease = GroupLease(stores.config, f"{NAME}:{queue}", _LEASE)
        self._claims = QueueClaims(stores, self._group_lease)
        #: of all rounds
        self._claimed: list[CountedClaim] = []
        self._counts: OutcomeCounts = Counter()

    def all(self) -> OutcomeCounts:
        """Runs all rounds.  Raises JobRefused when another redrive of the queue runs."""
        try:
            self._group_lease.begin()
        except GroupTaken as error:
            raise running.JobRefused(f'another redrive of "{self._queue}" is running') from error
        try:
            # What a killed redrive had claimed can be claimed again.
            self._claims.sweep(self._queue)
            with progress_bar(
                self._spark, "redriving", self._redrive_settings.quiet, total=self._seen
            ):
                while (left := self._left()) != 0 and (claims := self._claim_round(left)):
                    self._counts += self._move(claims, left)
        finally:
            self._release()
            self._group_lease.end()
        return self._counts

    def _left(self) -> int | None:
        """Returns how many messages may still be moved; None: all."""
        if self._redrive_settings.limit is None:
            return None
        return (
            self._redrive_settings.limit
            - tasks.total(self._counts, MOVED)
            - tasks.total(self._counts, ALREADY_THERE)
        )

    def _claim_round(self, left: int | None) -> list[CountedClaim]:
        """Returns the claims of another round; none: there is nothing more to claim."""
        wanted = (
            _ROUND_MESSAGES if left is None else min(_ROUND_MESSAGES, max(left, _CLAIM_MESSAGES))
        )
        found: list[CountedClaim] = []
        while wanted > 0:
            claimed = self._claims.create(self._queue, min(wanted, _CLAIM_MESSAGES), self._end)
            if claimed is None:
                break
            found.append(claimed)
            wanted -= claimed[1]
        self._claimed += found
        return found

    def _move(self, claims: list[CountedClaim], left: int | None) -> OutcomeCounts:
        parts = min(len(claims), self._spark.sparkContext.defaultParallelism)
        held = redrive_tasks.claimed_messages(
            self._spark, self._stores.config, self._queue, claims, parts
        )
        dead_letters = held.select("*", self._condition)
        if left is not None:
            # One task enforces the limit: the oldest wanted messages come first.
            parts = 1
            dead_letters = dead_letters.repartition(1).sortWithinPartitions(
                F.desc("wanted"), "rank"
            )
        rate = (
            self._redrive_settings.rate / parts if self._redrive_settings.rate is not None else None
        )
        work = RedriveTask(
            self._stores.config, self._queue, self._redrive_settings.target, left, rate
        )
        return tasks.sum_counts(dead_letters, work)

    def _release(self) -> None:
        """Releases what was not moved; if the store is unreachable, the claims expire."""
        with contextlib.suppress(errors.Unavailable):
            for claim, _ in self._claimed:
                self._claims.release(self._queue, claim)


def _report(counts: OutcomeCounts, settings: RedriveSettings, seconds: float) -> JobReport:
    outcomes = [WOULD_MOVE] if settings.dry_run else [MOVED, ALREADY_THERE]
    outcomes += [FILTERED, NO_ORIGIN, *([BEYOND_LIMIT] if settings.limit is not None else [])]
    return JobReport(
        NAME,
        {"dead letters seen": {outcome: tasks.total(counts, outcome) for outcome in outcomes}},
        seconds,
        {"queues": tasks.by_queue(counts)},
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
