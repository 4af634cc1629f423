# SPDX-License-Identifier: Apache-2.0
"""Rows that were messages once, in the columns of reads and archives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, BooleanType, DataType, StructType, TimestampType

from zaqar_redis import rules
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import NewMessage
from zaqar_redis.spark import attributes
from zaqar_redis.spark.writing import rows
from zaqar_redis.spark.writing.rows import BadRow

_TIME = (TimestampType(),)
#: Columns that make up a message, and their types; see columns.py.
COLUMNS: dict[str, tuple[DataType, ...]] = {
    "rank": rows.NUMBER,
    "created": _TIME,
    "expires": _TIME,
    "body": rows.COLUMNS["body"],
    "ttl": rows.NUMBER,
    "delay": rows.NUMBER,
    "epoch": rows.TEXT,
    "claim_count": rows.NUMBER,
    "client_id": rows.TEXT,
    "dead_letter_from": rows.TEXT,
    "checksum": (BinaryType(),),
    "encrypted": (BooleanType(),),
    "attributes": rows.COLUMNS["attributes"],
    **rows.FIELDS,
}
REQUIRED = ("rank", "created", "expires", "body")

#: Ranks are scores of sorted sets, which are exact up to here.
_RANK_MAX = 2**53 - 1
#: ttl and delay have 32 bits.
_SECONDS_MAX = 2**32 - 1
#: Of a checksum: that of MD5.
_CHECKSUM = 16
_EPOCH = re.compile(r"[0-9a-f]{16}")


class ArchivedMessage(NamedTuple):
    rank: int
    #: ms
    created: int
    expires: int
    #: seconds
    ttl: int
    delay: int
    #: None: unknown
    epoch: str | None
    #: how often it was claimed
    claims: int
    #: `envelope.tail`
    tail: bytes
    #: bytes of the body with its attributes
    size: int
    encrypted: bool


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """Returns the names of the columns.  Raises BadConfiguration when they are not valid."""
    return rows.accepted_columns(schema, COLUMNS, REQUIRED, "restored")


def messages(batch: pa.RecordBatch, client: bytes) -> Iterator[ArchivedMessage]:
    """Yields the rows of a batch with known columns; *client* where there is no client id.

    Raises BadRow.
    """
    nothing = [None] * batch.num_rows
    of = {name: _values(batch.column(name)) for name in batch.schema.names if name in COLUMNS}
    for values in zip(*[of.get(name, nothing) for name in COLUMNS], strict=True):
        try:
            yield _message(values, client)
        except ValueError as error:
            raise BadRow(f"the row of rank {values[0]}: {error}") from error


def _values(column: pa.Array) -> Sequence[Any]:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 1000)
    values: list[Any] = column.to_pylist()
    return values


def _message(values: tuple[Any, ...], client: bytes) -> ArchivedMessage:
    rank, created, expires, body, ttl, delay, epoch, claims, *rest = values
    who, origin, checksum, encrypted, given, *fields = rest
    for name, value in zip(REQUIRED, (rank, created, expires, body), strict=True):
        if value is None:
            raise ValueError(f'the column "{name}" is null')
    body = body.encode() if isinstance(body, str) else body
    # The size is not checked: the body was accepted once, under the limit of that time.
    if not encrypted:
        rows.check_json(body)
    if epoch is not None and not _EPOCH.fullmatch(epoch):
        raise ValueError(f'the column "epoch" is {epoch!r}; it must be 16 hexadecimal digits')
    if origin and not rules.is_queue_name(origin):
        raise ValueError(f'the column "dead_letter_from" has {origin!r}, which is no queue\'s name')
    if checksum and len(checksum) != _CHECKSUM:
        raise ValueError(f'the column "checksum" has {len(checksum)} bytes; it must be {_CHECKSUM}')
    new_message = NewMessage(
        body=body,
        checksum=checksum or b"",
        origin=origin or "",
        encrypted=bool(encrypted),
        attributes=attributes.given(given, tuple(fields), None if encrypted else body),
    )
    tail = envelope.tail(new_message, client if who is None else envelope.client_bytes(who))
    lived = max(0, expires - created) // 1000 if ttl is None else ttl
    return ArchivedMessage(
        rank=rows.within("rank", rank, 1, _RANK_MAX),
        created=rows.within("created", created, 0, _RANK_MAX),
        expires=rows.within("expires", expires, 0, _RANK_MAX),
        ttl=rows.within("ttl", lived, 0, _SECONDS_MAX),
        delay=rows.within("delay", delay or 0, 0, _SECONDS_MAX),
        epoch=epoch,
        claims=rows.within("claim_count", claims or 0, 0, _SECONDS_MAX),
        tail=tail,
        size=envelope.body_size(tail),
        encrypted=new_message.encrypted,
    )
