# SPDX-License-Identifier: Apache-2.0
"""How much of what there is comes into one batch of a stream."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from zaqar_redis.spark.options import Options

_ROWS, _BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"


def check(options: Options) -> None:
    """Raises BadConfiguration: Spark knows no limit by both."""
    if options.given.issuperset((_ROWS, _BYTES)):
        options.one_of(_ROWS, _BYTES)


def limit(options: Options) -> ReadLimit:
    """What Spark hands back with each batch.  Bytes become rows by the size of messages."""
    if (rows := options[_ROWS]) is not None:
        return ReadMaxRows(rows)
    if (size := options[_BYTES]) is not None:
        return ReadMaxBytes(size)
    return ReadAllAvailable()
