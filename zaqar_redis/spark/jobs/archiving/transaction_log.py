# SPDX-License-Identifier: Apache-2.0
"""The transaction log of an archive: what is in it, and what was begun.

Below ``_zaqar``:

    archive.json          which format it has; written once
    staged/<attempt>/     files that are being written, by one try
    manifests/<N>.json    change N is staged: from here on it will be made
    done/<N>.json         change N is made; offsets at which to read on
    lock                  the process that writes

A change is a batch of messages, or the compaction of some files into one.  Some records of
changes have a checkpoint: all files after the change, so that readers know when one is
missing.  Records before the last checkpoint are removed after some time.

Each record is written once; one that was cut off counts as missing.  One process writes at
a time, see lock.py.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field

import msgspec

from zaqar_redis import errors
from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving import layout
from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.jobs.running import JobRefused
from zaqar_redis.spark.offsets import QueueOffset

_VERSION = 3

HEAD = f"{LOG_FOLDER}/archive.json"
STAGED = f"{LOG_FOLDER}/staged"
_MANIFESTS = f"{LOG_FOLDER}/manifests"
_DONE = f"{LOG_FOLDER}/done"
#: Changes from one checkpoint to the next: each change costs a reader a request, and a
#: checkpoint has as many lines as there are files.
_CHECKPOINT = 20
#: Changes before a checkpoint that keep their records, for inspection, and for readers that
#: listed files just before these were replaced.
_KEPT = 10
#: How often a reader begins again: checkpoints are many changes apart.
_TRIES = 5


@dataclass(frozen=True)
class ArchiveHeader:
    """What is fixed when an archive is created."""

    format: str
    #: id of the writer in tables
    id: str
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
class FileStats:
    """Size of a file: messages, and bytes."""

    rows: int
    size: int


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

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def ranks(self) -> int:
        return sum(each.end - each.start for each in self.ranges)

    def applied(self, files: Mapping[str, FileStats]) -> dict[str, FileStats]:
        """Returns the files of an archive after the change; *files* are those before."""
        gone = set(self.replaced)
        kept = {name: stats for name, stats in files.items() if name not in gone}
        return kept | {each.name: FileStats(each.rows, each.size) for each in self.files}


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
        if record is None:
            return None
        if record["version"] != _VERSION:
            raise errors.BadConfiguration(
                f"{self._files.root} is an archive of version {record['version']}; "
                f"this program knows version {_VERSION}"
            )
        # Archives of earlier versions also name the catalogue of a table, which is passed over.
        return msgspec.convert(record, ArchiveHeader)

    def begin(self, format: str) -> ArchiveHeader:
        head = ArchiveHeader(format, uuid.uuid4().hex)
        self._files.write(HEAD, asdict(head))
        return head

    def state(self) -> ArchiveState:
        for number in reversed(self._numbers()):
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
                return msgspec.convert(record, Manifest)
        return None

    def finished(self, manifest: Manifest, state: ArchiveState) -> None:
        """Records that a change is made; *state* has the offsets after it."""
        checkpoint = None
        if manifest.number % _CHECKPOINT == 0:
            after = manifest.applied(self.files())
            checkpoint = {name: [each.rows, each.size] for name, each in after.items()}
        record = {**asdict(manifest), "offsets": state.offsets, "checkpoint": checkpoint}
        self._files.write(_done(manifest.number), record)
        if checkpoint is not None:
            for number in self._numbers():
                if number < manifest.number - _KEPT:
                    self._files.remove(_done(number))

    def files(self) -> dict[str, FileStats]:
        """Returns all current files by name.  Raises JobRefused when a record is missing."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(JobRefused):
                return self._current()
            # a newer checkpoint may have replaced it meanwhile
        return self._current()

    def _current(self) -> dict[str, FileStats]:
        later: list[Manifest] = []
        following: int | None = None
        for number in reversed(self._numbers()):
            record = self._files.read(_done(number))
            # The last one may be unfinished, or was cut off and will be written again.
            if following is not None and (record is None or number != following - 1):
                break
            following = number
            if record is not None and record["checkpoint"] is not None:
                files = {name: FileStats(*each) for name, each in record["checkpoint"].items()}
                return functools.reduce(lambda before, each: each.applied(before), later, files)
            if record is not None:
                later.insert(0, msgspec.convert(record, Manifest))
        if following:
            raise JobRefused(
                f"{self._files.root}: the record of change {following - 1} in {_DONE} is missing, "
                "which names files"
            )
        return {}

    def replaced(self, existing: Container[str]) -> set[str]:
        """Returns names of files that others, of those *existing*, have lately replaced."""
        done = (self._files.read(_done(number)) for number in self._numbers())
        recent = [
            self.manifest(),
            *(msgspec.convert(record, Manifest) for record in done if record is not None),
        ]
        return {
            name
            for manifest in recent
            if manifest is not None and any(each.name in existing for each in manifest.files)
            for name in manifest.replaced
        }

    def _numbers(self) -> list[int]:
        """Returns the changes that have records, sorted."""
        return self._files.numbers(_DONE)

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
