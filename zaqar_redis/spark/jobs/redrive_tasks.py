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
from zaqar_redis.records import NewMessage, RawClaim
from zaqar_redis.spark import columns, decode
from zaqar_redis.spark.decode import MessageSource
from zaqar_redis.spark.jobs.tasks import OutcomeCounts, RateLimiter
from zaqar_redis.spark.stores import StoreConfig, StoreConnections, StoreLocation
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage.redis.bulk.dead_letters import RedisDeadLetters
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges
from zaqar_redis.storage.redis.messages import RedisMessages

SCHEMA = columns.schema_of(",".join([*columns.default_schema().names, "checksum"]))

#: Outcomes of a dead letter.
MOVED, ALREADY_THERE, FILTERED, NO_ORIGIN = "moved", "already there", "filtered", "no origin"
BEYOND_LIMIT = "beyond the limit"
#: Stands for the origin of a message that has none.
NO_ORIGIN_QUEUE = "(none)"

#: Messages of one round trip, and their bytes: a script blocks Redis, and a rate comes in
#: bursts of this size.
CHUNK = 200
_CHUNK_BYTES = 1024 * 1024


@dataclass
class _ClaimsPartition(InputPartition):
    claims: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class _ClaimsReader(DataSourceReader):
    def __init__(self, config: StoreConfig, queue: str, parts: Sequence[_ClaimsPartition]) -> None:
        self._config = config
        self._queue = queue
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with StoreConnections(self._config) as stores:
            for claim in cast(_ClaimsPartition, partition).claims:
                found = self._messages(stores, claim)
                if found is not None:
                    yield found

    def _messages(self, stores: StoreConnections, claim: str) -> pa.RecordBatch | None:
        """Returns the messages of a claim; None: the claim has ended."""
        project = self._config.project

        def fetch(location: StoreLocation) -> tuple[StoreLocation, RawClaim | None]:
            ranges = RedisRanges(stores.client(location.uri), clock.store)
            return location, ranges.raw_claim(project, self._queue, claim).run()

        location, held = stores.with_retry(self._queue, fetch)
        if held is None or not held.ranks:
            return None
        source = MessageSource(project, self._queue, location.pool, held.epoch)
        held_until = [float(held.until)] * len(held.ranks)
        ranks = list(map(int, held.ranks))
        found = decode.rows(source, ranks, held.envelopes, held.holds, held_until)
        return decode.batch(source, tuple(SCHEMA.names), found, held.now)


def claimed_messages(
    spark: SparkSession, config: StoreConfig, queue: str, claims: Sequence[str], parts: int
) -> DataFrame:
    """Returns the messages that claims hold, read by *parts* tasks."""
    split = [_ClaimsPartition(tuple(claims[part::parts])) for part in range(parts)]

    class Claims(DataSource):
        @classmethod
        def name(cls) -> str:
            return "zaqar-claims"

        def schema(self) -> StructType:
            return SCHEMA

        def reader(self, schema: StructType) -> _ClaimsReader:
            return _ClaimsReader(config, queue, split)

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
                    for chunk in _chunks(dead_letters):
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
    body: bytes = row["body"]
    new_message = NewMessage(body=body, checksum=row["checksum"] or b"", encrypted=row["encrypted"])
    tail = envelope.tail(new_message, envelope.client_bytes(row["client_id"]))
    return _DeadLetter(row["id"], row["ttl"], tail, len(body))


def _chunks(dead_letters: Sequence[_DeadLetter]) -> Iterator[list[_DeadLetter]]:
    chunk: list[_DeadLetter] = []
    size = 0
    for dead_letter in dead_letters:
        if chunk and (len(chunk) == CHUNK or size + dead_letter.size > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(dead_letter)
        size += dead_letter.size
    if chunk:
        yield chunk
