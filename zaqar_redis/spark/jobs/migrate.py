# SPDX-License-Identifier: Apache-2.0
"""Move many queues to another pool, or move or copy them to another store.

Tasks move queues side by side, each as the service moves it: messages are copied while the
queue is in use; then it is frozen while the rest is copied (a second for 130 000 to 250 000
messages); meanwhile clients get 503 with Retry-After. Ids, order, claims, delays, expiry and
metadata stay as they are. Whatever process dies, one store has the whole queue; run the same
command again, or let the mover of the service finish it.

To another pool, clients notice nothing else; meanwhile the service itself moves no queues,
and continues its drains afterwards. To another store (--to-storage) you must reconfigure the
clients: a queue that has moved is no longer in the old store, and with --copy it is in both,
with all its messages and ids, as it was at one moment. Before the copy is used, its counts of
messages, index entries, claims and subscriptions are compared with the frozen queue's.

Example:

    zaqar-redis pipeline migrate --storage redis://10.0.0.5:6379 --from-pool one --to-pool two
    zaqar-redis pipeline migrate --storage redis://10.0.0.5:6379 --queue orders \\
        --to-storage redis://10.0.0.9:6379
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zaqar_redis import errors
from zaqar_redis.runner import Runner
from zaqar_redis.spark.jobs import arguments, running, session
from zaqar_redis.spark.jobs.migrating import migration
from zaqar_redis.spark.jobs.migrating.moving import (
    MigrationOutcome,
    MigrationSpec,
    MigrationStatus,
)
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.options import BATCH, SourceOptions
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, store_config

NAME = "migrate"

#: Default seconds to wait for another process that moves queues: a killed one keeps that
#: role for twenty seconds more.
WAIT = 60.0
#: Tasks may be killed before they have settled their moves.
_INTERRUPTED = (
    "A queue that was being moved may be locked until you run the same command again: that settles "
    "its move, and continues."
)


@dataclass(frozen=True)
class MigrationScope:
    """Which queues: just one of these is given."""

    #: as they are stored: the topic ``news`` is ``topic:news``
    queues: Sequence[str] | None = None
    #: of the same names
    pattern: str | None = None
    #: the project's queues in this pool
    pool: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # While a queue is frozen, its clients wait for this job.
    parser.set_defaults(priority=session.NORMAL)
    which = arguments.add_queues(parser, topics=True)
    which.add_argument("--from-pool", metavar="POOL", help="the project's queues in this pool")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument(
        "--to-pool", metavar="POOL", help='a pool of the same store; "default": the default pool'
    )
    to.add_argument("--to-storage", metavar="URI", help="another store")
    parser.add_argument(
        "--to-control", metavar="URI", help="its control store (that of --to-storage)"
    )
    parser.add_argument("--copy", action="store_true", help="keep them in the old store as well")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT,
        metavar="SECONDS",
        help=f"for another process that moves queues, e.g. a drain ({WAIT:g})",
    )


def check(parsed: argparse.Namespace) -> None:
    _target(parsed)
    _names(parsed)
    if parsed.pattern is not None:
        _pattern(parsed.pattern)


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    options = SourceOptions(BATCH, arguments.store_options(parsed))
    try:
        return migrate(
            spark,
            store_config(options),
            MigrationScope(_names(parsed), parsed.pattern, parsed.from_pool),
            to_pool=parsed.to_pool,
            to=_target(parsed),
            copy=parsed.copy,
            wait=parsed.wait,
            quiet=parsed.quiet,
        )
    except KeyboardInterrupt:
        print(f"\n{_INTERRUPTED}", file=sys.stderr)  # a terminal has just written ^C
        raise


def migrate(
    spark: SparkSession,
    config: StoreConfig,
    chosen: MigrationScope,
    *,
    to_pool: str | None = None,
    to: StoreConfig | None = None,
    copy: bool = False,
    wait: float = WAIT,
    quiet: bool = True,
) -> JobReport:
    """Moves queues to the pool *to_pool*, or to the store *to*; with *copy*, copies them there.

    Raises BadConfiguration, and JobRefused when another process moves queues for longer
    than *wait* seconds.
    """
    begun = time.monotonic()
    if (to_pool is None) == (to is None):
        raise errors.BadConfiguration("exactly one of --to-pool and --to-storage must be given")
    if copy and to is None:
        raise errors.BadConfiguration("--copy: within one store a queue is in one pool only")
    if spark.conf.get("spark.speculation", "false") == "true":
        raise errors.BadConfiguration(
            "spark.speculation: a second attempt at a task interrupts the moves of the first; "
            "run this job without"
        )
    names = None if chosen.queues is None else tuple(chosen.queues)
    pattern = None if chosen.pattern is None else _pattern(chosen.pattern)
    with (
        StoreConnections(config) as stores,
        progress_bar(spark, "copying" if copy else "migrating", quiet),
    ):
        stores.check()
        spec = MigrationSpec(config, to_pool, to, copy)
        which = migration.ResolvedScope(names, pattern, chosen.pool)
        with Runner() as runner:
            outcomes = runner.run(migration.migrate_queues, spark, stores, spec, which, wait)
    return _report(outcomes, time.monotonic() - begun, copy)


def _target(parsed: argparse.Namespace) -> StoreConfig | None:
    if parsed.to_storage is None:
        if parsed.to_control is not None:
            raise errors.BadConfiguration("--to-control means nothing without --to-storage")
        return None
    given = {"uri": parsed.to_storage, "project": parsed.project}
    if parsed.to_control is not None:
        given["controlUri"] = parsed.to_control
    try:
        return store_config(SourceOptions(BATCH, given))
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--to-storage: {error}") from error


def _names(parsed: argparse.Namespace) -> tuple[str, ...] | None:
    """Returns the queues or topics that are named, as they are stored; None: none are."""
    if not (parsed.queue or parsed.topic):
        return None
    return tuple(SourceOptions(BATCH, arguments.source_options(parsed))["subscribe"])


def _pattern(pattern: str) -> str:
    return str(SourceOptions(BATCH, {"subscribePattern": pattern})["subscribePattern"].pattern)


def _report(outcomes: Sequence[MigrationOutcome], seconds: float, copy: bool) -> JobReport:
    done = "copied" if copy else "moved"
    statuses = Counter(outcome.status for outcome in outcomes)
    over = [outcome for outcome in outcomes if outcome.status is MigrationStatus.DONE]
    live = sum(outcome.live for outcome in over)
    rest = sum(outcome.rest for outcome in over)
    messages = sum(outcome.messages for outcome in over)
    return JobReport(
        job=NAME,
        counts={
            "queues": {
                done: statuses[MigrationStatus.DONE],
                "already there": statuses[MigrationStatus.ALREADY_THERE],
                "gone": statuses[MigrationStatus.GONE],
                "failed": statuses[MigrationStatus.FAILED],
            },
            "messages read": {done: messages, "gone meanwhile": live + rest - messages},
            "messages": {"read in use": live, "read frozen": rest},
        },
        seconds=seconds,
        details={
            "messages/s": round(messages / seconds),
            "by queue": {outcome.queue: outcome.shown() for outcome in outcomes},
        },
        good=not statuses[MigrationStatus.FAILED],
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[running.MAIN]))
