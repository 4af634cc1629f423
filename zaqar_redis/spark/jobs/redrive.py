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
import functools
import sys
import time
from collections import Counter
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from zaqar_redis import clock, errors
from zaqar_redis.records import Watermarks
from zaqar_redis.spark.group_lease import GroupLease, GroupTaken
from zaqar_redis.spark.jobs import redrive_tasks, running, tasks
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
from zaqar_redis.spark.source import ZaqarDataSource
from zaqar_redis.spark.stores import StoreConnections, StoreLocation
from zaqar_redis.storage.redis.bulk import range_reader
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges
from zaqar_redis.storage.redis.queues import RedisQueues

NAME = "redrive"

WOULD_MOVE = "would be moved"

#: Messages of a claim: a few milliseconds of Redis' time to create it.
_CLAIM_MESSAGES = 1000
#: Messages of a round: enough work for the tasks that Spark starts for it.
_ROUND_MESSAGES = 100_000
#: Seconds for which messages stay claimed after a redrive was killed; and the grace.
_CLAIM_TTL_SECONDS, _CLAIM_GRACE_SECONDS = 120, 60
_RATE_LEAST, _RATE_MOST, _LIMIT_MOST = 0.001, 1e9, 2**53 - 1


@dataclass(frozen=True)
class RedriveSettings:
    #: a condition of Spark SQL
    where: str | None = None
    #: only dead letters from these queues; empty: all
    origins: tuple[str, ...] = ()
    #: None: the queue that each came from
    target: str | None = None
    #: messages to move at most
    limit: int | None = None
    #: messages a second
    rate: float | None = None
    dry_run: bool = False
    quiet: bool = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", required=True, metavar="QUEUE", help="the dead-letter queue")
    parser.add_argument("--where", metavar="CONDITION", help="only messages that match it")
    parser.add_argument(
        "--from-queue",
        action="append",
        default=[],
        metavar="QUEUE",
        help="only dead letters from this queue; may be given more than once",
    )
    parser.add_argument(
        "--target-queue", metavar="QUEUE", help="where to send them (where they came from)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="move so many at most, oldest first")
    parser.add_argument(
        "--rate",
        type=float,
        metavar="N",
        help=f"messages a second at most, in bursts of up to {redrive_tasks.CHUNK}",
    )
    parser.add_argument("--dry-run", action="store_true", help="only count, and change nothing")


def check(parsed: argparse.Namespace) -> None:
    _check(parsed.queue, _settings(parsed))


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    return redrive(spark, parsed.queue, tasks.store_options(parsed), _settings(parsed))


def _settings(parsed: argparse.Namespace) -> RedriveSettings:
    return RedriveSettings(
        where=parsed.where,
        origins=tuple(parsed.from_queue),
        target=parsed.target_queue,
        limit=parsed.limit,
        rate=parsed.rate,
        dry_run=parsed.dry_run,
        quiet=parsed.quiet,
    )


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
        watermarks = _watermarks(stores, queue)
        if watermarks is None:
            raise errors.BadConfiguration(f'--queue: there is no queue "{queue}"')
        if settings.target is not None and _watermarks(stores, settings.target) is None:
            raise errors.BadConfiguration(f'--target-queue: there is no queue "{settings.target}"')
        if settings.dry_run:
            counts = _dry_run_counts(spark, stores, queue, store, condition, settings)
        else:
            counts = _RedriveRun(spark, stores, queue, watermarks, condition, settings).all()
    return _report(counts, settings, time.monotonic() - began)


def _check(queue: str, settings: RedriveSettings) -> None:
    """Raises BadConfiguration."""
    tasks.check_queue_name("--queue", queue)
    tasks.check_queue_name("--target-queue", settings.target)
    for origin in settings.origins:
        tasks.check_queue_name("--from-queue", origin)
    tasks.check_bounds("--rate", settings.rate, _RATE_LEAST, _RATE_MOST)
    tasks.check_bounds("--limit", settings.limit, 1, _LIMIT_MOST)
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


def _watermarks(stores: StoreConnections, queue: str) -> Watermarks | None:
    """Returns the queue's watermarks; None: it does not exist."""

    def fetch(location: StoreLocation) -> Watermarks | None:
        ranges = RedisRanges(stores.client(location.uri), clock.store)
        return ranges.watermarks(stores.config.project, queue).run()

    return stores.with_retry(queue, fetch)


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
        elif target is None or _watermarks(stores, target) is None:
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
        queue: str,
        watermarks: Watermarks,
        condition: Column,
        settings: RedriveSettings,
    ) -> None:
        self._spark = spark
        self._stores = stores
        self._queue = queue
        #: messages behind it are left: they may be those that were sent back just now
        self._end = watermarks.next_rank
        self._seen = watermarks.count if settings.limit is None else None
        self._condition = condition
        self._redrive_settings = settings
        self._group_lease = GroupLease(
            stores.config, f"{NAME}:{queue}", _CLAIM_TTL_SECONDS, _CLAIM_GRACE_SECONDS
        )
        self._claims: list[str] = []
        self._counts: OutcomeCounts = Counter()

    def all(self) -> OutcomeCounts:
        """Runs all rounds.  Raises JobRefused when another redrive of the queue runs."""
        try:
            self._group_lease.begin()
        except GroupTaken as error:
            raise running.JobRefused(f'another redrive of "{self._queue}" is running') from error
        try:
            self._sweep()
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
            - _total(self._counts, MOVED)
            - _total(self._counts, ALREADY_THERE)
        )

    def _sweep(self) -> None:
        """Counts messages that a killed redrive had claimed as claimable."""
        project = self._stores.config.project

        def sweep(location: StoreLocation) -> int:
            queues = RedisQueues(self._stores.client(location.uri), clock.store)
            return queues.sweep(project, self._queue).run()

        while self._stores.with_retry(self._queue, sweep):
            pass

    def _claim_round(self, left: int | None) -> list[str]:
        """Returns the claims of another round; none: there is nothing more to claim."""
        wanted = (
            _ROUND_MESSAGES if left is None else min(_ROUND_MESSAGES, max(left, _CLAIM_MESSAGES))
        )
        found: list[str] = []
        while wanted > 0 and (claimed := self._claim(min(wanted, _CLAIM_MESSAGES))):
            claim, count = claimed
            found.append(claim)
            wanted -= count
        return found

    def _claim(self, limit: int) -> tuple[str, int] | None:
        project = self._stores.config.project

        def take(location: StoreLocation) -> tuple[str, int] | None:
            client = self._stores.client(location.uri)
            ready = range_reader.count_claimable(client, project, self._queue, self._end)
            if ready == 0:
                return None
            claims = self._stores.claims(location)
            taken = claims.create(
                project,
                self._queue,
                ttl=_CLAIM_TTL_SECONDS,
                grace=_CLAIM_GRACE_SECONDS,
                limit=min(limit, ready),
            ).run()
            return (taken.claim_id, len(taken.messages)) if taken.claim_id else None

        claimed = self._stores.with_retry(self._queue, take)
        if claimed is not None:
            self._claims.append(claimed[0])
            self._group_lease.add(self._queue, claimed[0])
        return claimed

    def _move(self, claims: list[str], left: int | None) -> OutcomeCounts:
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
            for claim in self._claims:
                self._group_lease.drop(claim)
                self._stores.with_retry(self._queue, functools.partial(self._release_claim, claim))

    def _release_claim(self, claim: str, location: StoreLocation) -> None:
        project = self._stores.config.project
        self._stores.claims(location).delete(project, self._queue, claim).run()


def _total(counts: OutcomeCounts, outcome: str) -> int:
    return sum(number for (_, of), number in counts.items() if of == outcome)


def _report(counts: OutcomeCounts, settings: RedriveSettings, seconds: float) -> JobReport:
    outcomes = [WOULD_MOVE] if settings.dry_run else [MOVED, ALREADY_THERE]
    outcomes += [FILTERED, NO_ORIGIN, *([BEYOND_LIMIT] if settings.limit is not None else [])]
    queues: dict[str, dict[str, int]] = {}
    for (queue, outcome), number in sorted(counts.items()):
        if number:
            queues.setdefault(queue, {})[outcome] = number
    return JobReport(
        NAME,
        {"dead letters seen": {outcome: _total(counts, outcome) for outcome in outcomes}},
        seconds,
        {"queues": queues},
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
