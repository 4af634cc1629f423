# SPDX-License-Identifier: Apache-2.0
"""The transaction log of an archive: what is in it, and what was begun.

Below ``_zaqar``:

    archive.json            which format it has; written once
    staged/<attempt>/       files that are being written, by one try
    manifests/<N>.json      batch N is staged: from here on it will be archived
    done/<N>.json           batch N is archived; offsets at which to read on
    files/<N>.json          all files up to some batch, see inventory.py
    compactions/<id>.json   files that one file, staged or moved in, replaces
    lock                    the process that writes

Each record is written once; one that was cut off counts as missing.  One process writes
at a time, see lock.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zaqar_redis import errors
from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.offsets import QueueOffset

_VERSION = 2

HEAD = f"{LOG_FOLDER}/archive.json"
STAGED = f"{LOG_FOLDER}/staged"
_MANIFESTS = f"{LOG_FOLDER}/manifests"
_DONE = f"{LOG_FOLDER}/done"
_COMPACTIONS = f"{LOG_FOLDER}/compactions"


@dataclass(frozen=True)
class ArchiveHeader:
    """What is fixed when an archive is created."""

    format: str
    #: id of the writer in tables
    id: str
    #: of an Iceberg table: its catalogue, None for that within the archive, and its name
    catalog: str | None = None
    table: str | None = None
    version: int = _VERSION


@dataclass(frozen=True)
class RankRange:
    """Ranks of a queue, from *start* to before *end*."""

    queue: str
    epoch: str
    start: int
    end: int
    #: how many of them had a message at planning
    messages: int


@dataclass(frozen=True)
class ArchiveFile:
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
    ranges: tuple[RankRange, ...]
    files: tuple[ArchiveFile, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            record["batch"],
            record["project"],
            record["attempt"],
            tuple(RankRange(**each) for each in record["ranges"]),
            tuple(ArchiveFile(**each) for each in record["files"]),
        )

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def ranks(self) -> int:
        return sum(each.end - each.start for each in self.ranges)


@dataclass(frozen=True)
class ArchiveState:
    """Offsets of the archive after a batch."""

    batch: int = -1
    #: by project/queue: epoch, and the next rank to read
    offsets: dict[str, QueueOffset] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> ArchiveState:
        reached = {
            offsets.key(manifest.project, each.queue): offsets.up_to(each.epoch, each.end)
            for each in manifest.ranges
        }
        return ArchiveState(manifest.batch, offsets.sorted_({**self.offsets, **reached}))

    def of_project(self, project: str) -> dict[str, QueueOffset]:
        """Returns offsets by queue."""
        start = offsets.key(project, "")
        return {
            key.removeprefix(start): entry
            for key, entry in self.offsets.items()
            if key.startswith(start)
        }

    def projects(self) -> list[str]:
        """Returns the sorted projects whose queues it has."""
        return sorted({offsets.project_of(key) for key in self.offsets})


@dataclass(frozen=True)
class Compaction:
    """One file that replaces others."""

    id: str
    staged: str
    name: str
    files: tuple[str, ...]
    rows: int
    size: int


class TransactionLog:
    def __init__(self, files: HadoopFolder) -> None:
        self._files = files

    def head(self) -> ArchiveHeader | None:
        """Returns the header; None: no archive.  Raises BadConfiguration for another version."""
        record = self._files.read(HEAD)
        if record is not None and record["version"] != _VERSION:
            raise errors.BadConfiguration(
                f"{self._files.root} is an archive of version {record['version']}; "
                f"this program knows version {_VERSION}"
            )
        return ArchiveHeader(**record) if record is not None else None

    def begin(self, format: str, catalog: str | None, table: str | None) -> ArchiveHeader:
        head = ArchiveHeader(format, uuid.uuid4().hex, catalog, table)
        self._files.write(HEAD, asdict(head))
        return head

    def state(self) -> ArchiveState:
        for number in reversed(self.done()):
            record = self._files.read(_done(number))
            if record is not None:
                return ArchiveState(record["batch"], record["offsets"])
        return ArchiveState()

    def finished(self, manifest: Manifest, state: ArchiveState) -> None:
        """Records that the batch is archived; *state* has the offsets after it."""
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
        """Returns the archived batches that have records, sorted."""
        return self._files.numbers(_DONE)

    def files(self, batch: int) -> tuple[ArchiveFile, ...] | None:
        """Returns the files of an archived batch; None: it has no record."""
        record = self._files.read(_done(batch))
        return None if record is None else tuple(ArchiveFile(**each) for each in record["files"])

    def forget(self, batch: int) -> None:
        """Removes the records of batches up to this one."""
        for number in self.done():
            if number <= batch:
                self._files.remove(_done(number))

    def staged(self, manifest: Manifest) -> None:
        self._files.write(_manifest(manifest.batch), asdict(manifest))

    def manifest(self, batch: int) -> Manifest | None:
        record = self._files.read(_manifest(batch))
        return Manifest.of(record) if record is not None else None

    def tidy(self) -> None:
        """Removes files of failed tries, and manifests of batches that are done."""
        self._files.remove(STAGED)
        self._files.remove(_MANIFESTS)

    def compactions(self) -> list[Compaction]:
        """Returns compactions that were begun, and are not in the list of files."""
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
    """Returns a folder name unique to a try: a killed process may still write for a while."""
    return uuid.uuid4().hex
