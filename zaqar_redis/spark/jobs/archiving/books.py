# SPDX-License-Identifier: Apache-2.0
"""The books of an archive: what is in it, and what was begun.

Below ``_zaqar``:

    archive.json            which format it has; written once
    staged/<attempt>/       files that are being written, by one try
    manifests/<N>.json      batch N is staged: from here on it will be archived
    done/<N>.json           batch N is archived; where each queue is to be read on
    files/<N>.json          all files up to some batch, see inventory.py
    compactions/<id>.json   files that one file, staged or in its place, stands for
    lock                    who is at work

Each record is written once, whole: one that was cut off is none.  One process writes at
a time, see lock.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zaqar_redis import errors
from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving.files import BOOKS, Files
from zaqar_redis.spark.offsets import Entry

_VERSION = 2

HEAD = f"{BOOKS}/archive.json"
STAGED = f"{BOOKS}/staged"
_MANIFESTS = f"{BOOKS}/manifests"
_DONE = f"{BOOKS}/done"
_COMPACTIONS = f"{BOOKS}/compactions"


@dataclass(frozen=True)
class Head:
    """What is fixed when an archive begins."""

    format: str
    #: names it wherever a table wants a name of its writer
    id: str
    #: of an Iceberg table: its catalogue, None for that within the archive, and its name
    catalog: str | None = None
    table: str | None = None
    version: int = _VERSION


@dataclass(frozen=True)
class Range:
    """Ranks of a queue, from *start* to before *end*."""

    queue: str
    epoch: str
    start: int
    end: int
    #: how many of them had a message when this was planned
    messages: int


@dataclass(frozen=True)
class File:
    """One file of a batch; paths below the archive."""

    staged: str
    name: str
    queue: str
    rows: int
    size: int

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class Manifest:
    """A batch that is staged."""

    batch: int
    project: str
    attempt: str
    ranges: tuple[Range, ...]
    files: tuple[File, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            record["batch"],
            record["project"],
            record["attempt"],
            tuple(Range(**each) for each in record["ranges"]),
            tuple(File(**each) for each in record["files"]),
        )

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def ranks(self) -> int:
        return sum(each.end - each.start for each in self.ranges)


@dataclass(frozen=True)
class State:
    """Where the archive is after a batch."""

    batch: int = -1
    #: by project/queue: epoch, and the next rank to read
    offsets: dict[str, Entry] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> State:
        reached = {
            offsets.key(manifest.project, each.queue): offsets.reached(each.epoch, each.end)
            for each in manifest.ranges
        }
        return State(manifest.batch, offsets.sorted_({**self.offsets, **reached}))

    def of_project(self, project: str) -> dict[str, Entry]:
        """By queue."""
        start = offsets.key(project, "")
        return {
            key.removeprefix(start): entry
            for key, entry in self.offsets.items()
            if key.startswith(start)
        }

    def projects(self) -> list[str]:
        """Those that it has queues of, in order of name."""
        return sorted({offsets.project_of(key) for key in self.offsets})


@dataclass(frozen=True)
class Compaction:
    """One file that stands for others."""

    id: str
    staged: str
    name: str
    files: tuple[str, ...]
    rows: int
    size: int


class Books:
    def __init__(self, files: Files) -> None:
        self._files = files

    def head(self) -> Head | None:
        """Raises BadConfiguration when a later version wrote it."""
        record = self._files.read(HEAD)
        if record is not None and record["version"] != _VERSION:
            raise errors.BadConfiguration(
                f"{self._files.root} is an archive of version {record['version']}; "
                f"this program knows version {_VERSION}"
            )
        return Head(**record) if record is not None else None

    def begin(self, format: str, catalog: str | None, table: str | None) -> Head:
        head = Head(format, uuid.uuid4().hex, catalog, table)
        self._files.write(HEAD, asdict(head))
        return head

    def state(self) -> State:
        for number in reversed(self.done()):
            record = self._files.read(_done(number))
            if record is not None:
                return State(record["batch"], record["offsets"])
        return State()

    def finished(self, manifest: Manifest, state: State) -> None:
        """The batch is archived: *state* is what the archive is at."""
        done = {
            "batch": state.batch,
            "offsets": state.offsets,
            "ranges": [asdict(each) for each in manifest.ranges],
            "rows": manifest.rows,
            "files": [asdict(each) for each in manifest.files],
        }
        self._files.write(_done(state.batch), done)
        self._files.remove(_manifest(manifest.batch))

    def done(self) -> list[int]:
        """Batches that are archived, of which there are records, in order."""
        return self._files.numbers(_DONE)

    def files(self, batch: int) -> tuple[File, ...] | None:
        """Those of a batch that is archived; None: there is no record of it."""
        record = self._files.read(_done(batch))
        return None if record is None else tuple(File(**each) for each in record["files"])

    def forget(self, batch: int) -> None:
        """Remove the records of batches up to this one."""
        for number in self.done():
            if number <= batch:
                self._files.remove(_done(number))

    def staged(self, manifest: Manifest) -> None:
        self._files.write(_manifest(manifest.batch), asdict(manifest))

    def manifest(self, batch: int) -> Manifest | None:
        record = self._files.read(_manifest(batch))
        return Manifest.of(record) if record is not None else None

    def tidy(self) -> None:
        """Remove what tries that came to nothing have left, and batches that are done."""
        self._files.remove(STAGED)
        self._files.remove(_MANIFESTS)

    def compactions(self) -> list[Compaction]:
        """Those that were begun, and are not in the list of files."""
        found = []
        for name in self._files.names(_COMPACTIONS):
            record = self._files.read(f"{_COMPACTIONS}/{name}")
            if record is not None:
                found.append(Compaction(**record | {"files": tuple(record["files"])}))
        return found

    def compacting(self, compaction: Compaction) -> None:
        self._files.write(f"{_COMPACTIONS}/{compaction.id}.json", asdict(compaction))

    def compacted(self, compaction: Compaction) -> None:
        self._files.remove(f"{_COMPACTIONS}/{compaction.id}.json")


def _done(batch: int) -> str:
    return f"{_DONE}/{batch:010d}.json"


def _manifest(batch: int) -> str:
    return f"{_MANIFESTS}/{batch:010d}.json"


def attempt() -> str:
    """A folder that no other try has: a process that was killed may write on for a while."""
    return uuid.uuid4().hex
