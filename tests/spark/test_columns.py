# SPDX-License-Identifier: Apache-2.0
"""The columns of the data source, and errors of unknown ones."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark import columns

_ALL = columns.schema_of(",".join(columns.BY_NAME))


def test_arrow_types_match_the_spark_types() -> None:
    expected = to_arrow_schema(_ALL, timezone="UTC")
    assert columns.arrow_schema(tuple(_ALL.names)).equals(expected)


def test_default_schema_omits_rarely_used_columns() -> None:
    left_out = set(_ALL.names) - set(columns.default_schema().names)
    fields = {"group", "priority", "content_type", "body_encoding", "dedup_id"}
    assert left_out == {"attributes", "checksum", "record", "reason", "first_claimed"} | fields


def test_claim_columns_are_known_columns() -> None:
    assert set(columns.BY_NAME) > columns.CLAIM_COLUMNS


def test_every_column_has_a_name_of_its_own() -> None:
    assert len(columns.BY_NAME) == len(columns.COLUMNS)


def test_named_columns_keep_their_order() -> None:
    schema = columns.schema_of("rank, body,checksum")
    assert schema == StructType(
        [
            StructField("rank", LongType()),
            StructField("body", BinaryType()),
            StructField("checksum", BinaryType()),
        ]
    )
    assert columns.projected_columns(schema) == ("rank", "body", "checksum")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rank,bodi", 'there is no column "bodi", only project, queue,'),
        ("rank,,body", 'there is no column "", only project'),
        ("", 'there is no column "", only project'),
        ("Rank", 'there is no column "Rank", only project'),
        ("rank,body,rank", 'the column "rank" is given twice'),
    ],
)
def test_invalid_column_names_are_reported(text: str, why: str) -> None:
    with pytest.raises(BadConfiguration, match=f'^option "columns": {why}'):
        columns.schema_of(text)


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
def test_invalid_schema_is_refused(field: StructField, why: str) -> None:
    with pytest.raises(BadConfiguration, match=f"^{why}$"):
        columns.projected_columns(StructType([StructField("queue", StringType()), field]))


def test_projection_of_the_default_schema_is_itself() -> None:
    schema = columns.default_schema()
    assert columns.projected_columns(schema) == tuple(schema.names)
