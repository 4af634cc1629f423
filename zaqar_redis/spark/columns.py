# SPDX-License-Identifier: Apache-2.0
"""The columns that a message has in Spark, and in Arrow."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark import attributes

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class MessageColumn:
    name: str
    spark: DataType
    arrow: pa.DataType
    #: False: only when asked for
    default: bool = True


_TEXT, _BINARY = (StringType(), pa.string()), (BinaryType(), pa.binary())
_TIME, _NUMBER = (TimestampType(), TIMESTAMP), (IntegerType(), pa.int32())

#: All columns, in the order of their reference, the table in doc/spark.md.
COLUMNS = (
    MessageColumn("project", *_TEXT),
    MessageColumn("queue", *_TEXT),
    MessageColumn("kind", *_TEXT),
    MessageColumn("pool", *_TEXT),
    MessageColumn("id", *_TEXT),
    MessageColumn("rank", LongType(), pa.int64()),
    MessageColumn("epoch", *_TEXT),
    MessageColumn("body", *_BINARY),
    MessageColumn("created", *_TIME),
    MessageColumn("expires", *_TIME),
    MessageColumn("ttl", *_NUMBER),
    MessageColumn("delay", *_NUMBER),
    MessageColumn("client_id", *_TEXT),
    MessageColumn("claim_id", *_TEXT),
    MessageColumn("claim_expires", *_TIME),
    MessageColumn("claim_count", *_NUMBER),
    MessageColumn("dead_letter_from", *_TEXT),
    MessageColumn("encrypted", BooleanType(), pa.bool_()),
    # Not by default: Spark can neither compare maps nor write them to CSV, and queries that
    # take all columns do so today.
    MessageColumn("attributes", attributes.SPARK, attributes.ARROW, default=False),
    # Fields that are among the attributes, too.
    MessageColumn("group", *_TEXT, default=False),
    MessageColumn("priority", *_NUMBER, default=False),
    MessageColumn("content_type", *_TEXT, default=False),
    MessageColumn("body_encoding", *_TEXT, default=False),
    MessageColumn("dedup_id", *_TEXT, default=False),
    MessageColumn("reason", *_TEXT, default=False),
    MessageColumn("first_claimed", *_TIME, default=False),
    MessageColumn("checksum", *_BINARY, default=False),
    MessageColumn("record", *_BINARY, default=False),
)
BY_NAME = {column.name: column for column in COLUMNS}

#: Columns that need the claims of messages, which are stored beside them.
CLAIM_COLUMNS = frozenset({"claim_id", "claim_expires", "claim_count", "first_claimed", "reason"})


def default_schema() -> StructType:
    return _schema(column for column in COLUMNS if column.default)


def schema_of(text: str) -> StructType:
    """Returns the schema of some columns: names separated by commas, in their order.

    Raises BadConfiguration for a name that is unknown, empty, or repeated.
    """
    names = [name.strip() for name in text.split(",")]
    _check(names, 'option "columns": ')
    return _schema(BY_NAME[name] for name in names)


def projected_columns(schema: StructType, option: str | None = None) -> tuple[str, ...]:
    """Returns the columns of a schema that a user wrote, or that *option* names.

    Raises BadConfiguration for a column that is unknown, repeated, of another type than
    ours, or not nullable: Spark itself would refuse no sooner than the first batch.  Raises
    it too when schema and option do not name the same columns.
    """
    names = tuple(schema.names)
    if option and tuple(schema_of(option).names) != names:
        raise BadConfiguration(
            f'option "columns": it names others than the schema, which are {", ".join(names)}; '
            "give one of them"
        )
    _check(names, "")
    for field in schema.fields:
        ours = BY_NAME[field.name].spark
        if field.dataType != ours:
            given = field.dataType.simpleString()
            raise BadConfiguration(
                f'the column "{field.name}" is of type {ours.simpleString()}, not {given}'
            )
        if not field.nullable:
            raise BadConfiguration(f'the column "{field.name}" must be nullable in the schema')
    return names


def type_text(kind: DataType) -> str:
    """Returns a type as users write it, whatever may be null in it."""
    text = kind.simpleString()
    return text if "<" in text else text.upper()  # with names of fields


@functools.lru_cache(maxsize=8)  # a task has one
def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """Returns the Arrow schema of known columns."""
    return pa.schema([(name, BY_NAME[name].arrow) for name in names])


def _check(names: Sequence[str], where: str) -> None:
    for index, name in enumerate(names):
        if name not in BY_NAME:
            raise BadConfiguration(f'{where}there is no column "{name}", only {", ".join(BY_NAME)}')
        if name in names[:index]:
            raise BadConfiguration(f'{where}the column "{name}" is given twice')


def _schema(columns: Iterable[MessageColumn]) -> StructType:
    return StructType([StructField(column.name, column.spark) for column in columns])
