# SPDX-License-Identifier: Apache-2.0
"""The numbers that the report shows: a few thousand out of the tables, on the driver."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.analysing.tables import HISTOGRAM_EDGES

#: Queues with a colour of their own, and with a row of their own, by number of messages.
_COLOURED, _LISTED = 5, 50
#: Bars of dead letters.
_DEAD_LETTER_BARS = 10
OTHERS = "all others"


@dataclass(frozen=True)
class ReportTotals:
    messages: int
    bytes: int
    queues: int
    windows: int
    dead_letters: int


@dataclass(frozen=True)
class Summary:
    totals: ReportTotals
    #: rows of the table `queues`, the largest ones
    queues: Sequence[Mapping[str, Any]]
    #: beginnings of windows, in order, empty ones left out
    begins: Sequence[datetime]
    #: by queue, or `OTHERS`: messages and bytes of each window
    messages: Mapping[str, Sequence[int]]
    bytes: Mapping[str, Sequence[int]]
    #: of each window: posted until its end, and what is left of that
    posted: Sequence[int]
    left: Sequence[int]
    #: by what: messages of each bar of `tables.HISTOGRAM_EDGES`
    histograms: Mapping[str, Sequence[int]]
    #: claim count -> messages; claimed now; expiring soon
    claims: Mapping[int, int]
    claimed_now: int
    lapsing_soon: int
    #: dead-letter queue, where they came from, messages; the largest ones
    dead_letters: Sequence[tuple[str, str, int]]


def summary(tables: Mapping[str, DataFrame]) -> Summary:
    """Summarizes the tables as written.  Raises JobRefused when they do not add up."""
    totals = _totals(tables)
    queues = [row.asDict() for row in _largest(tables["queues"], _LISTED).collect()]
    coloured = [str(row["queue"]) for row in queues[:_COLOURED]]
    label = F.when(F.col("queue").isin(coloured), F.col("queue")).otherwise(OTHERS)
    rows = (
        tables["throughput"]
        .groupBy("begin", label.alias("queue"))
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
        .collect()
    )
    begins = sorted({row["begin"] for row in rows})
    by_window = {(row["queue"], row["begin"]): row for row in rows}
    labels = [*coloured, *([OTHERS] if totals.queues > len(coloured) else [])]
    posted, left = _cumulated(tables["backlog"], begins)
    claims = tables["claims"].groupBy("claim_count").sum().collect()
    return Summary(
        totals=totals,
        queues=queues,
        begins=begins,
        messages={name: _series(by_window, name, begins, "messages") for name in labels},
        bytes={name: _series(by_window, name, begins, "bytes") for name in labels},
        posted=posted,
        left=left,
        histograms=_histograms(tables["ages"]),
        claims={row["claim_count"]: row["sum(messages)"] for row in claims},
        claimed_now=sum(row["sum(claimed_now)"] for row in claims),
        lapsing_soon=sum(row["sum(lapsing_soon)"] for row in claims),
        dead_letters=[
            (row["queue"], row["dead_letter_from"], row["messages"])
            for row in _largest(tables["dead_letters"], _DEAD_LETTER_BARS).collect()
        ],
    )


def _totals(tables: Mapping[str, DataFrame]) -> ReportTotals:
    of_queues, *others = [
        _sums(tables["queues"], "queue", "bytes"),
        _sums(tables["throughput"], "begin", "bytes"),
        _sums(tables["backlog"], "begin"),
        _sums(tables["ages"].where("what = 'age'"), "what"),
        _sums(tables["dead_letters"], "queue"),
    ]
    # In one query: each costs more to start than to run.
    row, in_time, *rest, dead_letters = [
        [int(value or 0) for value in each]
        for each in functools.reduce(DataFrame.unionAll, others, of_queues).collect()
    ]
    messages, size, queues = row
    counted = [messages, in_time[0], *[each[0] for each in rest]]
    if len(set(counted)) > 1 or in_time[1] != size:
        raise running.JobRefused(
            f"the tables do not add up, to {', '.join(map(str, counted))} messages: what Spark "
            "had read was lost and read again, when queues had changed; run this again"
        )
    return ReportTotals(messages, size, queues, in_time[2], dead_letters[0])


def _sums(table: DataFrame, distinct: str, size: str | None = None) -> DataFrame:
    """Returns sums of messages and bytes, and the number of different values of a column."""
    return table.agg(
        F.sum("messages"),
        F.sum(size) if size else F.lit(None).cast("long"),
        F.count_distinct(distinct),
    )


def _largest(table: DataFrame, number: int) -> DataFrame:
    return table.orderBy(F.desc("messages"), *table.columns[:2]).limit(number)


def _series(
    rows: Mapping[tuple[str, datetime], Any], name: str, begins: Sequence[datetime], what: str
) -> list[int]:
    return [int(rows[name, begin][what] or 0) if (name, begin) in rows else 0 for begin in begins]


def _cumulated(backlog: DataFrame, begins: Sequence[datetime]) -> tuple[list[int], list[int]]:
    """Returns for all queues, at the end of each window: posted until then, left of that."""
    earlier = Window.partitionBy("queue", "epoch").orderBy("begin")
    highest = F.max("posted_until_then").over(
        earlier.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    risen = F.col("highest") - F.lag("highest", 1, 0).over(earlier)
    rows = (
        backlog.withColumn("highest", highest)
        .withColumn("risen", risen)
        .groupBy("begin")
        .agg(F.sum("risen").alias("risen"), F.sum("messages").alias("messages"))
        .collect()
    )
    found = {row["begin"]: row for row in rows}
    posted, left = [], []
    posted_so_far = left_so_far = 0
    for begin in begins:
        posted_so_far += int(found[begin]["risen"])
        left_so_far += int(found[begin]["messages"])
        posted.append(posted_so_far)
        left.append(left_so_far)
    return posted, left


def _histograms(ages: DataFrame) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in ages.groupBy("what", "from_seconds").sum("messages").collect():
        bars = found.setdefault(row["what"], [0] * len(HISTOGRAM_EDGES))
        bars[HISTOGRAM_EDGES.index(row["from_seconds"])] = row["sum(messages)"]
    return found
