# SPDX-License-Identifier: Apache-2.0
"""The folder of a report."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder

#: Marks a folder of this job: its content may be replaced.
_MARKER_FILE = "_zaqar-analytics.json"


class ReportFolder(HadoopFolder):
    def __init__(self, spark: SparkSession, target: str) -> None:
        super().__init__(spark, target)
        self._spark = spark

    def check(self) -> None:
        """Raises BadConfiguration when the folder holds something else."""
        if self.names("") and not self.exists(_MARKER_FILE):
            raise errors.BadConfiguration(
                f"TARGET: {self.root} is not empty, and was not created by this job"
            )

    def begin(self) -> None:
        self.write(_MARKER_FILE, {"version": 1})

    def table(self, name: str, table: DataFrame) -> DataFrame:
        """Writes a table, and returns it as read back."""
        path = self.at(name)
        table.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def write_file(self, name: str, text: str) -> None:
        """Writes a file atomically."""
        half = f"_{name}"
        out = self._system.create(self._path(half), True)
        try:
            out.write(text.encode())
        finally:
            out.close()
        self.remove(name)
        self.move(half, name)
