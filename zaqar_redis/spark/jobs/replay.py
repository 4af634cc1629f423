# SPDX-License-Identifier: Apache-2.0
"""Post messages of an archive again.

    zaqar-redis pipeline replay /lake/queues --queue orders --date-from 2026-11-01 --rate 500

Each message goes to the queue that it came from, or to --target-queue, as a new message of
the same client, with its own ttl and delay, which begin anew.  Messages of a queue keep their
order; when several queues go to one, it is one queue after the other.

What was written is not written again: after a failure, run the same command again, and it
writes what is missing.  A replay is identified by the messages it reads, so an archive that
has grown since makes another replay; limit it with --date-to, or name it with --write-id.  It
is remembered for 90 days, unless the target is deleted.

With --preserve, queues that do not exist are restored instead, each whole or not at all, with
the ids, ranks, times and encryption that their messages had.  Expired messages are left out,
and so is what archives do not have: claims, checksums, metadata of queues.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from zaqar_redis.keyspace import envelope
from zaqar_redis.spark import queue_restore
from zaqar_redis.spark.jobs import arguments, running, tasks
from zaqar_redis.spark.jobs.archiving import damage, reading
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.replaying import plan, replay_tasks, settings
from zaqar_redis.spark.jobs.replaying.plan import ReplayPlan
from zaqar_redis.spark.jobs.replaying.replay_tasks import ALREADY_THERE, WRITTEN, ReplayTask
from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.tasks import OutcomeCounts
from zaqar_redis.spark.queue_restore import NotRestored, RestoreCommitMessage
from zaqar_redis.spark.stores import StoreConnections

NAME = "replay"

EXPIRED, PLANNED = "expired", "would be written"

#: Client of messages for which the archive has none.
_CLIENT = "zaqar-redis-spark"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "archive", metavar="TARGET", help="folder or URL that `pipeline archive` wrote to"
    )
    arguments.add(parser, ReplaySettings)


def check(parsed: argparse.Namespace) -> None:
    settings.check(arguments.read(ReplaySettings, parsed))


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    replay_settings = arguments.read(ReplaySettings, parsed)
    return replay(spark, parsed.archive, arguments.store_options(parsed), replay_settings)


@damage.read_errors_translated()
def replay(
    spark: SparkSession,
    archive: str,
    store: dict[str, str],
    replay_settings: ReplaySettings | None = None,
) -> JobReport:
    """Replays messages of an archive to the store that options of the data source name
    (``uri``, ``controlUri``, ``project``).

    Raises BadConfiguration; JobRefused when files of the archive are missing or damaged, when
    a queue to be restored exists, or the messages are not those of the first time; and what
    Spark raises.
    """
    replay_settings = replay_settings or ReplaySettings()
    began = time.monotonic()
    settings.check(replay_settings)
    config = tasks.store_config(store)
    with progress_bar(spark, "checking files", replay_settings.quiet, counted=False):
        archived = reading.ArchiveReader(spark, archive)
        archived.offsets(config.project, replay_settings.queues)
        messages = archived.messages(
            config.project,
            replay_settings.queues,
            (replay_settings.date_from, replay_settings.date_to),
        )
        replay_plan = plan.plan_replay(messages, config, replay_settings)
    if replay_settings.dry_run:
        counts = _planned(replay_plan)
    elif replay_settings.preserve:
        counts = _restore(replay_plan)
    else:
        counts = _post(replay_plan)
    return _report(replay_plan, counts, time.monotonic() - began)


def _planned(replay_plan: ReplayPlan) -> OutcomeCounts:
    counts: OutcomeCounts = Counter()
    for queue, messages in replay_plan.by_target().items():
        counts[queue, PLANNED] = messages
    if replay_plan.replay_settings.preserve:
        _check_targets(replay_plan)
        over = replay_plan.frame.where(F.col("expires") <= F.current_timestamp())
        for source, messages in over.groupBy("queue").count().collect():
            counts[replay_plan.replay_settings.target_of(source), PLANNED] -= messages
            counts[replay_plan.replay_settings.target_of(source), EXPIRED] += messages
    return counts


def _post(replay_plan: ReplayPlan) -> OutcomeCounts:
    targets = replay_plan.by_target()
    if not targets:
        return Counter()
    spark, replay_settings = replay_plan.frame.sparkSession, replay_plan.replay_settings
    partitioned, slot_of = replay_plan.partitioned(
        min(len(targets), spark.sparkContext.defaultParallelism)
    )
    task = ReplayTask(
        replay_plan.config,
        replay_plan.name,
        envelope.client_bytes(_CLIENT),
        replay_settings.ttl,
        replay_plan.rates(slot_of, replay_settings.rate)
        if replay_settings.rate is not None
        else {},
    )
    with progress_bar(spark, "replaying", replay_settings.quiet, total=replay_plan.messages):
        return tasks.sum_counts(partitioned, task)


def _check_targets(replay_plan: ReplayPlan) -> None:
    """Raises JobRefused when a queue that is to be restored exists."""
    try:
        with StoreConnections(replay_plan.config) as stores:
            for target in replay_plan.by_target():
                if queue_restore.restored_count(stores, target, replay_plan.name) is None:
                    queue_restore.check_missing(stores, target)
    except NotRestored as error:
        raise running.JobRefused(str(error)) from error


def _restore(replay_plan: ReplayPlan) -> OutcomeCounts:
    sizes = replay_plan.by_source()
    if replay_plan.replay_settings.target is not None and len(sizes) > 1:
        raise running.JobRefused("--target-queue: with --preserve, it can be of one --queue only")
    counts: OutcomeCounts = Counter()
    for queue, messages in sizes.items():
        target = replay_plan.replay_settings.target_of(queue)
        with StoreConnections(replay_plan.config) as stores:
            restored = queue_restore.restored_count(stores, target, replay_plan.name)
        if restored is not None:
            counts[target, ALREADY_THERE] = restored
            counts[target, EXPIRED] = messages - restored
            continue
        done = _restore_one(replay_plan, queue, target)
        counts[target, WRITTEN], counts[target, EXPIRED] = done.rows, done.expired
    return counts


def _restore_one(replay_plan: ReplayPlan, queue: str, target: str) -> RestoreCommitMessage:
    try:
        restore = queue_restore.begin(replay_plan.config, target, envelope.client_bytes(_CLIENT))
    except NotRestored as error:
        raise running.JobRefused(str(error)) from error
    spark, frame = replay_plan.frame.sparkSession, replay_plan.frame.where(F.col("queue") == queue)
    task, name = partial(replay_tasks.restore, restore), f"restoring {target}"
    try:
        with progress_bar(
            spark, name, replay_plan.replay_settings.quiet, total=replay_plan.by_source()[queue]
        ):
            done = tasks.run_tasks(frame, task)
        return queue_restore.finish(restore, done, replay_plan.name)
    except NotRestored as error:
        queue_restore.abort_restore(restore)
        raise running.JobRefused(str(error)) from error
    except BaseException:
        queue_restore.abort_restore(restore)
        raise


def _report(replay_plan: ReplayPlan, counts: OutcomeCounts, seconds: float) -> JobReport:
    always = (WRITTEN, ALREADY_THERE) if not replay_plan.replay_settings.dry_run else (PLANNED,)
    restored = (EXPIRED,) if replay_plan.replay_settings.preserve else ()
    outcomes = dict.fromkeys((*always, *restored, *(outcome for _, outcome in counts)))
    return JobReport(
        NAME,
        {"messages read": {outcome: tasks.total(counts, outcome) for outcome in outcomes}},
        seconds,
        {"write id": replay_plan.write_id, "target queues": tasks.by_queue(counts)},
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
