# SPDX-License-Identifier: Apache-2.0
"""The format ``zaqar`` of Spark: ``spark.read.format("zaqar")``.

Spark imports this module in each of its planning steps: methods import readers and writers
only where they use them.
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
    from zaqar_redis.spark.options import SourceOptions
    from zaqar_redis.spark.stores import StoreConfig


#: A property of tables: of the calls for a schema, only that of CREATE TABLE passes it.
_TABLE = "provider"
_NO_TABLES = (
    "Spark passes the options of a table to no source in Python; use CREATE TEMPORARY VIEW … "
    "USING zaqar OPTIONS (…) instead of CREATE TABLE, and to write, "
    'df.write.format("zaqar").options(…)'
)


class ZaqarDataSource(DataSource):
    """Queues, and topics, as tables and streams.  doc/spark.md has the options and the columns.

    Everything here raises `errors.BadConfiguration`, before any task starts, when an
    option, a column or the store cannot be used.
    """

    @classmethod
    def name(cls) -> str:
        return "zaqar"

    def schema(self) -> StructType:
        from zaqar_redis import errors
        from zaqar_redis.spark import columns

        if _TABLE in self.options:
            raise errors.BadConfiguration(_NO_TABLES)
        names = self.options.get("columns")
        return columns.schema_of(names) if names else columns.default_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from zaqar_redis.spark import columns
        from zaqar_redis.spark.options import BATCH
        from zaqar_redis.spark.reading import batch

        options, config = self._opened(BATCH)
        return batch.reader(config, options, columns.projected_columns(schema, options["columns"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zaqar_redis import errors
        from zaqar_redis.spark import columns
        from zaqar_redis.spark.options import CLAIM, STREAM, TOPIC
        from zaqar_redis.spark.reading import browse_stream, claim_stream

        options, config = self._opened(STREAM)
        if options["kind"] == TOPIC and options["consume"] == CLAIM:
            raise errors.BadConfiguration(
                'option "consume": topics have no claims; read their history with browse'
            )
        kind = (
            claim_stream.ClaimReader if options["consume"] == CLAIM else browse_stream.BrowseReader
        )
        return kind(config, options, columns.projected_columns(schema, options["columns"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from zaqar_redis.spark.options import NONE, WRITE
        from zaqar_redis.spark.writing import sink

        options, config = self._opened(WRITE)
        if options["delivery"] in (None, NONE):
            options.none_of(("writeId",), 'unless the option "delivery" is ledger or staged')
        return sink.batch_writer(config, options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from zaqar_redis.spark.options import SINK
        from zaqar_redis.spark.writing import sink

        options, config = self._opened(SINK)
        return sink.StreamWriter(sink.write_plan(config, options, schema, overwrite))

    def _opened(self, use: str) -> tuple[SourceOptions, StoreConfig]:
        from zaqar_redis import errors
        from zaqar_redis.spark.options import CLAIM, SINK, STREAM, WRITE, SourceOptions
        from zaqar_redis.spark.stores import StoreConnections, store_config

        # A table with columns of its own, or one that is written as it is created: an environment
        # that names a store would have its rows go there.
        if not self.options:
            raise errors.BadConfiguration(f"no option is given, and one is needed: {_NO_TABLES}")
        options = SourceOptions(use, self.options)
        config = store_config(options)
        with StoreConnections(config) as stores:
            # A stream creates a writer for each batch: it must not fail sooner than tasks.
            stores.check(wait=use == SINK)
            if use in (SINK, WRITE):
                stores.check_writing(options["queue"] or "")
            elif use == STREAM and options["consume"] == CLAIM:
                stores.check_writing("")
        return options, config
