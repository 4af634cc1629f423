# SPDX-License-Identifier: Apache-2.0
"""The tasks of a redrive: read claims, post messages to their queues, delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zaqar_redis import clock
from zaqar_redis.keyspace import envelope
from zaqar_redis.rate_limiter import RateLimiter
from zaqar_redis.records import NewMessage
from zaqar_redis.spark import attributes, columns
from zaqar_redis.spark.jobs.tasks import OutcomeCounts, chunks
from zaqar_redis.spark.reading import claims
from zaqar_redis.spark.reading.claims import ClaimPartition, CountedClaim
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage.redis.bulk.dead_letters import RedisDeadLetters
from zaqar_redis.storage.redis.messages import RedisMessages

SCHEMA = columns.schema_of(",".join([*columns.default_schema().names, "attributes", "checksum"]))

#: Outcomes of a dead letter.
MOVED, ALREADY_THERE, FILTERED, NO_ORIGIN = "moved", "already there", "filtered", "no origin"
BEYOND_LIMIT = "beyond the limit"
#: Stands for the origin of a message that has none.
NO_ORIGIN_QUEUE = "(none)"


class _ClaimsReader(DataSourceReader):
    def __init__(self, config: StoreConfig, parts: Sequence[ClaimPartition]) -> None:
        self._config = config
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        planned = cast(ClaimPartition, partition)
        with StoreConnections(self._config) as stores:
            for claim, _ in planned.claims:
                found = claims.read(stores, planned.queue, claim, tuple(SCHEMA.names))
                if found is not None:
                    yield found


def claimed_messages(
    spark: SparkSession,
    config: StoreConfig,
    queue: str,
    claimed: Sequence[CountedClaim],
    parts: int,
) -> DataFrame:
    """Returns the messages that claims hold, read by *parts* tasks."""
    split = [ClaimPartition(queue, tuple(claimed[part::parts])) for part in range(parts)]

    class Claims(DataSource):
        @classmethod
        def name(cls) -> str:
            return "zaqar-claims"

        def schema(self) -> StructType:
            return SCHEMA

        def reader(self, schema: StructType) -> _ClaimsReader:
            return _ClaimsReader(config, split)

    spark.dataSource.register(Claims)
    return spark.read.format("zaqar-claims").load()


class _DeadLetter(NamedTuple):
    id: str
    ttl: int
    tail: bytes
    size: int


@dataclass(frozen=True)
class RedriveTask:
    """Moves the rows that are ``wanted``; serialized to tasks."""

    config: StoreConfig
    queue: str
    #: None: where each came from
    target: str | None
    #: messages to move at most; None: all
    limit: int | None
    #: messages a second; None: no limit
    rate: float | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> OutcomeCounts:
        """Raises StoreUnavailable."""
        counts: OutcomeCounts = Counter()
        pace = RateLimiter(self.rate)
        left = self.limit
        with StoreConnections(self.config) as stores, report_progress() as advance:
            for batch in batches:
                wanted, left = self._wanted(batch, left, counts)
                advance(batch.num_rows - sum(map(len, wanted.values())))
                for target, dead_letters in wanted.items():
                    for chunk in chunks(dead_letters):
                        pace.wait()
                        self._move(stores, target, chunk, counts)
                        pace.advance(len(chunk))
                        advance(len(chunk))
        return counts

    def _wanted(
        self, batch: pa.RecordBatch, left: int | None, counts: OutcomeCounts
    ) -> tuple[dict[str, list[_DeadLetter]], int | None]:
        """Returns the messages to move by target, and how many more may be moved."""
        found: dict[str, list[_DeadLetter]] = {}
        for row in batch.to_pylist():
            origin = row["dead_letter_from"] or NO_ORIGIN_QUEUE
            target = self.target or row["dead_letter_from"]
            if not row["wanted"]:
                counts[origin, FILTERED] += 1
            elif target is None:
                counts[origin, NO_ORIGIN] += 1
            elif left == 0:
                counts[origin, BEYOND_LIMIT] += 1
            else:
                left = None if left is None else left - 1
                found.setdefault(target, []).append(_dead_letter(row))
        return found, left

    def _move(
        self,
        stores: StoreConnections,
        target: str,
        dead_letters: Sequence[_DeadLetter],
        counts: OutcomeCounts,
    ) -> None:
        project = self.config.project
        posts = [(each.id, each.ttl, each.tail) for each in dead_letters]
        posted = stores.with_retry(
            target,
            lambda location: (
                RedisDeadLetters(stores.client(location.uri), clock.store)
                .post(project, target, posts)
                .run()
            ),
        )
        if posted is None:
            counts[target, NO_ORIGIN] += len(dead_letters)
            return
        # Even if the claim has ended: they are in their queue, and must not be posted twice.
        ids = [dead_letter.id for dead_letter in dead_letters]
        stores.with_retry(
            self.queue,
            lambda location: (
                RedisMessages(stores.client(location.uri), clock.store)
                .delete(project, self.queue, ids, claims=None, force=True)
                .run()
            ),
        )
        counts[target, MOVED] += posted
        counts[target, ALREADY_THERE] += len(dead_letters) - posted


def _dead_letter(row: dict[str, Any]) -> _DeadLetter:
    new_message = NewMessage(
        body=row["body"],
        checksum=row["checksum"] or b"",
        encrypted=row["encrypted"],
        attributes=attributes.given(row["attributes"]),
    )
    tail = envelope.tail(new_message, envelope.client_bytes(row["client_id"]))
    return _DeadLetter(row["id"], row["ttl"], tail, envelope.body_size(tail))
