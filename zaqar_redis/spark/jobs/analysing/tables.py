# SPDX-License-Identifier: Apache-2.0
"""The tables of a report, computed by Spark; their size does not grow with the queues."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.analysing.inputs import AnalyticsInput

#: Lower edges of histogram bars, in seconds; the last bar has no end.
HISTOGRAM_EDGES = (
    *(0, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800),
    *(3600, 2 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400, 30 * 86_400),
    *(90 * 86_400, 365 * 86_400),
)
#: Claim count from which on messages are counted together.
CLAIMS_MAX = 20
#: Seconds before its end in which a claim counts as expiring soon.
SOON_SECONDS = 60
#: Percentiles of ages, and their accuracy: one part in so many of the messages.
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_ACCURACY = 1000

_NOW = "queue string, total_now long, claimed_now long, delayed_now long, oldest_age_now long"


class ReportTables:
    def __init__(self, spark: SparkSession, given: AnalyticsInput, window: int) -> None:
        """*window* is in seconds."""
        self._spark = spark
        self._given = given
        self._messages = given.messages
        self._at = F.lit(given.at)
        self._window = window

    def all(self) -> Mapping[str, DataFrame]:
        """Returns the tables by name of their folder."""
        return {
            "queues": self._queues(),
            "throughput": self._throughput(),
            "backlog": self._backlog(),
            "ages": self._ages(),
            "claims": self._claims(),
            "dead_letters": self._dead_letters(),
        }

    def _queues(self) -> DataFrame:
        """Returns a row for each queue: what was read, and what its store counts now."""
        age = self._seconds(self._at, F.col("created"))
        ranks = list(PERCENTILES.values())
        read = self._messages.groupBy("queue").agg(
            F.count("*").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.min("created").alias("first_created"),
            F.max("created").alias("last_created"),
            F.percentile_approx(age, ranks, _ACCURACY).alias("ages"),
            F.max(age).alias("age_max"),
        )
        percentiles = {f"age_{name}": F.col("ages")[at] for at, name in enumerate(PERCENTILES)}
        now = self._spark.createDataFrame(
            [(queue, each.total, each.claimed, each.delayed, each.oldest and each.oldest.age)
             for queue, each in self._given.now.items()],
            _NOW,
        )  # fmt: skip
        found = read.withColumns(percentiles).drop("ages").join(now, "queue", "full")
        return found.fillna(0, ["messages", "bytes"]).coalesce(1).sortWithinPartitions("queue")

    def _throughput(self) -> DataFrame:
        """Returns messages and bytes by queue and window of ``created``."""
        return (
            self._messages.groupBy("queue", self._begin().alias("begin"))
            .agg(F.count("*").alias("messages"), F.sum("bytes").alias("bytes"))
            .withColumn("end", self._end())
            .withColumn("messages_per_second", F.col("messages") / self._window)
            .withColumn("bytes_per_second", F.col("bytes") / self._window)
            .select(
                *("queue", "begin", "end", "messages", "bytes"),
                *("messages_per_second", "bytes_per_second"),
            )
            .coalesce(1)
            .sortWithinPartitions("queue", "begin")
        )

    def _backlog(self) -> DataFrame:
        """Returns by queue, epoch and window: posted until then, and left of that.

        Ranks grow by one with each message, so the last rank of a window is the number
        posted until then, deleted ones included.
        """
        until_now = Window.partitionBy("queue", "epoch").orderBy("begin")
        return (
            self._messages.groupBy("queue", "epoch", self._begin().alias("begin"))
            .agg(F.count("*").alias("messages"), F.max("rank").alias("posted_until_then"))
            .withColumn("end", self._end())
            .withColumn("left_of_them", F.sum("messages").over(until_now))
            .withColumn("gone_of_them", F.col("posted_until_then") - F.col("left_of_them"))
            .select(
                *("queue", "epoch", "begin", "end", "messages"),
                *("posted_until_then", "left_of_them", "gone_of_them"),
            )
            .coalesce(1)
            .sortWithinPartitions("queue", "epoch", "begin")
        )

    def _ages(self) -> DataFrame:
        """Returns histograms by queue of *age*, *delay* and *ttl left*, in seconds."""
        seconds = {
            "age": self._seconds(self._at, F.col("created")),
            "delay": F.col("delay").cast("double"),
            "ttl left": self._seconds(F.col("expires"), self._at),
        }
        each = F.explode(
            F.array(
                *[
                    F.struct(F.lit(name).alias("what"), _bar(value).alias("bar"))
                    for name, value in seconds.items()
                ]
            )
        ).alias("each")
        edges = F.array(*[F.lit(edge) for edge in (*HISTOGRAM_EDGES, None)])
        return (
            self._messages.select("queue", each)
            .groupBy("queue", "each.what", "each.bar")
            .agg(F.count("*").alias("messages"))
            .withColumn("from_seconds", edges[F.col("bar")])
            .withColumn("to_seconds", edges[F.col("bar") + 1])
            .select("queue", "what", "from_seconds", "to_seconds", "messages")
            .coalesce(1)
            .sortWithinPartitions("queue", "what", "from_seconds")
        )

    def _claims(self) -> DataFrame:
        """Returns messages by queue and claim count; empty for an archive."""
        held = F.col("claim_expires") > self._at
        soon = held & (self._seconds(F.col("claim_expires"), self._at) < SOON_SECONDS)
        counted = F.least("claim_count", F.lit(CLAIMS_MAX))
        return (
            self._messages.where(F.lit(self._given.live))
            .groupBy("queue", F.coalesce(counted, F.lit(0)).alias("claim_count"))
            .agg(
                F.count("*").alias("messages"),
                F.count_if(held).alias("claimed_now"),
                F.count_if(soon).alias("lapsing_soon"),
            )
            .coalesce(1)
            .sortWithinPartitions("queue", "claim_count")
        )

    def _dead_letters(self) -> DataFrame:
        """Returns dead letters by their queue and the queue that they came from."""
        return (
            self._messages.where(F.col("dead_letter_from").isNotNull())
            .groupBy("queue", "dead_letter_from")
            .agg(
                F.count("*").alias("messages"),
                F.sum("bytes").alias("bytes"),
                F.min("created").alias("first_created"),
                F.max("created").alias("last_created"),
            )
            .coalesce(1)
            .sortWithinPartitions("queue", "dead_letter_from")
        )

    def _begin(self) -> Column:
        seconds = F.unix_timestamp("created")
        return F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(self._window)))

    def _end(self) -> Column:
        return F.timestamp_seconds(F.unix_timestamp("begin") + self._window)

    def _seconds(self, later: Column, earlier: Column) -> Column:
        """Returns the seconds between two times, at least 0."""
        micros = F.unix_micros(later) - F.unix_micros(earlier)
        return F.greatest(micros / 1e6, F.lit(0.0))


def _bar(value: Column) -> Column:
    """Returns the index of the histogram bar, from 0."""
    steps = [F.when(value >= edge, 1).otherwise(0) for edge in HISTOGRAM_EDGES[1:]]
    return sum(steps, F.lit(0))
