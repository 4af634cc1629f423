# SPDX-License-Identifier: Apache-2.0
"""The folder of a report."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving.files import Files

#: Says whose folder it is: what is in it may be replaced.
_MARK = "_zaqar-analytics.json"


class Output(Files):
    def __init__(self, spark: SparkSession, target: str) -> None:
        super().__init__(spark, target)
        self._spark = spark

    def check(self) -> None:
        """Raises BadConfiguration when there is something else."""
        if self.names("") and not self.exists(_MARK):
            raise errors.BadConfiguration(
                f"TARGET: {self.root} is not empty, and was not made by this job"
            )

    def begin(self) -> None:
        self.write(_MARK, {"version": 1})

    def table(self, name: str, table: DataFrame) -> DataFrame:
        """Write it, and give what is written."""
        path = self.at(name)
        table.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def put(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        half = f"_{name}"
        out = self._system.create(self._path(half), True)
        try:
            out.write(text.encode())
        finally:
            out.close()
        self.remove(name)
        self.move(half, name)
