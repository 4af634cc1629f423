# SPDX-License-Identifier: Apache-2.0
"""Compare an archive with the live queues: what is missing, double or changed.

  zaqar-redis pipeline audit --storage redis://store --list found.csv s3a://lake/queues

Archived messages that are no longer live are no findings: they were deleted, or they
expired.  The next run of archive adds live ones behind the rank up to which their queue is
archived.  The exit code is 1 when a live message before that rank is not in the archive, when
the archive has a message more than once or with other content than the live one, and when
files of the archive are missing or differ from what was archived.

Messages are identified by queue, epoch and rank; their content, body and attributes, is
compared by xxhash64.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs import arguments, audit_findings, running
from zaqar_redis.spark.jobs.archiving import damage, reading
from zaqar_redis.spark.jobs.progress import progress_bar
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.options import BATCH, SourceOptions
from zaqar_redis.spark.reading.selection import QueueSelection
from zaqar_redis.spark.stores import StoreConnections, store_config

NAME = "audit"

#: Files that a report names: of a lost folder there may be thousands.
_FILES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="folder or URI of the archive")
    arguments.add_queues(parser, default="all that are archived")
    parser.add_argument(
        "--list", metavar="FILE", help="write the findings to this file, .csv or .jsonl"
    )


def check(parsed: argparse.Namespace) -> None:
    if parsed.list is not None:
        audit_findings.check_list(parsed.list)


def run(spark: SparkSession, parsed: argparse.Namespace) -> JobReport:
    return audit(spark, parsed.target, arguments.source_options(parsed), parsed.list, parsed.quiet)


@damage.read_errors_translated()
def audit(
    spark: SparkSession,
    target: str,
    source: dict[str, str],
    listing: str | None = None,
    quiet: bool = True,
) -> JobReport:
    """Compares the archive at *target* with the store of the *source* options.

    ``subscribe`` or ``subscribePattern`` choose among the archived queues; without them all
    are compared.  *listing* is a file for the findings.  Raises BadConfiguration, and
    JobRefused when a file of the archive cannot be read.
    """
    began = time.monotonic()
    if listing is not None:
        audit_findings.check_list(listing)
    archive = reading.ArchiveReader(spark, target)
    if not any(name.lower() in arguments.SELECTING for name in source):
        source = {**source, "subscribePattern": ".*"}
    options = SourceOptions(BATCH, source)
    # Read before the files: messages archived meanwhile are then in both, not missing.
    queues = archive.selected(options)
    with StoreConnections(store_config(options)) as stores:
        stores.check()
        selection = QueueSelection(options, stores)
        present = [queue for queue in queues if selection.snapshot(queue) is not None]
    archived, wrong = archive.messages_as_found(options["project"], list(queues))
    live = audit_findings.read_live(spark, source, present)
    messages = audit_findings.compare(spark, archived, live, queues)
    with progress_bar(spark, "auditing", quiet=quiet):
        # Both passes must see the same rows; they are a few numbers for each message.
        messages = messages.persist(StorageLevel.DISK_ONLY) if listing else messages
        counts = audit_findings.count_findings(messages, time.time())
        found = audit_findings.write_findings(messages, listing) if listing else None
        messages.unpersist()
    files = [f"{name} {what}" for name, what in sorted(wrong.items())]
    return _report(target, counts, files, listing, found, time.monotonic() - began)


def _report(
    target: str,
    queues: Mapping[str, Mapping[str, Any]],
    files: Sequence[str],
    listing: str | None,
    found: int | None,
    seconds: float,
) -> JobReport:
    def total(name: str) -> int:
        return sum(queue[name] for queue in queues.values())

    double = total("rows in the archive") - total("archived")
    return JobReport(
        job=NAME,
        counts={
            "rows in the archive": {"messages": total("archived"), "doubles": double},
            "messages archived": {
                "live, the same": total("both"),
                "live, but changed": total(audit_findings.CHANGED),
                "expired since": total("expired"),
                "deleted since": total("deleted"),
            },
            "messages live": {
                "archived, the same": total("both"),
                "archived, but changed": total(audit_findings.CHANGED),
                "newer than the archive": total("newer"),
                "missing in the archive": total(audit_findings.MISSING),
            },
        },
        seconds=seconds,
        details={"target": target, "queues": dict(queues)}
        | ({"files missing or changed": _some(files)} if files else {})
        | ({"listed": {"file": listing, "findings": found}} if listing else {}),
        good=not (
            double or total(audit_findings.CHANGED) or total(audit_findings.MISSING) or files
        ),
    )


def _some(files: Sequence[str]) -> list[str]:
    more = len(files) - _FILES
    return [*files[:_FILES], f"and {more} more"] if more > 0 else list(files)


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
