# SPDX-License-Identifier: Apache-2.0
"""Table formats of archives: lists of files that other programs understand."""

from __future__ import annotations

import importlib
from typing import Protocol

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveHeader, Manifest

PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)
#: Library of each format, which is also the name of its module.
_LIBRARIES = {DELTA: "deltalake"}


class TableFormat(Protocol):
    """The list of files beside them."""

    def commit(self, manifest: Manifest) -> None:
        """Makes a change in one transaction, unless it, or a later one, was committed."""

    def files(self) -> list[str]:
        """Returns the current files, as sorted paths below the archive."""


def check(format: str) -> None:
    """Raises BadConfiguration that names the extra to install when a library is missing."""
    if format not in FORMATS:
        raise errors.BadConfiguration(f'--format: "{format}" is none of {", ".join(FORMATS)}')
    library = _LIBRARIES.get(format)
    if library is None:
        return
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise errors.BadConfiguration(
            f"--format {format}: {library} is not installed; pip install '.[{format}]'"
        ) from error


def opened(files: HadoopFolder, head: ArchiveHeader) -> TableFormat | None:
    """Returns the table of an archive; None: plain files.

    Raises BadConfiguration when the library is missing.
    """
    if head.format not in FORMATS:
        return None  # of an earlier version: its files are read, and it gets no more
    check(head.format)
    if head.format == DELTA:
        from zaqar_redis.spark.jobs.archiving.delta import DeltaFormat

        return DeltaFormat(files, head)
    return None
