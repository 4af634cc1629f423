# SPDX-License-Identifier: Apache-2.0
"""Rows of a DataFrame become messages: checks of columns and values, and encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from zaqar_redis import errors, rules, schedules
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import NewMessage
from zaqar_redis.spark import attributes
from zaqar_redis.spark.columns import type_text
from zaqar_redis.spark.options import TTL_MAX, stored_name

#: ttl in seconds or -1, delay as lua/shared/append.lua has it, the rest of the envelope.
EncodedMessage = tuple[int, int, bytes]

#: Bytes of one round trip, whatever the number of messages: a script blocks Redis.
_CHUNK_BYTES = 4 * 1024 * 1024
_LIMITS = rules.Limits()
#: TTL in seconds when neither row, option nor queue give one: as in the service.
DEFAULT_TTL = _LIMITS.default_message_ttl

NUMBER, TEXT = (IntegerType(), LongType()), (StringType(),)
#: Columns of `attributes.FIELDS`, in its order.
FIELDS = {"group": TEXT, "priority": NUMBER, "content_type": TEXT, "body_encoding": TEXT}
#: Columns that may be written, and their types.
COLUMNS: dict[str, tuple[DataType, ...]] = {
    "body": (BinaryType(), StringType()),
    "queue": TEXT,
    "ttl": NUMBER,
    "delay": NUMBER,
    "deliver_at": (TimestampType(),),
    "attributes": (attributes.SPARK_STRINGS, attributes.SPARK),
    **FIELDS,
}

_JSON = msgspec.json.Decoder(msgspec.Raw)


class BadRow(Exception):
    """A row cannot be a message; the text says which, and why."""


def refused(queue: str, error: errors.EncryptionRequired | errors.PostRefused) -> BadRow:
    if isinstance(error, errors.PostRefused):
        return BadRow(str(error))
    return BadRow(f'the queue "{queue}" wants bodies encrypted, which only the service can do')


@dataclass(frozen=True)
class RowEncoding:
    """How rows become messages; serialized to tasks."""

    columns: tuple[str, ...]
    #: what the column ``queue`` names
    kind: str
    #: the queue to write to; None: the column ``queue`` names it
    queue: str | None
    #: seconds, where the column has none; None: the queue's default
    ttl: int | None
    #: 16 bytes of the client id
    client: bytes
    #: messages of a chunk
    size: int
    #: bytes of a body with its attributes
    body_max: int


@dataclass
class RowChunk:
    """Messages that go to Redis together; one round trip for each queue."""

    number: int
    by_queue: dict[str, list[EncodedMessage]] = field(default_factory=dict)
    rows: int = 0
    size: int = 0
    #: bytes of the largest body with its attributes by queue
    largest: dict[str, int] = field(default_factory=dict)

    def add(self, queue: str, message: EncodedMessage, size: int) -> None:
        self.by_queue.setdefault(queue, []).append(message)
        self.rows += 1
        self.size += size
        if size > self.largest.get(queue, -1):
            self.largest[queue] = size


def checked_columns(schema: StructType, queue: str | None) -> tuple[str, ...]:
    """Returns the names of the columns.  Raises BadConfiguration when they are not valid."""
    names = accepted_columns(schema, COLUMNS, ("body",), "written")
    if (queue is None) == ("queue" not in names):
        raise errors.BadConfiguration(
            'say where to write: either with the option "queue" or with a column "queue"'
        )
    return names


def accepted_columns(
    schema: StructType,
    known: Mapping[str, tuple[DataType, ...]],
    required: Sequence[str],
    verb: str,
) -> tuple[str, ...]:
    """Returns the names of the columns: all are *known*, and all *required* are among them.

    *verb* is for error texts.  Raises BadConfiguration.
    """
    what = f"what can be {verb} is " + ", ".join(
        f"{name} {' or '.join(map(type_text, kinds))}" for name, kinds in known.items()
    )
    for given in schema.fields:
        if given.name not in known:
            raise errors.BadConfiguration(f'unknown column "{given.name}"; {what}: select those')
        kind = type_text(given.dataType)  # literals of Spark are not nullable
        if kind not in map(type_text, known[given.name]):
            raise errors.BadConfiguration(f'the column "{given.name}" is {kind}; {what}')
    names = tuple(schema.fieldNames())
    for name in required:
        if name not in names:
            raise errors.BadConfiguration(f'there must be a column "{name}"')
    return names


def chunks(encoding: RowEncoding, batches: Iterable[pa.RecordBatch]) -> Iterator[RowChunk]:
    """Yields chunks: the same rows give the same chunks, whatever their batches.

    Raises BadRow.
    """
    chunk = RowChunk(0)
    opening = envelope.opening(encoding.client)
    row = 0
    for batch in batches:
        for values in _rows(encoding.columns, batch):
            row += 1
            queue, message, size = _message(encoding, opening, values, row)
            if chunk.rows == encoding.size or (chunk.rows and chunk.size + size > _CHUNK_BYTES):
                yield chunk
                chunk = RowChunk(chunk.number + 1)
            chunk.add(queue, message, size)
    if chunk.rows:
        yield chunk


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes of the body with its attributes."""


M = TypeVar("M", bound=Sized)


def sized_chunks(messages: Iterable[M], most: int, most_bytes: int) -> Iterator[list[M]]:
    """Yields messages in chunks of so many, and so many bytes; a larger one is alone."""
    chunk: list[M] = []
    size = 0
    for message in messages:
        if chunk and (len(chunk) == most or size + message.size > most_bytes):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += message.size
    if chunk:
        yield chunk


def _rows(columns: tuple[str, ...], batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Returns the values of `COLUMNS` in each row; None where the column is missing."""
    nothing = [None] * batch.num_rows
    of = {name: batch.column(index).to_pylist() for index, name in enumerate(columns)}
    return zip(*[of.get(name, nothing) for name in COLUMNS], strict=True)


def _message(
    encoding: RowEncoding, opening: bytes, values: tuple[Any, ...], row: int
) -> tuple[str, EncodedMessage, int]:
    body, queue, ttl, delay, deliver_at, given, *fields = values
    body = body.encode() if isinstance(body, str) else body
    try:
        if body is None:
            raise ValueError('the column "body" is null')
        tail, size = opening + envelope.closing(body), len(body)
        if found := attributes.given(given, tuple(fields), body):
            message = NewMessage(body, attributes=found)
            tail = envelope.tail(message, encoding.client)
            size = envelope.body_size(tail)
        _check_body(body, size, encoding.body_max)
        name = encoding.queue if encoding.queue is not None else _queue(encoding.kind, queue)
        lifetime = encoding.ttl if ttl is None else within("ttl", ttl, rules.TTL_MIN, TTL_MAX)
        late = -1 if delay is None else within("delay", delay, 0, _LIMITS.max_message_delay)
        if deliver_at is not None:
            if delay is not None:
                raise ValueError('give the column "delay" or "deliver_at", not both')
            late = -_scheduled(deliver_at)
    except ValueError as error:
        raise BadRow(f"row {row} of its task: {error}") from error
    return name, (-1 if lifetime is None else lifetime, late, tail), size


def _scheduled(at: datetime) -> int:
    try:
        return schedules.milliseconds(at)
    except ValueError as error:
        raise ValueError(f'the column "deliver_at" {error}: {at}') from None


def _check_body(body: bytes, size: int, most: int) -> None:
    if size > most:
        what = "" if size == len(body) else " with its attributes"
        raise ValueError(
            f'the column "body" has {size} bytes{what}; at most {most} are allowed '
            '(option "maxMessageSize")'
        )
    check_json(body)


def check_json(body: bytes) -> None:
    """Raises ValueError when the body is not JSON in UTF-8."""
    try:
        _JSON.decode(body)
        if not body.isascii():
            body.decode()
    except RecursionError as error:
        raise ValueError('the column "body" is nested too deeply') from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = rules.json_problem(error, body)
        raise ValueError(
            f'the column "body" is not JSON, which messages are: {why}; to_json(struct(…)) makes it'
        ) from error


def _queue(kind: str, name: str | None) -> str:
    try:
        return stored_name(kind, name or "")
    except ValueError as error:
        raise ValueError(
            f'the column "queue" has {name!r}, which is no name of a {kind}'
        ) from error


def within(name: str, value: int, least: int, most: int) -> int:
    """Returns the value.  Raises ValueError when it is out of its limits."""
    if not least <= value <= most:
        raise ValueError(f'the column "{name}" is {value}; it must be {least} to {most}')
    return value
