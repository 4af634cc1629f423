# SPDX-License-Identifier: Apache-2.0
"""Errors of unreadable archive files, in one line instead of Java's stack traces."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from zaqar_redis.spark.jobs.running import JobRefused

#: Spark's error when a task cannot read a file: error class and URI.
_FAILED = re.compile(r"\[FAILED_READ_FILE(\.\w+)?\] Encountered error while reading file (\S+)\.\s")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.M)
#: Checksum errors of Parquet for a page, and of Hadoop for a block of a local file.
_CHECKSUMS = re.compile(r"CRC checksum verification failed|ChecksumException")


class ArchiveDamaged(JobRefused):
    """Files differ from what was archived."""


class UnreadableFile(ArchiveDamaged):
    """A file cannot be read."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{unquote(uri)} {reason}")
        #: as Spark reports it, with escapes
        self.uri = uri
        self.reason = reason


@contextlib.contextmanager
def read_errors_translated() -> Iterator[None]:
    """Raises UnreadableFile instead of Spark's error for a file that it cannot read."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        failed = _FAILED.search(text)
        if failed is None:
            raise
        raise UnreadableFile(failed[2], _reason(failed[1], text[failed.end() :])) from error


def _reason(case: str | None, causes: str) -> str:
    if case == ".FILE_NOT_EXIST":
        return (
            "was removed while it was read; if small files were just compacted there, "
            "run the job again"
        )
    if _CHECKSUMS.search(causes):
        return "is damaged: what is in it does not fit its checksums"
    found = _CAUSE.findall(causes)
    return f"cannot be read: {found[-1] if found else 'Spark gives no reason'}"
