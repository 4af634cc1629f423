# SPDX-License-Identifier: Apache-2.0
"""Which files an archive has, so that readers can tell when one is missing.

``_zaqar/files/<N>.json`` is a list of all of them, up to some batch.  Those of later
batches are in the records of these, and what compactions have changed since is in theirs.
Now and then the list is written anew with all of that in it.  What it replaces is removed
after that: a reader who finds a record gone begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zaqar_redis.spark.jobs.archiving.books import Books, Compaction
from zaqar_redis.spark.jobs.archiving.files import BOOKS, Files
from zaqar_redis.spark.jobs.running import Refused

_LISTS = f"{BOOKS}/files"
#: Records of batches at which the list is written anew: each of them costs a reader a
#: request, and a list as many lines as there are files.
_MANY = 20
#: Records of batches that are kept though a list has them: for people.
_KEPT = 10
#: How often a reader begins again: lists come many batches apart.
_TRIES = 5


@dataclass(frozen=True)
class Content:
    """How much is in a file: messages, and bytes of the file."""

    rows: int
    size: int


class Inventory:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._books = Books(files)

    def current(self) -> dict[str, Content]:
        """By name, all files that count.  Raises Refused when the books are not whole."""
        _, files = self._batches()
        return self._compacted(files)

    def fold_when_due(self) -> None:
        if len(self._books.done()) > _MANY:
            self.fold()

    def fold(self, ended: Sequence[Compaction] = ()) -> None:
        """Write the list anew, and remove what is in it now; of compactions, those *ended*."""
        batch, files = self._batches()
        listed = {name: [each.rows, each.size] for name, each in self._compacted(files).items()}
        before = self._files.numbers(_LISTS)
        number = before[-1] + 1 if before else 0
        self._files.write(_list(number), {"batch": batch, "files": listed})
        for old in before:
            self._files.remove(_list(old))
        self._books.forget(batch - _KEPT)
        for compaction in ended:
            self._books.compacted(compaction)

    def _batches(self) -> tuple[int, dict[str, Content]]:
        """The last batch, and the files of all: what compactions changed since is not seen to."""
        for _ in range(_TRIES - 1):
            try:
                return self._read()
            except Refused:
                continue  # a new list may have replaced it meanwhile
        return self._read()

    def _read(self) -> tuple[int, dict[str, Content]]:
        batch, files = self._last_list()
        later = [number for number in self._books.done() if number > batch]
        for number in later:
            added = self._books.files(number)
            if added is None and number == later[-1]:
                break  # it is just being written, or was cut off and will be written again
            if added is None or number != batch + 1:
                raise self._not_whole(f"the record of batch {batch + 1} in _zaqar/done")
            files |= {each.name: Content(each.rows, each.size) for each in added}
            batch = number
        return batch, files

    def _last_list(self) -> tuple[int, dict[str, Content]]:
        numbers = self._files.numbers(_LISTS)
        for number in reversed(numbers):
            record = self._files.read(_list(number))
            if record is not None:
                files = {name: Content(*each) for name, each in record["files"].items()}
                return record["batch"], files
        if len(numbers) > 1:
            raise self._not_whole("the list of files in _zaqar/files")
        return -1, {}

    def _compacted(self, files: dict[str, Content]) -> dict[str, Content]:
        for each in self._books.compactions():
            if each.name not in files and self._files.exists(each.name):
                gone = set(each.files)
                files = {name: content for name, content in files.items() if name not in gone}
                files[each.name] = Content(each.rows, each.size)
        return files

    def _not_whole(self, what: str) -> Refused:
        return Refused(f"{self._files.root}: {what} is missing, which names files")


def _list(number: int) -> str:
    return f"{_LISTS}/{number:010d}.json"
