# SPDX-License-Identifier: Apache-2.0
"""Archive queues as Parquet files by project, queue and date.

  zaqar-redis pipeline archive --storage redis://store --pattern '.*' s3a://lake/queues

Each run continues where the last one ended; messages stay in their queues.  Whatever stops
a run, the next one neither loses nor duplicates a message: a batch that was read is archived
from the staged files, even if its messages expired meanwhile.  Messages that expire or are
deleted before they are read cannot be archived: run it more often than messages live.

TARGET is a folder, or a URI of any file system that Hadoop supports.  One process at a time
writes there.  Messages of a batch appear file by file; while small files are compacted into
larger ones, readers of the plain files may see messages twice for a moment.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping

from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs import arguments, running
from zaqar_redis.spark.jobs.archiving import layout, lock, settings, tables
from zaqar_redis.spark.jobs.archiving.commit import Committer
from zaqar_redis.spark.jobs.archiving.compaction import Compactor
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.plan import ArchivePlanner
from zaqar_redis.spark.jobs.archiving.settings import EVERY, PER_BATCH, ArchiveSettings
from zaqar_redis.spark.jobs.archiving.transaction_log import TransactionLog
from zaqar_redis.spark.jobs.archiving.work import ArchiveRun, BatchStager, stop_on_signal
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.options import BATCH, SourceOptions
from zaqar_redis.spark.stores import StoreConnections, store_config

NAME = "archive"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="folder or URI of the archive")
    arguments.add_queues(parser, topics=True)
    parser.add_argument(
        "--format",
        choices=tables.FORMATS,
        help="plain files, or a table of them; fixed by the first run (parquet)",
    )
    parser.add_argument(
        "--no-compact", action="store_false", dest="compact", help="leave small files as they are"
    )
    parser.add_argument(
        "--max-per-batch",
        dest="per_batch",
        type=_positive,
        metavar="N",
        help=f"messages that are archived at once ({PER_BATCH}), shared by the queues: some more "
        "if these are many",
    )
    parser.add_argument(
        "--follow", action="store_true", help="continue until Ctrl-C or SIGTERM, batch by batch"
    )
    parser.add_argument(
        "--every",
        type=_seconds,
        default=EVERY,
        metavar="SECONDS",
        help=f"with --follow: how often to poll the queues ({EVERY:g})",
    )
    parser.add_argument(
        "--go-on-after-loss",
        action="store_true",
        help="when a queue was deleted, created again or restored since the last run: report it, "
        "and archive what it holds now",
    )


def check(parsed: argparse.Namespace) -> None:
    tables.check(parsed.format or tables.PARQUET)


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    return archive(spark, parsed.target, arguments.source_options(parsed), _settings(parsed))


def _settings(parsed: argparse.Namespace) -> ArchiveSettings:
    follow = parsed.every if parsed.follow else None
    return arguments.read(ArchiveSettings, parsed, follow=follow)


def archive(
    spark: SparkSession,
    target: str,
    source: dict[str, str],
    archive_settings: ArchiveSettings | None = None,
) -> JobReport:
    """Archives the queues that options of the data source name (``uri``, ``project``,
    ``subscribe`` or ``subscribePattern``…), from where the last run ended.

    Raises BadConfiguration; JobRefused when another process archives there, when the project's
    name is too long for a folder there, or when messages were lost and *go_on_after_loss* is off;
    and what Spark and Hadoop raise.
    """
    archive_settings = archive_settings or ArchiveSettings()
    began = time.monotonic()
    tables.check(archive_settings.format or tables.PARQUET)
    options = SourceOptions(BATCH, source)
    files = HadoopFolder(spark, target)
    with (
        StoreConnections(store_config(options)) as stores,
        lock.held(files) as held,
        layout.settings(spark),
    ):
        stores.check()
        settings.check_project(files, options["project"])
        log = TransactionLog(files)
        table = tables.opened(files, settings.head(files, log, archive_settings))
        committer = Committer(files, log, table, held)
        work = ArchiveRun(
            archive_settings,
            options["project"],
            ArchivePlanner(options, stores, fail=not archive_settings.go_on_after_loss),
            BatchStager(
                spark,
                files,
                arguments.part_options(spark, source)
                | {
                    "project": options["project"],
                    "failOnDataLoss": str(not archive_settings.go_on_after_loss).lower(),
                },
            ),
            committer,
            Compactor(spark, files, log, table, committer),
        )
        with (
            stop_on_signal() as stop,
            progress_bar(spark, "archiving", quiet=archive_settings.quiet),
        ):
            work.run(stop)
    return _report(files.root, work, time.monotonic() - began)


def _report(target: str, work: ArchiveRun, seconds: float) -> JobReport:
    totals = work.totals
    counts: dict[str, int | Mapping[str, int]] = {
        "ranks read": {
            "archived": totals.rows,
            "deleted or expired before": totals.ranks - totals.rows,
        },
        "messages archived": dict(sorted(totals.by_queue.items())),
    }
    if work.stopped_by is not None:
        counts["ranks left"] = dict(sorted(work.left.items()))
    return JobReport(
        job=NAME,
        counts=counts,
        seconds=seconds,
        details={"target": target, **work.details()},
        good=not work.damaged,
        stopped_by=work.stopped_by,
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: it must be a whole number, at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text}: it must be a number of seconds, 0.1 to 86400")
    return value


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
