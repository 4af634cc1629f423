# SPDX-License-Identifier: Apache-2.0
"""Which columns there are, and what is said of those that there are not."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark import columns

_ALL = columns.named(",".join(columns.NAMED))


def test_arrow_types_are_those_that_spark_expects() -> None:
    expected = to_arrow_schema(_ALL, timezone="UTC")
    assert columns.arrow_schema(tuple(_ALL.names)).equals(expected)


def test_the_default_schema_leaves_out_what_is_seldom_wanted() -> None:
    left_out = set(_ALL.names) - set(columns.default_schema().names)
    assert left_out == {"checksum", "record"}


def test_columns_of_claims_are_columns() -> None:
    assert set(columns.NAMED) > columns.OF_CLAIMS


def test_every_column_says_what_it_is_once() -> None:
    abouts = [column.about for column in columns.COLUMNS]
    assert all(abouts)
    assert len(set(abouts)) == len(abouts) == len(columns.NAMED)


def test_named_columns_come_in_their_order() -> None:
    schema = columns.named("rank, body,checksum")
    assert schema == StructType(
        [
            StructField("rank", LongType()),
            StructField("body", BinaryType()),
            StructField("checksum", BinaryType()),
        ]
    )
    assert columns.projected(schema) == ("rank", "body", "checksum")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rank,bodi", 'there is no column "bodi", only project, queue,'),
        ("rank,,body", 'there is no column "", only project'),
        ("", 'there is no column "", only project'),
        ("Rank", 'there is no column "Rank", only project'),
        ("rank,body,rank", 'the column "rank" is there twice'),
    ],
)
def test_names_that_will_not_do_are_named(text: str, why: str) -> None:
    with pytest.raises(BadConfiguration, match=f'^option "columns": {why}'):
        columns.named(text)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (
            StructField("size", LongType()),
            'there is no column "size", only project, queue, .*record',
        ),
        (StructField("rank", IntegerType()), 'the column "rank" is of type bigint, not int'),
        (StructField("body", StringType()), 'the column "body" is of type binary, not string'),
        (StructField("id", StringType(), False), 'the column "id" must be nullable in the schema'),
    ],
)
def test_a_schema_that_will_not_do_is_refused(field: StructField, why: str) -> None:
    with pytest.raises(BadConfiguration, match=f"^{why}$"):
        columns.projected(StructType([StructField("queue", StringType()), field]))


def test_the_default_schema_is_projected_to_itself() -> None:
    schema = columns.default_schema()
    assert columns.projected(schema) == tuple(schema.names)
