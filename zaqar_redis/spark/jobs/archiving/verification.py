# SPDX-License-Identifier: Apache-2.0
"""Verifies that files of an archive are those that were written: names, sizes, rows.

One pass over the footers, by Spark's tasks; no page is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.archiving import damage, layout
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import FileStats

#: The first and the last day, included; None: no limit.
Dates = tuple[date | None, date | None]
ALWAYS: Dates = (None, None)


@dataclass(frozen=True)
class ArchiveFilter:
    """The part of an archive to read."""

    project: str
    #: None: all
    queues: frozenset[str] | None = None
    dates: Dates = ALWAYS

    def of(self, frame: DataFrame) -> DataFrame:
        """Returns the part of a frame of all messages; whole folders are left out."""
        first, last = self.dates
        frame = layout.named(frame).where(F.col("project") == self.project)
        if self.queues is not None:
            frame = frame.where(F.col("queue").isin(sorted(self.queues)))
        if first is not None:
            frame = frame.where(F.col("date") >= F.lit(first))
        if last is not None:
            frame = frame.where(F.col("date") <= F.lit(last))
        return frame

    def has(self, name: str) -> bool:
        """Returns whether a file is in one of the folders that `of` selects."""
        values = layout.values(name)
        day = date.fromisoformat(values["date"])
        first, last = self.dates
        return (
            values["project"] == self.project
            and (self.queues is None or values["queue"] in self.queues)
            and (first is None or first <= day)
            and (last is None or day <= last)
        )


@dataclass(frozen=True)
class VerifiedFiles:
    """Files by name, of the part that was verified."""

    #: frame of all files that exist
    frame: DataFrame
    #: None: size and rows are not known
    expected: Mapping[str, FileStats | None]
    found: Mapping[str, FileStats]
    #: what is wrong with a file
    wrong: dict[str, str]
    #: not all footers could be read
    unreadable: bool = False


@damage.read_errors_translated()
def found(frame: DataFrame, files: HadoopFolder) -> dict[str, FileStats]:
    """Returns size and rows of the files of a frame.  Raises damage.UnreadableFile."""
    names = ("file_path", "file_size")
    rows = frame.select(*[f"_metadata.{name}" for name in names]).groupBy(*names).count().collect()
    return {files.below(row.file_path): FileStats(row["count"], row.file_size) for row in rows}


def wrong(
    expected: Mapping[str, FileStats | None], found: Mapping[str, FileStats]
) -> dict[str, str]:
    """Returns by name what is wrong with expected files."""
    texts = {}
    for name, content in expected.items():
        actual = found.get(name)
        if actual is None:
            had = f": {content.rows} messages were archived in it" if content is not None else ""
            texts[name] = f"is missing{had}"
        elif content is not None and actual != content:
            texts[name] = (
                f"is not what was archived: {_shown(content)} were, and it has {_shown(actual)}"
            )
    return texts


def _shown(content: FileStats) -> str:
    return f"{content.rows} messages in {content.size} bytes"
