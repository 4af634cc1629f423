# SPDX-License-Identifier: Apache-2.0
"""The transaction log of an archive: what is in it, and what was begun.

Below ``_zaqar``:

    archive.json          which format it has; written once
    staged/<attempt>/     files that are being written, by one try
    manifests/<N>.json    change N is staged: from here on it will be made
    done/<N>.json         change N is made; offsets at which to read on
    files/<N>.json        all files up to some change, see inventory.py
    lock                  the process that writes

A change is a batch of messages, or the compaction of some files into one.  Each record is
written once; one that was cut off counts as missing.  One process writes at a time, see
lock.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zaqar_redis import errors
from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving import layout
from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.offsets import QueueOffset

_VERSION = 3

HEAD = f"{LOG_FOLDER}/archive.json"
STAGED = f"{LOG_FOLDER}/staged"
_MANIFESTS = f"{LOG_FOLDER}/manifests"
_DONE = f"{LOG_FOLDER}/done"


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
    """A file of a change; paths below the archive, and bytes."""

    staged: str
    name: str
    rows: int
    size: int

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def queue(self) -> str:
        return layout.values(self.name)["queue"]


@dataclass(frozen=True)
class Manifest:
    """A change that is staged."""

    number: int
    attempt: str
    files: tuple[ArchiveFile, ...]
    #: of a batch
    project: str = ""
    ranges: tuple[RankRange, ...] = ()
    #: of a compaction: names of the files that the new one replaces
    replaced: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            record["number"],
            record["attempt"],
            tuple(ArchiveFile(**each) for each in record["files"]),
            record["project"],
            tuple(RankRange(**each) for each in record["ranges"]),
            tuple(record["replaced"]),
        )

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def ranks(self) -> int:
        return sum(each.end - each.start for each in self.ranges)


@dataclass(frozen=True)
class ArchiveState:
    """Offsets of the archive after a change."""

    number: int = -1
    #: by project/queue: epoch, and the next rank to read
    offsets: dict[str, QueueOffset] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> ArchiveState:
        reached = {
            offsets.key(manifest.project, each.queue): offsets.up_to(each.epoch, each.end)
            for each in manifest.ranges
        }
        return ArchiveState(manifest.number, offsets.sorted_({**self.offsets, **reached}))

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
                return ArchiveState(number, record["offsets"])
        return ArchiveState()

    def staged(self, manifest: Manifest) -> None:
        self._files.write(_manifest(manifest.number), asdict(manifest))

    def manifest(self) -> Manifest | None:
        """Returns the change that was begun last, and may be unfinished; None: all are done."""
        for number in reversed(self._files.numbers(_MANIFESTS)):
            record = self._files.read(_manifest(number))
            if record is not None:
                return Manifest.of(record)
        return None

    def finished(self, manifest: Manifest, state: ArchiveState) -> None:
        """Records that a change is made; *state* has the offsets after it."""
        record = {**asdict(manifest), "offsets": state.offsets}
        self._files.write(_done(manifest.number), record)

    def done(self) -> list[int]:
        """Returns the changes that have records, sorted."""
        return self._files.numbers(_DONE)

    def change(self, number: int) -> Manifest | None:
        """Returns a change that was made; None: it has no record."""
        record = self._files.read(_done(number))
        return None if record is None else Manifest.of(record)

    def replaced(self, existing: Container[str]) -> set[str]:
        """Returns names of files that others, of those *existing*, have lately replaced."""
        recent = [self.manifest(), *(self.change(number) for number in self.done())]
        return {
            name
            for manifest in recent
            if manifest is not None and any(each.name in existing for each in manifest.files)
            for name in manifest.replaced
        }

    def forget(self, number: int) -> None:
        """Removes the records of changes up to this one."""
        for each in self.done():
            if each <= number:
                self._files.remove(_done(each))

    def remove(self, manifest: Manifest) -> None:
        """Removes what is left of a change that is finished."""
        self._files.remove(_manifest(manifest.number))
        self._files.remove(f"{STAGED}/{manifest.attempt}")

    def tidy(self) -> None:
        """Removes what failed tries left."""
        self._files.remove(_MANIFESTS)
        self._files.remove(STAGED)


def _done(number: int) -> str:
    return f"{_DONE}/{number:010d}.json"


def _manifest(number: int) -> str:
    return f"{_MANIFESTS}/{number:010d}.json"


def attempt() -> str:
    """Returns a folder name unique to a try: a killed process may still write for a while."""
    return uuid.uuid4().hex
