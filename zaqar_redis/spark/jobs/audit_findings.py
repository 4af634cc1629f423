# SPDX-License-Identifier: Apache-2.0
"""Compares an archive with the live queues, message by message, in Spark."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from zaqar_redis import errors
from zaqar_redis.spark import columns
from zaqar_redis.spark.jobs import arguments
from zaqar_redis.spark.offsets import QueueOffset

_KEY = ("queue", "epoch", "rank")
_LIVE = ("queue", "epoch", "rank", "id", "body", "attributes")
_OFFSETS = StructType(
    [
        StructField("queue", StringType()),
        StructField("reached_epoch", StringType()),
        StructField("reached", LongType()),
    ]
)

#: Findings about a message.
MISSING, DOUBLE, CHANGED = "missing", "double", "changed"
_FINDING_COLUMNS = ("finding", "queue", "epoch", "rank", "id")


def read_live(spark: SparkSession, source: Mapping[str, str], queues: Sequence[str]) -> DataFrame:
    """Returns the messages of the queues, which must exist."""
    if not queues:
        return spark.createDataFrame([], columns.schema_of(",".join(_LIVE)))
    return (
        spark.read.format("zaqar")
        .options(
            **arguments.part_options(spark, source),
            subscribe=",".join(queues),
            columns=",".join(_LIVE),
        )
        .load()
    )


def compare(
    spark: SparkSession, archived: DataFrame, live: DataFrame, reached: Mapping[str, QueueOffset]
) -> DataFrame:
    """Returns a row for each message: which sides have it, and whether they are equal.

    *reached* has by queue the offset up to which it was archived.  Columns: queue, epoch,
    rank, id, copies (in the archive), is_live, expires, same (None: it is on one side only),
    below (whether its rank is before that offset).
    """
    rows = [(queue, entry["epoch"], entry["offset"]) for queue, entry in reached.items()]
    in_archive = (
        archived.select(*_KEY, "id", "expires", _hash().alias("hash"))
        .groupBy(*_KEY)
        .agg(
            F.count("*").alias("copies"),
            F.min("id").alias("archived_id"),
            F.max("expires").alias("expires"),
            F.min("hash").alias("least"),
            F.max("hash").alias("most"),
        )
    )
    in_store = live.select(*_KEY, "id", _hash().alias("live_hash"))
    both = in_archive.join(in_store, list(_KEY), "full_outer")
    known = both.join(F.broadcast(spark.createDataFrame(rows, _OFFSETS)), "queue", "left")
    same = (
        (F.col("id") == F.col("archived_id"))
        & (F.col("live_hash") == F.col("least"))
        & (F.col("live_hash") == F.col("most"))
    )
    below = (F.col("epoch") == F.col("reached_epoch")) & (F.col("rank") < F.col("reached"))
    return known.select(
        *_KEY,
        F.coalesce("id", "archived_id").alias("id"),
        F.coalesce("copies", F.lit(0)).alias("copies"),
        F.col("id").isNotNull().alias("is_live"),
        "expires",
        same.alias("same"),
        below.alias("below"),
    )


def _hash() -> Column:
    # Spark hashes no maps, as equal ones may differ in order; these have that of the message.
    return F.xxhash64("body", F.map_entries("attributes"))


def count_findings(messages: DataFrame, now: float) -> dict[str, dict[str, Any]]:
    """Returns counts by queue; *now* in seconds since 1970 decides what has expired."""
    archived, is_live = F.col("copies") > 0, F.col("is_live")
    gone = archived & ~is_live
    expired = F.col("expires") <= F.timestamp_micros(F.lit(round(now * 1_000_000)))
    rows = (
        messages.groupBy("queue")
        .agg(
            F.sum("copies").alias("rows in the archive"),
            _count(archived).alias("archived"),
            _count(is_live).alias("live"),
            _count(F.col("same")).alias("both"),
            _count(~F.col("same")).alias(CHANGED),
            _count(gone & expired).alias("expired"),
            _count(gone & ~expired).alias("deleted"),
            _count(is_live & ~archived & ~_below()).alias("newer"),
            _count(is_live & ~archived & _below()).alias(MISSING),
            F.sort_array(F.collect_set(F.when(archived, F.col("epoch")))).alias("epochs"),
        )
        .orderBy("queue")
        .collect()
    )
    return {row.queue: {key: row[key] for key in row.__fields__ if key != "queue"} for row in rows}


def _below() -> Column:
    return F.coalesce(F.col("below"), F.lit(False))


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def check_list(path: str) -> None:
    """Raises BadConfiguration when findings cannot be written to *path*."""
    if Path(path).suffix not in (".csv", ".jsonl"):
        raise errors.BadConfiguration(f"--list: {path} must end with .csv or .jsonl")
    try:
        with open(path, "a"):
            pass
    except OSError as error:
        raise errors.BadConfiguration(f"--list: {error}") from error


def write_findings(messages: DataFrame, path: str) -> int:
    """Writes a line for each finding; returns how many there are."""
    live_only = F.col("is_live") & (F.col("copies") == 0)
    found = F.array_compact(
        F.array(
            F.when(live_only & _below(), F.lit(MISSING)),
            F.when(F.col("copies") > 1, F.lit(DOUBLE)),
            F.when(~F.col("same"), F.lit(CHANGED)),
        )
    )
    rows = (
        messages.select(F.explode(found).alias("finding"), *_FINDING_COLUMNS[1:])
        .orderBy("queue", "epoch", "rank", "finding")
        .toLocalIterator()
    )
    count = 0
    with open(path, "w", newline="") as file:
        write = (
            _csv(file) if path.endswith(".csv") else lambda row: file.write(json.dumps(row) + "\n")
        )
        for row in rows:
            write(row.asDict())
            count += 1
    return count


def _csv(file: TextIO) -> Any:
    writer = csv.DictWriter(file, _FINDING_COLUMNS)
    writer.writeheader()
    return writer.writerow
