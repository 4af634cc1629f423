# SPDX-License-Identifier: Apache-2.0
"""Send dead letters back to the queues that they came from.

    zaqar-redis pipeline redrive --queue orders-dead \\
        --where "get_json_object(cast(body as string), '$.kind') = 'retry'"

Letters are claimed, which counts as a claim of theirs; those that the conditions fit are
posted to their queue, with the ttl that they have here, and then deleted here.  The others are
released at the end, and so are those whose queue is not there.  --where is a condition of
Spark SQL on the columns of the data source.  What comes in meanwhile is left for the next time.

However it ends, no letter is lost, and none comes twice, if it is begun again within a day:
a queue knows for so long which letters it got back.  Letters that it held when it was
killed can be claimed again two minutes later.

Nothing counts how often a letter has come back: messages have no place for that.
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
from zaqar_redis.records import Top
from zaqar_redis.spark.holding import GroupTaken, Holding, claims_at
from zaqar_redis.spark.jobs import redriving, running, tasks
from zaqar_redis.spark.jobs.progress import watched
from zaqar_redis.spark.jobs.redriving import (
    BEYOND,
    FILTERED,
    MOVED,
    NO_ORIGIN,
    NOWHERE,
    SCHEMA,
    THERE,
    Redrive,
)
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.jobs.tasks import Counts
from zaqar_redis.spark.source import ZaqarDataSource
from zaqar_redis.spark.stores import Place, Stores
from zaqar_redis.storage.drivers.redis import range_reader
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.ranges import Ranges

NAME = "redrive"

WOULD_MOVE = "would be moved"

#: Letters of a claim: a few milliseconds of Redis' time to make it.
_CLAIM = 1000
#: Letters of a round: enough work for the tasks that Spark starts for it.
_ROUND = 100_000
#: Seconds for which letters stay claimed after a redrive was killed, and live longer.
_TTL, _GRACE = 120, 60
_RATE_LEAST, _RATE_MOST, _LIMIT_MOST = 0.001, 1e9, 2**53 - 1


@dataclass(frozen=True)
class Settings:
    #: a condition of Spark SQL
    where: str | None = None
    #: only letters from these queues
    origins: tuple[str, ...] = ()
    #: None: the queue that each came from
    target: str | None = None
    #: letters to move at most
    limit: int | None = None
    #: letters a second
    rate: float | None = None
    dry_run: bool = False
    quiet: bool = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", required=True, metavar="QUEUE", help="the dead-letter queue")
    parser.add_argument("--where", metavar="CONDITION", help="only letters that it holds for")
    parser.add_argument(
        "--from-queue",
        action="append",
        default=[],
        metavar="QUEUE",
        help="only letters from this queue; may be given more than once",
    )
    parser.add_argument("--target-queue", metavar="QUEUE", help="where to (where they came from)")
    parser.add_argument("--limit", type=int, metavar="N", help="move so many at most, oldest first")
    parser.add_argument(
        "--rate",
        type=float,
        metavar="N",
        help=f"letters a second at most, in lumps of up to {redriving.CHUNK}",
    )
    parser.add_argument("--dry-run", action="store_true", help="only count, and change nothing")


def check(parsed: argparse.Namespace) -> None:
    _check(parsed.queue, _settings(parsed))


def run(spark: SparkSession, parsed: argparse.Namespace) -> Report:
    return redrive(spark, parsed.queue, tasks.store(parsed), _settings(parsed))


def _settings(parsed: argparse.Namespace) -> Settings:
    return Settings(
        where=parsed.where,
        origins=tuple(parsed.from_queue),
        target=parsed.target_queue,
        limit=parsed.limit,
        rate=parsed.rate,
        dry_run=parsed.dry_run,
        quiet=parsed.quiet,
    )


def redrive(
    spark: SparkSession, queue: str, store: dict[str, str], how: Settings | None = None
) -> Report:
    """Send letters of the dead-letter queue *queue* back, in the store that options of the
    data source name (``uri``, ``controlUri``, ``project``).

    Raises BadConfiguration; Refused when another redrive of the queue runs; and what
    Spark raises.
    """
    how = how or Settings()
    began = time.monotonic()
    _check(queue, how)
    condition = _condition(spark, how)
    at = tasks.where(store)
    with Stores(at) as stores:
        top = _top(stores, queue)
        if top is None:
            raise errors.BadConfiguration(f'--queue: there is no queue "{queue}"')
        if how.target is not None and _top(stores, how.target) is None:
            raise errors.BadConfiguration(f'--target-queue: there is no queue "{how.target}"')
        if how.dry_run:
            counts = _counted(spark, stores, queue, store, condition, how)
        else:
            counts = _Redriving(spark, stores, queue, top, condition, how).all()
    return _report(counts, how, time.monotonic() - began)


def _check(queue: str, how: Settings) -> None:
    """Raises BadConfiguration."""
    tasks.check_queue("--queue", queue)
    tasks.check_queue("--target-queue", how.target)
    for origin in how.origins:
        tasks.check_queue("--from-queue", origin)
    tasks.check("--rate", how.rate, _RATE_LEAST, _RATE_MOST)
    tasks.check("--limit", how.limit, 1, _LIMIT_MOST)
    if how.target == queue:
        raise errors.BadConfiguration("--target-queue: it is the dead-letter queue itself")


def _condition(spark: SparkSession, how: Settings) -> Column:
    """Which letters are wanted.  Raises BadConfiguration."""
    wanted = F.lit(True)
    if how.origins:
        wanted &= F.col("dead_letter_from").isin(list(how.origins))
    if how.where is not None:
        _check_condition(spark, how.where)
        wanted &= F.expr(how.where)
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


def _top(stores: Stores, queue: str) -> Top | None:
    """What the queue holds; None: it is not there."""

    def look(place: Place) -> Top | None:
        ranges = Ranges(stores.client(place.uri), clock.store)
        return ranges.top(stores.where.project, queue).run()

    return stores.patiently(queue, look)


def _counted(
    spark: SparkSession,
    stores: Stores,
    queue: str,
    store: dict[str, str],
    condition: Column,
    how: Settings,
) -> Counts:
    spark.dataSource.register(ZaqarDataSource)
    letters = (
        spark.read.format("zaqar")
        .options(**store, subscribe=queue, includeClaimed="false", includeDelayed="false")
        .schema(SCHEMA)
        .load()
    )
    with watched(spark, "counting", how.quiet):
        found = letters.groupBy("dead_letter_from", condition).count().collect()
    counts: Counts = Counter()
    left = how.limit
    for origin, wanted, number in sorted(found, key=lambda row: row[0] or ""):
        target = how.target or origin
        fate = WOULD_MOVE
        if not wanted:
            fate = FILTERED
        elif target is None or _top(stores, target) is None:
            fate = NO_ORIGIN
        elif left is not None:
            moved = min(left, number)
            counts[origin or NOWHERE, BEYOND] += number - moved
            left, number = left - moved, moved
        counts[origin or NOWHERE, fate] += number
    return counts


class _Redriving:
    def __init__(
        self,
        spark: SparkSession,
        stores: Stores,
        queue: str,
        top: Top,
        condition: Column,
        how: Settings,
    ) -> None:
        self._spark = spark
        self._stores = stores
        self._queue = queue
        #: what comes behind it is left: it may be what was sent back just now
        self._end = top.following
        self._seen = top.count if how.limit is None else None
        self._condition = condition
        self._how = how
        self._holding = Holding(stores.where, f"{NAME}:{queue}", _TTL, _GRACE)
        self._claims: list[str] = []
        self._counts: Counts = Counter()

    def all(self) -> Counts:
        """Raises Refused when another redrive of the queue runs."""
        try:
            self._holding.begin()
        except GroupTaken as error:
            raise running.Refused(f'another redrive of "{self._queue}" is running') from error
        try:
            self._settle()
            with watched(self._spark, "redriving", self._how.quiet, total=self._seen):
                while (left := self._left()) != 0 and (claims := self._claimed(left)):
                    self._counts += self._moved(claims, left)
        finally:
            self._release()
            self._holding.end()
        return self._counts

    def _left(self) -> int | None:
        """How many letters may still be moved; None: all."""
        if self._how.limit is None:
            return None
        return self._how.limit - _total(self._counts, MOVED) - _total(self._counts, THERE)

    def _settle(self) -> None:
        """What claims of a redrive that was killed have held is counted as claimable."""
        project = self._stores.where.project

        def sweep(place: Place) -> int:
            queues = Queues(self._stores.client(place.uri), clock.store)
            return queues.sweep(project, self._queue).run()

        while self._stores.patiently(self._queue, sweep):
            pass

    def _claimed(self, left: int | None) -> list[str]:
        """Claims of another round; none: there is nothing more to claim."""
        wanted = _ROUND if left is None else min(_ROUND, max(left, _CLAIM))
        found: list[str] = []
        while wanted > 0 and (claimed := self._claim(min(wanted, _CLAIM))):
            claim, count = claimed
            found.append(claim)
            wanted -= count
        return found

    def _claim(self, limit: int) -> tuple[str, int] | None:
        project = self._stores.where.project

        def take(place: Place) -> tuple[str, int] | None:
            client = self._stores.client(place.uri)
            ready = range_reader.ready(client, project, self._queue, self._end)
            if ready == 0:
                return None
            claims = claims_at(self._stores, place.uri)
            taken = claims.create(
                project, self._queue, ttl=_TTL, grace=_GRACE, limit=min(limit, ready)
            ).run()
            return (taken.claim_id, len(taken.messages)) if taken.claim_id else None

        claimed = self._stores.patiently(self._queue, take)
        if claimed is not None:
            self._claims.append(claimed[0])
            self._holding.add(self._queue, claimed[0])
        return claimed

    def _moved(self, claims: list[str], left: int | None) -> Counts:
        parts = min(len(claims), self._spark.sparkContext.defaultParallelism)
        held = redriving.letters(self._spark, self._stores.where, self._queue, claims, parts)
        letters = held.select("*", self._condition)
        if left is not None:
            # One task counts: the oldest of those that are wanted come first.
            parts = 1
            letters = letters.repartition(1).sortWithinPartitions(F.desc("wanted"), "rank")
        rate = self._how.rate / parts if self._how.rate is not None else None
        work = Redrive(self._stores.where, self._queue, self._how.target, left, rate)
        return tasks.counted(letters, work)

    def _release(self) -> None:
        """What was not moved can be claimed again; if the store is away, a while later."""
        with contextlib.suppress(errors.Unavailable):
            for claim in self._claims:
                self._holding.drop(claim)
                self._stores.patiently(self._queue, functools.partial(self._let_go, claim))

    def _let_go(self, claim: str, place: Place) -> None:
        project = self._stores.where.project
        claims_at(self._stores, place.uri).delete(project, self._queue, claim).run()


def _total(counts: Counts, fate: str) -> int:
    return sum(number for (_, of), number in counts.items() if of == fate)


def _report(counts: Counts, how: Settings, seconds: float) -> Report:
    fates = [WOULD_MOVE] if how.dry_run else [MOVED, THERE]
    fates += [FILTERED, NO_ORIGIN, *([BEYOND] if how.limit is not None else [])]
    queues: dict[str, dict[str, int]] = {}
    for (queue, fate), number in sorted(counts.items()):
        if number:
            queues.setdefault(queue, {})[fate] = number
    return Report(
        NAME,
        {"dead letters seen": {fate: _total(counts, fate) for fate in fates}},
        seconds,
        {"queues": queues},
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
