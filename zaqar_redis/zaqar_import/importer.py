# SPDX-License-Identifier: Apache-2.0
"""Copies queues of a stock Zaqar store into ours, each completely or not at all.

A finished copy is recognised by the creation time of the queue,
which it has from stock: nobody else creates a queue in the past.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import StrEnum

from zaqar_redis import errors
from zaqar_redis.records import IMPORT_PREFIX, Queue, Record
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.move.queue_import import ImportObstacle, QueueImport, obstructs
from zaqar_redis.storage.transfer import Transfer
from zaqar_redis.zaqar_import import layout
from zaqar_redis.zaqar_import.layout import InvalidStockData
from zaqar_redis.zaqar_import.queue_reader import MESSAGES, ImportTally, QueueReader
from zaqar_redis.zaqar_import.source import StockStore
from zaqar_redis.zaqar_import.targets import ImportTarget

#: The reason beside ImportStatus.THERE.
_ALREADY_COPIED = "copied before; what changed in stock Zaqar since then is not copied"

#: Called with how many more messages were read.
ImportProgress = Callable[[int], object]


class ImportStatus(StrEnum):
    COPIED = "copied"
    WANTED = "to be copied"
    THERE = "already there"
    CONFLICT = "conflict"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        return self not in (ImportStatus.CONFLICT, ImportStatus.FAILED)


class ImportResult(Record, frozen=True):
    """The outcome for one queue."""

    project: str
    queue: str
    fate: ImportStatus
    why: str = ""
    #: of a queue that was, or would be, copied
    tally: ImportTally | None = None


class _Conflict(Exception):
    """Another queue has this name; the text says which."""


class Importer:
    def __init__(
        self, source: StockStore, target: ImportTarget, *, now: int, dry_run: bool
    ) -> None:
        """*now* is the source's time in seconds; with *dry_run* nothing is written."""
        self._source = source
        self._target = target
        self._now = now
        self._dry_run = dry_run

    async def import_queue(
        self, project: str, member: bytes, on_progress: ImportProgress
    ) -> ImportResult:
        """Copies one queue; *member* names it in its project's list.  Raises SourceUnavailable."""
        name = member.decode(errors="replace")
        try:
            name = layout.name_of(project, member)
            queue = await self._source.queue(project, name)
            if await self._already_imported(project, queue):
                return ImportResult(project, name, ImportStatus.THERE, _ALREADY_COPIED)
            reader = QueueReader(self._source, project, queue, self._now)
            if self._dry_run:
                await self._read(reader, on_progress)
                return ImportResult(project, name, ImportStatus.WANTED, tally=reader.tally)
            await self._copy(project, queue, reader, on_progress)
            return ImportResult(project, name, ImportStatus.COPIED, tally=reader.tally)
        except _Conflict as why:
            return ImportResult(project, name, ImportStatus.CONFLICT, str(why))
        except errors.Problem as problem:
            return ImportResult(project, name, ImportStatus.FAILED, problem.text)
        except InvalidStockData as why:
            return ImportResult(project, name, ImportStatus.FAILED, f"it cannot be read: {why}")

    async def _already_imported(self, project: str, queue: Queue) -> bool:
        """Returns whether an import finished the queue.  Raises _Conflict for another queue."""
        driver = await self._target.find(project, queue.name)
        transfer = _transfer(driver, queue.name)
        lock = await transfer.move_lock(project, queue.name)
        if obstructs(lock):
            raise _Conflict(ImportObstacle.BEING_MOVED.value)
        if lock is not None:
            return False
        existing = await driver.queues.get(project, queue.name)
        if existing is None:
            return False
        if existing.created != queue.created:
            raise _Conflict("another queue of this name exists")
        if not self._dry_run:
            # The import may have been killed before it could list the queue.
            await transfer.commit_import(project, queue.name, IMPORT_PREFIX)
        return True

    async def _read(self, reader: QueueReader, on_progress: ImportProgress) -> None:
        before = 0
        async for _ in reader.read():
            on_progress(reader.tally.copied[MESSAGES] - before)
            before = reader.tally.copied[MESSAGES]

    async def _copy(
        self, project: str, queue: Queue, reader: QueueReader, on_progress: ImportProgress
    ) -> None:
        flavor = queue.metadata.get("_flavor") or ""
        driver = await self._target.make(project, queue.name, flavor)
        queue_import = QueueImport(_transfer(driver, queue.name), project, queue.name)
        obstacle = await queue_import.begin()
        if obstacle is not None:
            raise _Conflict(f"meanwhile {obstacle.value}")
        try:
            before = 0
            async for chunk in reader.read():
                await queue_import.add(chunk)
                on_progress(reader.tally.copied[MESSAGES] - before)
                before = reader.tally.copied[MESSAGES]
        except (Exception, asyncio.CancelledError):
            with contextlib.suppress(errors.Unavailable):  # else the next import does it
                if await queue_import.abort():
                    await self._target.forget(project, queue.name)
            raise
        await queue_import.commit()


def _transfer(driver: Driver, queue: str) -> Transfer:
    """Raises CannotMove."""
    if driver.transfer is None:
        raise errors.CannotMove(queue=queue, why="its store cannot import queues")
    return driver.transfer
