# SPDX-License-Identifier: Apache-2.0
"""Which files an archive has, so that readers can tell when one is missing.

``_zaqar/files/<N>.json`` is a list of all of them, up to some batch.  Those of later
batches are in the records of these, and changes by compactions in theirs.  From time to
time the list is rewritten with all of that in it.  What it replaces is removed after that: a
reader that finds a record gone begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import Compaction, TransactionLog
from zaqar_redis.spark.jobs.running import JobRefused

_LISTS = f"{LOG_FOLDER}/files"
#: Records of batches at which the list is rewritten: each of them costs a reader a
#: request, and a list has as many lines as there are files.
_MANY = 20
#: Records of batches that are kept although a list has them, for inspection.
_KEPT = 10
#: How often a reader begins again: lists are written many batches apart.
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
        _, files = self._batches()
        return self._compacted(files)

    def fold_when_due(self) -> None:
        if len(self._log.done()) > _MANY:
            self.fold()

    def fold(self, ended: Sequence[Compaction] = ()) -> None:
        """Rewrites the list, and removes records that it replaces; of compactions *ended*."""
        batch, files = self._batches()
        listed = {name: [each.rows, each.size] for name, each in self._compacted(files).items()}
        before = self._files.numbers(_LISTS)
        number = before[-1] + 1 if before else 0
        self._files.write(_list(number), {"batch": batch, "files": listed})
        for old in before:
            self._files.remove(_list(old))
        self._log.forget(batch - _KEPT)
        for compaction in ended:
            self._log.compacted(compaction)

    def _batches(self) -> tuple[int, dict[str, FileStats]]:
        """Returns the last batch, and the files of all, without changes by compactions."""
        for _ in range(_TRIES - 1):
            try:
                return self._read()
            except JobRefused:
                continue  # a new list may have replaced it meanwhile
        return self._read()

    def _read(self) -> tuple[int, dict[str, FileStats]]:
        batch, files = self._last_list()
        later = [number for number in self._log.done() if number > batch]
        for number in later:
            added = self._log.files(number)
            if added is None and number == later[-1]:
                break  # it is being written, or was cut off and will be written again
            if added is None or number != batch + 1:
                raise self._not_whole(f"the record of batch {batch + 1} in _zaqar/done")
            files |= {each.name: FileStats(each.rows, each.size) for each in added}
            batch = number
        return batch, files

    def _last_list(self) -> tuple[int, dict[str, FileStats]]:
        numbers = self._files.numbers(_LISTS)
        for number in reversed(numbers):
            record = self._files.read(_list(number))
            if record is not None:
                files = {name: FileStats(*each) for name, each in record["files"].items()}
                return record["batch"], files
        if len(numbers) > 1:
            raise self._not_whole("the list of files in _zaqar/files")
        return -1, {}

    def _compacted(self, files: dict[str, FileStats]) -> dict[str, FileStats]:
        for each in self._log.compactions():
            if each.name not in files and self._files.exists(each.name):
                gone = set(each.files)
                files = {name: content for name, content in files.items() if name not in gone}
                files[each.name] = FileStats(each.rows, each.size)
        return files

    def _not_whole(self, what: str) -> JobRefused:
        return JobRefused(f"{self._files.root}: {what} is missing, which names files")


def _list(number: int) -> str:
    return f"{_LISTS}/{number:010d}.json"
