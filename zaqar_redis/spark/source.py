# SPDX-License-Identifier: Apache-2.0
"""The format ``zaqar`` of Spark: ``spark.read.format("zaqar")``.

What is imported here, Spark imports in each of its planning steps: readers and writers
come in only where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from zaqar_redis.spark.options import Options
    from zaqar_redis.spark.stores import Where


class ZaqarDataSource(DataSource):
    """Queues as tables and streams.  doc/spark.md has the options and the columns.

    Everything here raises `errors.BadConfiguration`, before any task starts, when an
    option, a column or the store cannot be used.
    """

    @classmethod
    def name(cls) -> str:
        return "zaqar"

    def schema(self) -> StructType:
        from zaqar_redis.spark import columns

        named = self.options.get("columns")
        return columns.named(named) if named else columns.default_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from zaqar_redis.spark import batch, columns
        from zaqar_redis.spark.options import BATCH

        options, at = self._opened(BATCH)
        kind = batch.FilteringReader if options["pushdown"] else batch.BatchReader
        return kind(at, options, columns.projected(schema, options["columns"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zaqar_redis.spark import claiming, columns, stream
        from zaqar_redis.spark.options import CLAIM, STREAM

        options, at = self._opened(STREAM)
        kind = claiming.ClaimReader if options["consume"] == CLAIM else stream.BrowseReader
        return kind(at, options, columns.projected(schema, options["columns"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from zaqar_redis import errors
        from zaqar_redis.spark import sink
        from zaqar_redis.spark.options import NONE, WRITE

        options, at = self._opened(WRITE)
        if "writeId" in options.given and options["delivery"] in (None, NONE):
            raise errors.BadConfiguration(
                'option "writeId" means nothing unless the option "delivery" is ledger or staged'
            )
        return sink.batch_writer(at, options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from zaqar_redis.spark import sink
        from zaqar_redis.spark.options import SINK

        options, at = self._opened(SINK)
        return sink.stream_writer(at, options, schema, overwrite)

    def _opened(self, use: str) -> tuple[Options, Where]:
        from zaqar_redis.spark import permissions
        from zaqar_redis.spark.options import CLAIM, SINK, STREAM, WRITE, Options
        from zaqar_redis.spark.stores import Stores, where

        options = Options(use, self.options)
        at = where(options)
        with Stores(at) as stores:
            # A stream makes its writer anew for each batch: it must not fail sooner than tasks.
            stores.check(wait=use == SINK)
            if use in (SINK, WRITE):
                permissions.check_writing(stores, options["queue"] or "")
            elif use == STREAM and options["consume"] == CLAIM:
                permissions.check_writing(stores, "")
        return options, at
