# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a redrive do: read claims, post letters where they belong, delete them."""

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
from zaqar_redis.records import Draft, Held
from zaqar_redis.spark import columns, decode
from zaqar_redis.spark.counting import counting
from zaqar_redis.spark.decode import Origin
from zaqar_redis.spark.jobs.tasks import Counts, Pace
from zaqar_redis.spark.stores import Place, Stores, Where
from zaqar_redis.storage.drivers.redis.letters import Letters
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.ranges import Ranges

SCHEMA = columns.named(",".join([*columns.default_schema().names, "checksum"]))

#: What becomes of a letter.
MOVED, THERE, FILTERED, NO_ORIGIN = "moved", "already there", "filtered", "no origin"
BEYOND = "beyond the limit"
#: Stands for the origin of a message that has none.
NOWHERE = "(none)"

#: Letters of one trip, and their bytes: a script holds Redis up, and a rate comes in lumps.
CHUNK = 200
_CHUNK_BYTES = 1024 * 1024


@dataclass
class _Part(InputPartition):
    claims: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class _Reader(DataSourceReader):
    def __init__(self, at: Where, queue: str, parts: Sequence[_Part]) -> None:
        self._where = at
        self._queue = queue
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with Stores(self._where) as stores:
            for claim in cast(_Part, partition).claims:
                found = self._messages(stores, claim)
                if found is not None:
                    yield found

    def _messages(self, stores: Stores, claim: str) -> pa.RecordBatch | None:
        """None: the claim has ended."""
        project = self._where.project

        def look(place: Place) -> tuple[Place, Held | None]:
            ranges = Ranges(stores.client(place.uri), clock.store)
            return place, ranges.of_claim(project, self._queue, claim).run()

        place, held = stores.patiently(self._queue, look)
        if held is None or not held.ranks:
            return None
        origin = Origin(project, self._queue, place.pool, held.epoch)
        ends = [float(held.until)] * len(held.ranks)
        found = decode.rows(origin, list(map(int, held.ranks)), held.envelopes, held.holds, ends)
        return decode.batch(origin, tuple(SCHEMA.names), found, held.now)


def letters(
    spark: SparkSession, at: Where, queue: str, claims: Sequence[str], parts: int
) -> DataFrame:
    """What claims hold, read by so many tasks."""
    split = [_Part(tuple(claims[part::parts])) for part in range(parts)]

    class Claims(DataSource):
        @classmethod
        def name(cls) -> str:
            return "zaqar-claims"

        def schema(self) -> StructType:
            return SCHEMA

        def reader(self, schema: StructType) -> _Reader:
            return _Reader(at, queue, split)

    spark.dataSource.register(Claims)
    return spark.read.format("zaqar-claims").load()


class _Letter(NamedTuple):
    id: str
    ttl: int
    tail: bytes
    size: int


@dataclass(frozen=True)
class Redrive:
    """Moves the rows that are ``wanted``; it travels to tasks."""

    where: Where
    queue: str
    #: None: where each came from
    target: str | None
    #: letters to move at most; None: all
    limit: int | None
    #: letters a second; None: as fast as it goes
    rate: float | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Counts:
        """Raises StoreUnavailable."""
        counts: Counts = Counter()
        pace = Pace(self.rate)
        left = self.limit
        with Stores(self.where) as stores, counting() as did:
            for batch in batches:
                wanted, left = self._wanted(batch, left, counts)
                did(batch.num_rows - sum(map(len, wanted.values())))
                for target, letters in wanted.items():
                    for chunk in _chunks(letters):
                        pace.wait()
                        self._move(stores, target, chunk, counts)
                        pace.did(len(chunk))
                        did(len(chunk))
        return counts

    def _wanted(
        self, batch: pa.RecordBatch, left: int | None, counts: Counts
    ) -> tuple[dict[str, list[_Letter]], int | None]:
        """By target, what is to be moved; and how many more may be."""
        found: dict[str, list[_Letter]] = {}
        for row in batch.to_pylist():
            origin = row["dead_letter_from"] or NOWHERE
            target = self.target or row["dead_letter_from"]
            if not row["wanted"]:
                counts[origin, FILTERED] += 1
            elif target is None:
                counts[origin, NO_ORIGIN] += 1
            elif left == 0:
                counts[origin, BEYOND] += 1
            else:
                left = None if left is None else left - 1
                found.setdefault(target, []).append(_letter(row))
        return found, left

    def _move(
        self, stores: Stores, target: str, letters: Sequence[_Letter], counts: Counts
    ) -> None:
        project = self.where.project
        posts = [(letter.id, letter.ttl, letter.tail) for letter in letters]
        posted = stores.patiently(
            target,
            lambda place: (
                Letters(stores.client(place.uri), clock.store).post(project, target, posts).run()
            ),
        )
        if posted is None:
            counts[target, NO_ORIGIN] += len(letters)
            return
        # Even if the claim has ended: it is where it belongs, and must not come twice.
        ids = [letter.id for letter in letters]
        stores.patiently(
            self.queue,
            lambda place: (
                Messages(stores.client(place.uri), clock.store)
                .delete(project, self.queue, ids, claims=None, force=True)
                .run()
            ),
        )
        counts[target, MOVED] += posted
        counts[target, THERE] += len(letters) - posted


def _letter(row: dict[str, Any]) -> _Letter:
    body: bytes = row["body"]
    draft = Draft(body=body, checksum=row["checksum"] or b"", sealed=row["encrypted"])
    tail = envelope.tail(draft, envelope.client_bytes(row["client_id"]))
    return _Letter(row["id"], row["ttl"], tail, len(body))


def _chunks(letters: Sequence[_Letter]) -> Iterator[list[_Letter]]:
    chunk: list[_Letter] = []
    size = 0
    for letter in letters:
        if chunk and (len(chunk) == CHUNK or size + letter.size > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(letter)
        size += letter.size
    if chunk:
        yield chunk
