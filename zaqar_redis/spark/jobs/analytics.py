# SPDX-License-Identifier: Apache-2.0
"""Analyse queues, live or archived: tables as Parquet, and a report with plots.

Messages are counted by the time they were posted (--window), by age, delay and remaining
TTL, by claim count, and by the queue that dead letters came from; the store counts what each
queue holds now. Bodies are measured, never read. Stored messages do not show how long their
delivery took: the report says so.

TARGET gets a folder for each table (queues, throughput, backlog, ages, claims,
dead_letters) and report.html, one file that needs no network and no script. An earlier
report is replaced. Plots need matplotlib: pip install '.[report]'.

Example:

    zaqar-redis pipeline analytics --storage redis://10.0.0.5:6379 --pattern '.*' report
    zaqar-redis pipeline analytics --archive s3a://lake/queues --window '1 hour' report
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zaqar_redis import errors
from zaqar_redis.spark.jobs import arguments, running
from zaqar_redis.spark.jobs.analysing import inputs, windows
from zaqar_redis.spark.jobs.analysing.inputs import AnalyticsInput
from zaqar_redis.spark.jobs.analysing.summary import Summary, summary
from zaqar_redis.spark.jobs.analysing.tables import ReportTables
from zaqar_redis.spark.jobs.archiving import damage, layout
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.report import JobReport

NAME = "analytics"

WINDOW = "1 minute"
REPORT = "report.html"
#: Marks a folder of this job: its content may be replaced.
_MARKER_FILE = "_zaqar-analytics.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="folder or URI for tables and report")
    arguments.add_queues(parser, default="all, of an archive")
    parser.add_argument(
        "--archive", metavar="PATH", help="analyse this archive instead of the live queues"
    )
    parser.add_argument(
        "--window",
        default=WINDOW,
        help=f"length of a time window ({WINDOW}); widened where there would be more than "
        f"{windows.MAX_WINDOWS}",
    )


def check(parsed: argparse.Namespace) -> None:
    if parsed.archive is None and parsed.queue is None and parsed.pattern is None:
        raise errors.BadConfiguration("one of --queue, --pattern and --archive must be given")
    windows.seconds(parsed.window)
    _check_libraries()


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    return analytics(
        spark,
        parsed.target,
        arguments.source_options(parsed),
        archive=parsed.archive,
        window=parsed.window,
        quiet=parsed.quiet,
    )


@damage.read_errors_translated()
def analytics(
    spark: SparkSession,
    target: str,
    source: Mapping[str, str],
    *,
    archive: str | None = None,
    window: str = WINDOW,
    quiet: bool = True,
) -> JobReport:
    """Writes tables and report to the folder *target*.

    *source* are options of the data source; with *archive* they select its queues, and the
    archive is read instead.  Raises BadConfiguration, and JobRefused when files of the archive
    are missing or damaged, or tables do not add up.
    """
    begun = time.monotonic()
    wanted = windows.seconds(window)
    _check_libraries()
    # Imported only here: its libraries may not be installed.
    from zaqar_redis.spark.jobs.analysing.page import page

    out = ReportFolder(spark, target)
    out.check()
    if archive is None:
        given = inputs.live_input(spark, source)
    else:
        given = inputs.archive_input(spark, archive, source)
    with layout.settings(spark), progress_bar(spark, "analysing", quiet, counted=archive is None):
        messages = given.messages.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            given = replace(given, messages=messages)
            length = windows.widen(wanted, _span(given))
            out.begin()
            tables = ReportTables(spark, given, length).all()
            written = {name: out.table(name, table) for name, table in tables.items()}
        finally:
            messages.unpersist()
        found = summary(written)
    widened_from = wanted if length != wanted else None
    out.write_file(REPORT, page(given, length, widened_from, found))
    return _report(given, length, widened_from, found, out, time.monotonic() - begun)


class ReportFolder(HadoopFolder):
    def __init__(self, spark: SparkSession, target: str) -> None:
        super().__init__(spark, target)
        self._spark = spark

    def check(self) -> None:
        """Raises BadConfiguration when the folder holds something else."""
        if self.names("") and not self.exists(_MARKER_FILE):
            raise errors.BadConfiguration(
                f"TARGET: {self.root} is not empty, and was not created by this job"
            )

    def begin(self) -> None:
        self.write(_MARKER_FILE, {"version": 1})

    def table(self, name: str, table: DataFrame) -> DataFrame:
        """Writes a table, and returns it as read back."""
        path = self.at(name)
        table.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def write_file(self, name: str, text: str) -> None:
        """Writes a file atomically."""
        half = f"_{name}"
        self.write_text(half, text)
        self.remove(name)
        self.move(half, name)


def _check_libraries() -> None:
    for library, does in (("matplotlib", "drawn"), ("jinja2", "written")):
        if find_spec(library) is None:
            raise errors.BadConfiguration(
                f"the report is {does} by {library}, which is not installed: "
                "pip install '.[report]'"
            )


def _span(given: AnalyticsInput) -> float:
    """Returns the seconds from the first message to the last."""
    ends = given.messages.agg(F.min("created"), F.max("created")).collect()[0]
    first, last = ends
    return 0.0 if first is None else float((last - first).total_seconds())


def _report(
    about: AnalyticsInput,
    length: int,
    widened_from: int | None,
    found: Summary,
    out: ReportFolder,
    seconds: float,
) -> JobReport:
    totals = found.totals
    shown = {str(row["queue"]): int(row["messages"]) for row in found.queues}
    others = totals.messages - sum(shown.values())
    window = windows.describe(length)
    if widened_from is not None:
        finer = windows.describe(widened_from)
        window += f" (widened: of {finer} there would be more than {windows.MAX_WINDOWS})"
    counts: dict[str, int | Mapping[str, int]] = {
        "messages read": shown | ({"in other queues": others} if others else {}),
        "queues": totals.queues,
    }
    if about.live:
        counts["messages by claims"] = {
            "claimed now": found.claimed_now,
            "not claimed": totals.messages - found.claimed_now,
        }
    return JobReport(
        job=NAME,
        counts=counts,
        seconds=seconds,
        details={
            "messages": totals.messages,
            "bytes": totals.bytes,
            "windows": totals.windows,
            "window": window,
            "dead letters": totals.dead_letters,
            "as of": about.at.isoformat(timespec="seconds"),
            "report": out.at(REPORT),
        },
    )


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[running.MAIN]))
