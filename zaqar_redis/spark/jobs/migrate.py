# SPDX-License-Identifier: Apache-2.0
"""Move large queues to another pool, or move or copy them to another store.

Messages are copied by many tasks while queues are in use; then each queue is shut for
the moment in which the rest follows (a second for 130 000 to 250 000 messages); clients get
503 with Retry-After then. Ids, order, claims, delays, expiry and metadata stay as they are.
Whatever dies on the way, a queue is whole at one side; run the same command again, or
let the service's own mover settle it.

To another pool, clients notice nothing else; meanwhile the service itself moves no queues,
and goes on with its drains afterwards. To another store (--to-storage) clients must be told
by you: a queue that has moved is not in the old store any more, and with --copy it is in
both, with all its messages and ids, as it was at one moment. What is verified before the
copy counts: a checksum of each range that tasks have copied, read back from the target,
and of the frozen queue how many messages, places, claims and subscriptions there are.

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
from zaqar_redis.spark.jobs import running, session
from zaqar_redis.spark.jobs.migrating import moving
from zaqar_redis.spark.jobs.migrating.moving import Fate, Goal, Outcome
from zaqar_redis.spark.jobs.progress import watched
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.options import BATCH, Options
from zaqar_redis.spark.stores import Stores, Where, where

NAME = "migrate"

#: Seconds to wait for another process that moves queues, unless told otherwise: a killed
#: one has that role for twenty seconds more.
WAIT = 60.0


@dataclass(frozen=True)
class Chosen:
    """Which queues: just one of these."""

    queues: Sequence[str] | None = None
    pattern: str | None = None
    #: those of the project that live in this pool
    pool: str | None = None


def arguments(parser: argparse.ArgumentParser) -> None:
    # While a queue is shut, its clients wait for this job.
    parser.set_defaults(priority=session.NORMAL)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--queue", action="append", metavar="QUEUE", help="a queue; may be given more than once"
    )
    which.add_argument("--pattern", help="all queues whose whole name matches, e.g. 'orders-.*'")
    which.add_argument("--from-pool", metavar="POOL", help="the project's queues in this pool")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-pool", metavar="POOL", help='a pool of the same store; "default": home')
    to.add_argument("--to-storage", metavar="URI", help="another store")
    parser.add_argument(
        "--to-control", metavar="URI", help="its control store (that of --to-storage)"
    )
    parser.add_argument("--copy", action="store_true", help="leave them in the old store as well")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT,
        metavar="SECONDS",
        help=f"for another process that moves queues, e.g. a drain ({WAIT:g})",
    )


def check(parsed: argparse.Namespace) -> None:
    _target(parsed)
    if parsed.queue is not None:
        _checked(parsed.queue)
    if parsed.pattern is not None:
        _pattern(parsed.pattern)


def run(spark: SparkSession, parsed: argparse.Namespace) -> Report:
    options = Options(BATCH, running.source(parsed))
    return migrate(
        spark,
        where(options),
        Chosen(parsed.queue, parsed.pattern, parsed.from_pool),
        to_pool=parsed.to_pool,
        to=_target(parsed),
        copy=parsed.copy,
        wait=parsed.wait,
        quiet=parsed.quiet,
    )


def migrate(
    spark: SparkSession,
    at: Where,
    chosen: Chosen,
    *,
    to_pool: str | None = None,
    to: Where | None = None,
    copy: bool = False,
    wait: float = WAIT,
    quiet: bool = True,
) -> Report:
    """Move queues to the pool *to_pool*, or to the store *to*, or with *copy* copy them there.

    Raises BadConfiguration, and Refused when another process moves queues for longer
    than *wait* seconds.
    """
    begun = time.monotonic()
    if (to_pool is None) == (to is None):
        raise errors.BadConfiguration("exactly one of --to-pool and --to-storage must be given")
    if copy and to is None:
        raise errors.BadConfiguration("--copy: within one store a queue is in one pool only")
    names = None if chosen.queues is None else _checked(chosen.queues)
    pattern = None if chosen.pattern is None else _pattern(chosen.pattern)
    with Stores(at) as stores, watched(spark, "copying" if copy else "migrating", quiet):
        stores.check()
        goal = Goal(at, to_pool, to, copy)
        which = moving.Which(names, pattern, chosen.pool)
        with Runner() as runner:
            outcomes = runner.run(moving.all_of, spark, stores, goal, which, wait)
    return _report(outcomes, time.monotonic() - begun, copy)


def _target(parsed: argparse.Namespace) -> Where | None:
    if parsed.to_storage is None:
        if parsed.to_control is not None:
            raise errors.BadConfiguration("--to-control means nothing without --to-storage")
        return None
    given = {"uri": parsed.to_storage, "project": parsed.project}
    if parsed.to_control is not None:
        given["controlUri"] = parsed.to_control
    try:
        return where(Options(BATCH, given))
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--to-storage: {error}") from error


def _checked(queues: Sequence[str]) -> tuple[str, ...]:
    return tuple(Options(BATCH, {"subscribe": ",".join(queues)})["subscribe"])


def _pattern(pattern: str) -> str:
    return str(Options(BATCH, {"subscribePattern": pattern})["subscribePattern"].pattern)


def _report(outcomes: Sequence[Outcome], seconds: float, copy: bool) -> Report:
    done = "copied" if copy else "moved"
    fates = Counter(outcome.fate for outcome in outcomes)
    over = [outcome for outcome in outcomes if outcome.fate is Fate.DONE]
    live = sum(outcome.live for outcome in over)
    rest = sum(outcome.rest for outcome in over)
    messages = sum(outcome.messages for outcome in over)
    return Report(
        job=NAME,
        counts={
            "queues": {
                done: fates[Fate.DONE],
                "already there": fates[Fate.THERE],
                "gone": fates[Fate.GONE],
                "failed": fates[Fate.FAILED],
            },
            "messages read": {done: messages, "gone meanwhile": live + rest - messages},
            "messages": {"read in use": live, "read frozen": rest},
        },
        seconds=seconds,
        details={
            "messages/s": round(messages / seconds),
            "by queue": {outcome.queue: outcome.shown() for outcome in outcomes},
        },
        good=not fates[Fate.FAILED],
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[running.MAIN]))
