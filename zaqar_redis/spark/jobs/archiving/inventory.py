# SPDX-License-Identifier: Apache-2.0
"""Which files an archive has, so that readers can tell when one is missing.

``_zaqar/files/<N>.json`` is a list of all of them, up to some change.  Later changes have
records of their own.  From time to time the list is rewritten with all of these in it.  What
it replaces is removed after that: a reader that finds a record gone begins again.
"""

from __future__ import annotations

from dataclasses import dataclass

from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import TransactionLog
from zaqar_redis.spark.jobs.running import JobRefused

_LISTS = f"{LOG_FOLDER}/files"
#: Records of changes at which the list is rewritten: each of them costs a reader a
#: request, and a list has as many lines as there are files.
_MANY = 20
#: Records of changes that are kept although a list has them, for inspection, and for
#: readers that list files just before these are replaced.
_KEPT = 10
#: How often a reader begins again: lists are written many changes apart.
_TRIES = 5


@dataclass(frozen=True)
class FileStats:
    """Size of a file: messages, and bytes."""

    rows: int
    size: int


class FileIndex:
    def __init__(self, files: HadoopFolder) -> None:
        self._files = files
        self._log = TransactionLog(files)

    def current(self) -> dict[str, FileStats]:
        """Returns all current files by name.  Raises JobRefused when the log is incomplete."""
        return self._read()[1]

    def fold_when_due(self) -> None:
        """Rewrites the list, and removes what it replaces, after many changes."""
        if len(self._log.done()) <= _MANY:
            return
        number, files = self._read()
        listed = {name: [each.rows, each.size] for name, each in files.items()}
        before = self._files.numbers(_LISTS)
        following = before[-1] + 1 if before else 0
        self._files.write(_list(following), {"number": number, "files": listed})
        for old in before:
            self._files.remove(_list(old))
        self._log.forget(number - _KEPT)

    def _read(self) -> tuple[int, dict[str, FileStats]]:
        """Returns the last change, and the files after it."""
        for _ in range(_TRIES - 1):
            try:
                return self._read_once()
            except JobRefused:
                continue  # a new list may have replaced it meanwhile
        return self._read_once()

    def _read_once(self) -> tuple[int, dict[str, FileStats]]:
        last, files = self._last_list()
        later = [number for number in self._log.done() if number > last]
        for number in later:
            change = self._log.change(number)
            if change is None and number == later[-1]:
                break  # it is being written, or was cut off and will be written again
            if change is None or number != last + 1:
                raise self._incomplete(f"the record of change {last + 1} in _zaqar/done")
            files |= {each.name: FileStats(each.rows, each.size) for each in change.files}
            for name in change.replaced:
                del files[name]
            last = number
        return last, files

    def _last_list(self) -> tuple[int, dict[str, FileStats]]:
        numbers = self._files.numbers(_LISTS)
        for number in reversed(numbers):
            record = self._files.read(_list(number))
            if record is not None:
                files = {name: FileStats(*each) for name, each in record["files"].items()}
                return record["number"], files
        if len(numbers) > 1:
            raise self._incomplete("the list of files in _zaqar/files")
        return -1, {}

    def _incomplete(self, what: str) -> JobRefused:
        return JobRefused(f"{self._files.root}: {what} is missing, which names files")


def _list(number: int) -> str:
    return f"{_LISTS}/{number:010d}.json"
