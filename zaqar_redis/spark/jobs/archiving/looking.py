# SPDX-License-Identifier: Apache-2.0
"""Whether the files of an archive are those that were written: names, sizes, rows.

One pass over the footers, by Spark's tasks; no page is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.archiving import damage, layout
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.jobs.archiving.inventory import Content

#: The first and the last day, included; None: no limit.
Dates = tuple[date | None, date | None]
ALWAYS: Dates = (None, None)


@dataclass(frozen=True)
class Part:
    """What of an archive is to be read."""

    project: str
    #: None: all
    queues: frozenset[str] | None = None
    dates: Dates = ALWAYS

    def of(self, frame: DataFrame) -> DataFrame:
        """Of all messages; whole folders are left out."""
        first, last = self.dates
        frame = frame.where(F.col("project") == self.project)
        if self.queues is not None:
            frame = frame.where(F.col("queue").isin(sorted(self.queues)))
        if first is not None:
            frame = frame.where(F.col("date") >= F.lit(first))
        if last is not None:
            frame = frame.where(F.col("date") <= F.lit(last))
        return frame

    def has(self, name: str) -> bool:
        """Whether a file is in one of the folders that `of` leaves."""
        said = layout.values(name)
        day = date.fromisoformat(said["date"])
        first, last = self.dates
        return (
            said["project"] == self.project
            and (self.queues is None or said["queue"] in self.queues)
            and (first is None or first <= day)
            and (last is None or day <= last)
        )


@dataclass(frozen=True)
class Look:
    """Files by name, those of the part that was looked at."""

    #: of all files that are there
    frame: DataFrame
    #: None: it is only known that it is to be there
    expected: Mapping[str, Content | None]
    found: Mapping[str, Content]
    #: what is wrong with a file
    wrong: dict[str, str]
    #: not all footers could be read
    unreadable: bool = False


@damage.noticed()
def found(frame: DataFrame, files: Files) -> dict[str, Content]:
    """What is in the files of a frame.  Raises damage.Unreadable."""
    names = ("file_path", "file_size")
    rows = frame.select(*[f"_metadata.{name}" for name in names]).groupBy(*names).count().collect()
    return {files.below(row.file_path): Content(row["count"], row.file_size) for row in rows}


def wrong(expected: Mapping[str, Content | None], found: Mapping[str, Content]) -> dict[str, str]:
    """By name, what is wrong with files that are expected."""
    said = {}
    for name, content in expected.items():
        there = found.get(name)
        if there is None:
            had = f": {content.rows} messages were archived in it" if content is not None else ""
            said[name] = f"is missing{had}"
        elif content is not None and there != content:
            said[name] = (
                f"is not what was archived: {_said(content)} were, and it has {_said(there)}"
            )
    return said


def _said(content: Content) -> str:
    return f"{content.rows} messages in {content.size} bytes"
