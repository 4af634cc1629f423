# SPDX-License-Identifier: Apache-2.0
"""Post messages of an archive again.

    zaqar-redis pipeline replay /lake/queues --queue orders --date-from 2026-11-01 --rate 500

Each message goes to the queue that it came from, or to --target-queue, as a new message of
the same client, with its own ttl and delay anew.  Messages of a queue come in the order that
they had; of several queues that go to one, one queue after the other.

What was written is not written again: after a failure, say the same once more, and what is
missing is written.  A replay is known by what it reads, so an archive that has grown since is
another one; limit it with --date-to, or name it yourself with --write-id.  It is remembered
for 90 days, and as long as the target is not deleted.

With --preserve, queues that are not there are restored instead, each whole or not at all, with
the ids, ranks, times and encryption that their messages had.  What has expired is left out, and
so is what archives do not have: claims, checksums, metadata of queues.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from datetime import date

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from zaqar_redis.keyspace import envelope
from zaqar_redis.spark import restoring
from zaqar_redis.spark.jobs import running, tasks
from zaqar_redis.spark.jobs.archiving import damage, reading
from zaqar_redis.spark.jobs.progress import watched
from zaqar_redis.spark.jobs.replaying import plan, settings, work
from zaqar_redis.spark.jobs.replaying.plan import Plan
from zaqar_redis.spark.jobs.replaying.settings import Settings
from zaqar_redis.spark.jobs.replaying.work import THERE, WRITTEN, Preserving, Replay
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.jobs.tasks import Counts
from zaqar_redis.spark.restoring import NotRestored, Restored
from zaqar_redis.spark.stores import Stores

NAME = "replay"

EXPIRED, PLANNED = "expired", "would be written"

#: Who posts where the archive does not say.
_CLIENT = "zaqar-redis-spark"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "archive", metavar="TARGET", help="folder or URL that `pipeline archive` wrote to"
    )
    what = parser.add_argument_group("what")
    what.add_argument(
        "--queue", action="append", metavar="QUEUE", help="a queue; may be given more than once"
    )
    for name, meaning in (("from", "first"), ("to", "last")):
        what.add_argument(
            f"--date-{name}", type=_date, metavar="DATE", help=f"{meaning} day, in UTC"
        )
        what.add_argument(f"--rank-{name}", type=int, metavar="RANK", help=f"{meaning} rank")
    how = parser.add_argument_group("how")
    how.add_argument("--target-queue", metavar="QUEUE", help="where to (where they came from)")
    how.add_argument("--ttl", type=int, metavar="SECONDS", help="how long they live (their own)")
    how.add_argument(
        "--rate",
        type=float,
        metavar="N",
        help=f"messages a second at most, in lumps of up to {work.CHUNK}",
    )
    how.add_argument("--write-id", metavar="NAME", help="names this replay (by what it reads)")
    how.add_argument("--preserve", action="store_true", help="restore queues as they were")
    how.add_argument("--dry-run", action="store_true", help="only say what would be done")


def check(parsed: argparse.Namespace) -> None:
    settings.check(_settings(parsed))


def run(spark: SparkSession, parsed: argparse.Namespace) -> Report:
    return replay(spark, parsed.archive, tasks.store(parsed), _settings(parsed))


def _settings(parsed: argparse.Namespace) -> Settings:
    return Settings(
        queues=parsed.queue,
        dates=(parsed.date_from, parsed.date_to),
        ranks=(parsed.rank_from, parsed.rank_to),
        target=parsed.target_queue,
        ttl=parsed.ttl,
        rate=parsed.rate,
        write_id=parsed.write_id,
        preserve=parsed.preserve,
        dry_run=parsed.dry_run,
        quiet=parsed.quiet,
    )


@damage.noticed()
def replay(
    spark: SparkSession, archive: str, store: dict[str, str], how: Settings | None = None
) -> Report:
    """Replay messages of an archive to the store that options of the data source name
    (``uri``, ``controlUri``, ``project``).

    Raises BadConfiguration; Refused when files of the archive are missing or damaged, when a
    queue to be restored is there, or the messages are not those of the first time; and what
    Spark raises.
    """
    how = how or Settings()
    began = time.monotonic()
    settings.check(how)
    at = tasks.where(store)
    with watched(spark, "looking", how.quiet, counted=False):
        archived = reading.opened(spark, archive)
        archived.offsets(at.project, how.queues)
        messages = archived.messages(at.project, how.queues, how.dates)
        made = plan.planned(messages, at, how)
    if how.dry_run:
        counts = _planned(made)
    elif how.preserve:
        counts = _restore(made)
    else:
        counts = _post(made)
    return _report(made, counts, time.monotonic() - began)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: it must be like 2026-11-21") from error


def _planned(made: Plan) -> Counts:
    counts: Counts = Counter()
    for queue, messages in made.by_target().items():
        counts[queue, PLANNED] = messages
    if made.how.preserve:
        over = made.frame.where(F.col("expires") <= F.current_timestamp())
        for source, messages in over.groupBy("queue").count().collect():
            counts[made.how.target_of(source), PLANNED] -= messages
            counts[made.how.target_of(source), EXPIRED] += messages
    return counts


def _post(made: Plan) -> Counts:
    targets = made.by_target()
    if not targets:
        return Counter()
    spark, how = made.frame.sparkSession, made.how
    ordered, slot_of = made.ordered(min(len(targets), spark.sparkContext.defaultParallelism))
    task = Replay(
        made.where,
        made.name,
        envelope.client_bytes(_CLIENT),
        how.ttl,
        made.rates(slot_of, how.rate) if how.rate is not None else {},
    )
    with watched(spark, "replaying", how.quiet, total=made.messages):
        return tasks.counted(ordered, task)


def _restore(made: Plan) -> Counts:
    sizes = made.by_source()
    if made.how.target is not None and len(sizes) > 1:
        raise running.Refused("--target-queue: with --preserve, it can be of one --queue only")
    counts: Counts = Counter()
    for queue, messages in sizes.items():
        target = made.how.target_of(queue)
        with Stores(made.where) as stores:
            there = restoring.count_of(stores, target, made.name)
        if there is not None:
            counts[target, THERE] = there
            counts[target, EXPIRED] = messages - there
            continue
        done = _restore_one(made, queue, target)
        counts[target, WRITTEN], counts[target, EXPIRED] = done.rows, done.expired
    return counts


def _restore_one(made: Plan, queue: str, target: str) -> Restored:
    try:
        restore = restoring.begin(made.where, target, envelope.client_bytes(_CLIENT))
    except NotRestored as error:
        raise running.Refused(str(error)) from error
    spark, frame = made.frame.sparkSession, made.frame.where(F.col("queue") == queue)
    task, name = Preserving(restore), f"restoring {target}"
    try:
        with watched(spark, name, made.how.quiet, total=made.by_source()[queue]):
            done = tasks.results(frame, task)
        return restoring.finish(restore, done, made.name)
    except NotRestored as error:
        restoring.give_up(restore)
        raise running.Refused(str(error)) from error
    except BaseException:
        restoring.give_up(restore)
        raise


def _report(made: Plan, counts: Counts, seconds: float) -> Report:
    always = (WRITTEN, THERE) if not made.how.dry_run else (PLANNED,)
    fates = dict.fromkeys((*always, *((EXPIRED,) if made.how.preserve else ())), 0)
    by_queue: dict[str, dict[str, int]] = {}
    for (queue, fate), messages in sorted(counts.items()):
        fates[fate] = fates.get(fate, 0) + messages
        if messages:
            by_queue.setdefault(queue, {})[fate] = messages
    return Report(
        NAME,
        {"messages read": fates},
        seconds,
        {"write id": made.write_id, "target queues": by_queue},
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
