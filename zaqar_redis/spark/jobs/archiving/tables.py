# SPDX-License-Identifier: Apache-2.0
"""Archives that are tables as well: lists of files that other programs understand."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving.books import Compaction, File, Head
from zaqar_redis.spark.jobs.archiving.files import Files

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
#: What must be installed, which is also the module that it is.
_LIBRARIES = {DELTA: "deltalake", ICEBERG: "pyiceberg"}


class Table(Protocol):
    """The list of files beside them.  Each change is one transaction, and once only."""

    def add(self, batch: int, files: Sequence[File]) -> None:
        """Take in the files of a batch, unless this batch, or a later one, came in."""

    def replace(self, compaction: Compaction) -> None:
        """One file instead of others that hold the same, unless that was done."""

    def files(self) -> list[str]:
        """The files that count, paths below the archive, in order."""


def check(format: str) -> None:
    """Raises BadConfiguration that names the extra when a library is missing."""
    library = _LIBRARIES.get(format)
    if library is None:
        return
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise errors.BadConfiguration(
            f"--format {format}: {library} is not installed; pip install '.[{format}]'"
        ) from error


def opened(files: Files, head: Head) -> Table | None:
    """The table of an archive; None: its files are all there is.

    Raises BadConfiguration when the library is missing, or the catalogue is of no use.
    """
    check(head.format)
    if head.format == DELTA:
        from zaqar_redis.spark.jobs.archiving.delta import Delta

        return Delta(files, head)
    if head.format == ICEBERG:
        from zaqar_redis.spark.jobs.archiving.iceberg import Iceberg

        return Iceberg(files, head)
    return None
