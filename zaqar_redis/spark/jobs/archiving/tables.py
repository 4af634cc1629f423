# SPDX-License-Identifier: Apache-2.0
"""Formats of archives: plain files, or a table, which lists them for other programs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveHeader

if TYPE_CHECKING:
    from zaqar_redis.spark.jobs.archiving.delta import DeltaFormat

PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)


def check(format: str) -> None:
    """Raises BadConfiguration that names the extra to install when a library is missing."""
    if format not in FORMATS:
        raise errors.BadConfiguration(f'--format: "{format}" is none of {", ".join(FORMATS)}')
    if format == DELTA and find_spec("deltalake") is None:
        raise errors.BadConfiguration(
            "--format delta: deltalake is not installed; pip install '.[delta]'"
        )


def opened(files: HadoopFolder, head: ArchiveHeader) -> DeltaFormat | None:
    """Returns the table of an archive; None: plain files.

    Raises BadConfiguration when the library is missing.
    """
    if head.format != DELTA:
        return None  # also of a format of an earlier version, which gets no more files
    check(DELTA)
    from zaqar_redis.spark.jobs.archiving.delta import DeltaFormat

    return DeltaFormat(files, head)
