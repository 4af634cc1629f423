# SPDX-License-Identifier: Apache-2.0
"""What is analysed: live queues or an archive, and what counters say of live ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import printable
from zaqar_redis.spark.jobs.archiving import reading
from zaqar_redis.spark.options import BATCH, Options
from zaqar_redis.spark.stores import Place, Stores, where
from zaqar_redis.spark.subscribed import Subscribed
from zaqar_redis.storage.drivers.redis.queues import Queues

#: Of each message: the columns that are read, claims of live ones besides.
_COLUMNS = ("queue", "epoch", "rank", "body", "created", "expires", "delay", "dead_letter_from")
_OF_CLAIMS = ("claim_expires", "claim_count")
#: Queues of which tables hold no more than this: their names come to the driver.
QUEUES_MAX = 10_000


@dataclass(frozen=True)
class Now:
    """What a queue holds at the moment, as its store counts it."""

    queue: str
    total: int
    claimed: int
    delayed: int
    #: seconds; None: it is empty
    oldest_age: int | None

    @property
    def free(self) -> int:
        return self.total - self.claimed - self.delayed


@dataclass(frozen=True)
class Input:
    #: columns `MESSAGE`
    messages: DataFrame
    #: by queue; empty for an archive
    now: Sequence[Now]
    live: bool
    #: for people, without a password
    named: str
    project: str
    #: the moment that ages are counted to
    at: datetime

    def with_messages(self, messages: DataFrame) -> Input:
        return replace(self, messages=messages)


def live(spark: SparkSession, source: Mapping[str, str]) -> Input:
    """Raises BadConfiguration."""
    options = Options(BATCH, source)
    at = where(options)
    with Stores(at) as stores:
        stores.check()
        subscribed = Subscribed(options, stores)
        names = [ends.queue for ends in subscribed.present()]
        _check_number(names)
        now = [_now(stores, name) for name in names]
        # The time of messages is the store's.
        seconds, micros = map(int, stores.client(at.uri).command("TIME"))
    given = {**source, "columns": ",".join(_COLUMNS + _OF_CLAIMS)}
    frame = spark.read.format("zaqar").options(**given).load()
    return Input(
        messages=_projected(frame),
        now=now,
        live=True,
        named=printable(at.uri),
        project=at.project,
        at=datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros),
    )


def archived(
    spark: SparkSession,
    target: str,
    project: str,
    queues: Sequence[str] | None,
    pattern: str | None,
) -> Input:
    """Raises BadConfiguration, and Refused when files of the archive are missing."""
    archive = reading.opened(spark, target)
    known = archive.offsets(project, queues)
    names = [name for name in sorted(known) if pattern is None or re.fullmatch(pattern, name)]
    _check_number(names)
    frame = archive.messages(project, names)
    none = {name: F.lit(None).cast("timestamp") for name in _OF_CLAIMS[:1]}
    claims = none | {_OF_CLAIMS[1]: F.lit(0)}
    return Input(
        messages=_projected(frame.withColumns(claims)),
        now=(),
        live=False,
        named=printable(target),
        project=project,
        at=datetime.now(UTC),
    )


def _check_number(names: Sequence[str]) -> None:
    if len(names) > QUEUES_MAX:
        raise errors.BadConfiguration(
            f"--pattern: {len(names)} queues match, and one report has {QUEUES_MAX} at most"
        )


def _projected(frame: DataFrame) -> DataFrame:
    """What is counted: nothing here is longer than a name."""
    bodies = F.octet_length("body").cast("long").alias("bytes")
    return frame.select(*[name for name in _COLUMNS if name != "body"], *_OF_CLAIMS, bodies)


def _now(stores: Stores, queue: str) -> Now:
    project = stores.where.project

    def look(place: Place) -> Now:
        client = stores.client(place.uri)
        # This settles what time has changed, so that the counter behind it is right.
        stats = Queues(client, clock.store).stats(project, queue).run()
        delayed = int(client.command("ZCARD", keys.of_queue(project, queue).delayed))
        age = stats.oldest.age if stats.oldest is not None else None
        return Now(queue, stats.total, stats.claimed, delayed, age)

    return stores.patiently(queue, look)
