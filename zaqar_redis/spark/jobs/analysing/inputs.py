# SPDX-License-Identifier: Apache-2.0
"""Input of the analysis: live queues with their counters, or an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zaqar_redis import clock, errors
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.records import Stats
from zaqar_redis.spark.jobs.archiving import reading
from zaqar_redis.spark.options import BATCH, SourceOptions
from zaqar_redis.spark.reading.selection import QueueSelection
from zaqar_redis.spark.stores import StoreConnections, StoreLocation, store_config
from zaqar_redis.storage.redis.queues import RedisQueues

#: Columns that are read of each message; of live ones those of claims too.
_COLUMNS = ("queue", "epoch", "rank", "body", "created", "expires", "delay", "dead_letter_from")
_OF_CLAIMS = ("claim_expires", "claim_count")
#: Largest number of queues in a report: their names come to the driver.
QUEUES_MAX = 10_000


@dataclass(frozen=True)
class AnalyticsInput:
    #: columns `MESSAGE`
    messages: DataFrame
    #: what stores count now, by queue; empty for an archive
    now: Mapping[str, Stats]
    live: bool
    #: URI for display, without a password
    named: str
    project: str
    #: the time to which ages are counted
    at: datetime


def live_input(spark: SparkSession, source: Mapping[str, str]) -> AnalyticsInput:
    """Returns live queues as input.  Raises BadConfiguration."""
    options = SourceOptions(BATCH, source)
    config = store_config(options)
    with StoreConnections(config) as stores:
        stores.check()
        selection = QueueSelection(options, stores)
        names = [snapshot.queue for snapshot in selection.snapshots()]
        _check_number(names)
        now = {name: _stats(stores, name) for name in names}
        # Times of messages come from the store's clock.
        seconds, micros = map(int, stores.client(config.uri).command("TIME"))
    given = {**source, "columns": ",".join(_COLUMNS + _OF_CLAIMS)}
    frame = spark.read.format("zaqar").options(**given).load()
    return AnalyticsInput(
        messages=_projected(frame),
        now=now,
        live=True,
        named=redact_password(config.uri),
        project=config.project,
        at=datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros),
    )


def archive_input(spark: SparkSession, target: str, source: Mapping[str, str]) -> AnalyticsInput:
    """Returns the queues of an archive that options of the data source select as input.

    Raises BadConfiguration, and JobRefused when files of the archive are missing.
    """
    # They are checked like those of a live read, but there is no store.
    options = SourceOptions(BATCH, source)
    archive = reading.ArchiveReader(spark, target)
    names = sorted(archive.selected(options))
    _check_number(names)
    frame = archive.messages(options["project"], names)
    none = {name: F.lit(None).cast("timestamp") for name in _OF_CLAIMS[:1]}
    claims = none | {_OF_CLAIMS[1]: F.lit(0)}
    return AnalyticsInput(
        messages=_projected(frame.withColumns(claims)),
        now={},
        live=False,
        named=redact_password(target),
        project=options["project"],
        at=datetime.now(UTC),
    )


def _check_number(names: Sequence[str]) -> None:
    if len(names) > QUEUES_MAX:
        raise errors.BadConfiguration(
            f"--pattern: {len(names)} queues match, and one report has {QUEUES_MAX} at most"
        )


def _projected(frame: DataFrame) -> DataFrame:
    """Returns the columns that are counted, with sizes instead of bodies."""
    bodies = F.octet_length("body").cast("long").alias("bytes")
    return frame.select(*[name for name in _COLUMNS if name != "body"], *_OF_CLAIMS, bodies)


def _stats(stores: StoreConnections, queue: str) -> Stats:
    def fetch(location: StoreLocation) -> Stats:
        queues = RedisQueues(stores.client(location.uri), clock.store)
        return queues.stats(stores.config.project, queue).run()

    return stores.with_retry(queue, fetch)
