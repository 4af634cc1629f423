# SPDX-License-Identifier: Apache-2.0
"""Files of an archive that cannot be read, in one line instead of Java's many."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from zaqar_redis.spark.jobs.running import Refused

#: What Spark says when a task cannot read a file: which case, and its URI.
_FAILED = re.compile(r"\[FAILED_READ_FILE(\.\w+)?\] Encountered error while reading file (\S+)\.\s")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.M)
#: What Parquet says of a page, and Hadoop of a block of a local file.
_CHECKSUMS = re.compile(r"CRC checksum verification failed|ChecksumException")


class Damaged(Refused):
    """Files are not what was archived."""


class Unreadable(Damaged):
    """A file cannot be read."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{unquote(uri)} {reason}")
        #: as Spark has it, with escapes
        self.uri = uri
        self.reason = reason


@contextlib.contextmanager
def noticed() -> Iterator[None]:
    """Raises Unreadable instead of what Spark raises for a file that it cannot read."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        failed = _FAILED.search(text)
        if failed is None:
            raise
        raise Unreadable(failed[2], _reason(failed[1], text[failed.end() :])) from error


def _reason(case: str | None, causes: str) -> str:
    if case == ".FILE_NOT_EXIST":
        return (
            "went away while it was read; if small files were just put together there, "
            "say the same again"
        )
    if _CHECKSUMS.search(causes):
        return "is damaged: what is in it does not fit its checksums"
    found = _CAUSE.findall(causes)
    return f"cannot be read: {found[-1] if found else 'Spark does not say why'}"
