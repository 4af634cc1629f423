# SPDX-License-Identifier: Apache-2.0
"""Compare an archive with the live queues: what is missing, double or changed.

  zaqar-redis pipeline audit --storage redis://store --list found.csv s3a://lake/queues

Archived messages that are live no more are as they should be: they were deleted, or they
expired.  Live ones behind the rank up to which their queue is archived come with the next
archiving.  The exit code is 1 when a live message before that rank is not in the archive,
when a message is there more than once, or when it has another body than the live one; and
when files of the archive are missing, or are not what was archived.

Messages are told apart by queue, epoch and rank, bodies by xxhash64.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs import auditing, running
from zaqar_redis.spark.jobs.archiving import damage, reading
from zaqar_redis.spark.jobs.progress import watched
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.options import BATCH, Options
from zaqar_redis.spark.stores import Stores, where
from zaqar_redis.spark.subscribed import Subscribed

NAME = "audit"

#: Files that a report names: of a lost folder there may be thousands.
_FILES = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="folder or URI of the archive")
    some = parser.add_mutually_exclusive_group()
    some.add_argument(
        "--queue",
        action="append",
        metavar="QUEUE",
        help="a queue; may be given more than once (all that are archived)",
    )
    some.add_argument("--pattern", help="queues whose whole name matches, e.g. 'orders-.*'")
    parser.add_argument(
        "--list", metavar="FILE", help="write what is wrong there, as .csv or .jsonl"
    )


def check(parsed: argparse.Namespace) -> None:
    if parsed.list is not None:
        auditing.check_list(parsed.list)


def run(spark: SparkSession, parsed: argparse.Namespace) -> Report:
    return audit(spark, parsed.target, running.source(parsed), parsed.list, parsed.quiet)


@damage.noticed()
def audit(
    spark: SparkSession,
    target: str,
    source: dict[str, str],
    listing: str | None = None,
    quiet: bool = True,
) -> Report:
    """Compare the archive at *target* with the store of the *source* options.

    ``subscribe`` or ``subscribePattern`` choose among the archived queues; without them it
    is all.  *listing* is a file for what is found.  Raises BadConfiguration, and Refused when
    a file of the archive cannot be read.
    """
    began = time.monotonic()
    if listing is not None:
        auditing.check_list(listing)
    archive = reading.opened(spark, target)
    options = Options(BATCH, source if _chosen(source) else {**source, "subscribePattern": ".*"})
    # Before the files: what is archived meanwhile is in both then, and not missing.
    queues = archive.offsets(options["project"], options["subscribe"])
    if pattern := options["subscribePattern"]:
        queues = {name: at for name, at in queues.items() if pattern.fullmatch(name)}
    with Stores(where(options)) as stores:
        stores.check()
        subscribed = Subscribed(options, stores)
        present = [queue for queue in queues if subscribed.ends(queue) is not None]
    archived, wrong = archive.whatever(options["project"], list(queues))
    messages = auditing.compared(
        spark,
        archived,
        auditing.live(spark, source, present),
        queues,
    )
    with watched(spark, "auditing", quiet=quiet):
        # Both looks at it are to see the same; it is a few numbers for each message.
        messages = messages.persist(StorageLevel.DISK_ONLY) if listing else messages
        counts = auditing.counted(messages, time.time())
        found = auditing.listed(messages, listing) if listing else None
        messages.unpersist()
    files = [f"{name} {what}" for name, what in sorted(wrong.items())]
    return _report(target, counts, files, listing, found, time.monotonic() - began)


def _chosen(source: Mapping[str, str]) -> bool:
    return any(name.lower() in ("subscribe", "subscribepattern") for name in source)


def _report(
    target: str,
    queues: Mapping[str, Mapping[str, Any]],
    files: Sequence[str],
    listing: str | None,
    found: int | None,
    seconds: float,
) -> Report:
    def total(name: str) -> int:
        return sum(queue[name] for queue in queues.values())

    double = total("rows in the archive") - total("archived")
    return Report(
        job=NAME,
        counts={
            "rows in the archive": {"messages": total("archived"), "doubles": double},
            "messages archived": {
                "live, the same": total("both"),
                "live, but changed": total(auditing.CHANGED),
                "expired since": total("expired"),
                "deleted since": total("deleted"),
            },
            "messages live": {
                "archived, the same": total("both"),
                "archived, but changed": total(auditing.CHANGED),
                "newer than the archive": total("newer"),
                "missing in the archive": total(auditing.MISSING),
            },
        },
        seconds=seconds,
        details={"target": target, "queues": dict(queues)}
        | ({"files missing or changed": _some(files)} if files else {})
        | ({"listed": {"file": listing, "findings": found}} if listing else {}),
        good=not (double or total(auditing.CHANGED) or total(auditing.MISSING) or files),
    )


def _some(files: Sequence[str]) -> list[str]:
    more = len(files) - _FILES
    return [*files[:_FILES], f"and {more} more"] if more > 0 else list(files)


if __name__ == "__main__":
    sys.exit(running.main(sys.modules[__name__]))
