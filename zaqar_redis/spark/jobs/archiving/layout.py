# SPDX-License-Identifier: Apache-2.0
"""Layout of an archive: columns, folders, names of files.

    project=acme/queue=orders/date=2026-03-01/batch-0000000007-part-00002.parquet

Names in folders are escaped as Spark and Hive do.  The one name that these use for null is
escaped, too; archives of versions before have it as it is, and it means the same.  The date is
that of ``created``, in UTC.  Rows of a file are in the order of (epoch, rank).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from zaqar_redis.spark import columns

#: Columns that are archived, without claims: these have ended when somebody reads it.  Files
#: of versions that knew no attributes have none, which is as good as null.
COLUMNS = (
    *(
        column.name
        for column in columns.COLUMNS
        if column.default and column.name not in columns.CLAIM_COLUMNS
    ),
    "attributes",
)
#: Schema of the files.
SCHEMA: StructType = columns.schema_of(",".join(COLUMNS))
#: Schema of the files with the columns that only their folders have.
WITH_DATE = StructType([*SCHEMA.fields, StructField("date", DateType())])
FOLDERS = ("project", "queue", "date")
#: Name of a folder that Spark and Hive read as null.  No project and no queue is null.
NULL = "__HIVE_DEFAULT_PARTITION__"

#: Folder columns of staged files, by other names: Spark removes folder columns from files,
#: but project and queue must stay there, for readers of single files.
_STAGED = {"project": "to_project", "queue": "to_queue", "date": "date"}
_MICROS_A_DAY = 86_400_000_000
#: What Spark escapes in names of folders.
_ESCAPED = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")

#: Options of readers of the files: damaged or missing ones are errors, whatever the
#: session's settings.
READ = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
#: Options of their writers.
WRITTEN = {"compression": "zstd", "parquet.page.write-checksum.enabled": "true"}

_SETTINGS = {
    # As in jobs/session.py, for sessions of the caller.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@contextlib.contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Applies the settings that files must be written with, whatever the session's are."""
    before: dict[str, Any] = {name: spark.conf.get(name) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def stage(messages: DataFrame, folder: str) -> None:
    """Writes messages as files in their order, in folders that `final` understands."""
    staged = messages.select(
        *COLUMNS,
        F.col("project").alias(_STAGED["project"]),
        F.col("queue").alias(_STAGED["queue"]),
        _date().alias(_STAGED["date"]),
    )
    folders = list(_STAGED.values())
    (
        # Spark would sort by folder itself, and lose the order within it.
        staged.sortWithinPartitions(*folders, "epoch", "rank")
        .write.options(**WRITTEN)
        .partitionBy(*folders)
        .parquet(folder)
    )


def _date() -> Column:
    # to_date() would use the time zone of the session.
    days = F.expr(f"CAST(unix_micros(created) DIV {_MICROS_A_DAY} AS INT)")
    return F.date_add(F.lit("1970-01-01").cast("date"), days)


def project_folder(project: str) -> str:
    """Returns the name of the folder in which messages of the project are staged."""
    return f"{_STAGED['project']}={_ESCAPED.sub(lambda found: f'%{ord(found[0]):02X}', project)}"


def final(staged: str, batch: int, part: int) -> str:
    """Returns the final name of a staged file; *staged* is its path in the staged folder."""
    values = [folder.partition("=")[2] for folder in staged.split("/")[:-1]]
    folders = [f"{name}={_not_null(value)}" for name, value in zip(FOLDERS, values, strict=True)]
    return "/".join([*folders, f"batch-{batch:010d}-part-{part:05d}.parquet"])


def _not_null(value: str) -> str:
    return f"%5F{NULL[1:]}" if value == NULL else value


def named(messages: DataFrame) -> DataFrame:
    """Returns messages that were read from the files, with the names that were read as null."""
    null = F.lit(NULL)
    return messages.withColumns(
        {name: F.when(F.col(name).isNull(), null).otherwise(F.col(name)) for name in FOLDERS[:2]}
    )


def values(name: str) -> dict[str, str]:
    """Returns the values of the folder columns of a file."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, _, value in pairs}
