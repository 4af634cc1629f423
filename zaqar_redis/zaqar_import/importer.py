# SPDX-License-Identifier: Apache-2.0
"""Copies queues of a stock Zaqar store into ours, each completely or not at all.

A queue that is being copied has a move lock ``into:import-…``: nobody else sees it.  An
import that is killed leaves that move lock, by which the next one recognises the partial
copy and begins it anew.  A finished copy is recognised by the creation time of the queue,
which it has from stock: nobody else creates a queue in the past.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from enum import StrEnum

from zaqar_redis import errors
from zaqar_redis.records import Queue, Record
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.transfer import IMPORT_PREFIX, Transfer
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
        move_lock = await transfer.move_lock(project, queue.name)
        if move_lock.startswith((f"into:{IMPORT_PREFIX}", "closed:")):
            return False
        if move_lock:
            raise _Conflict("a queue of this name is being moved")
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
        transfer = _transfer(driver, queue.name)
        # One for each attempt: of two imports at once, the earlier one fails.
        token = IMPORT_PREFIX + secrets.token_hex(16)
        if not await transfer.begin_import(project, queue.name, token):
            raise _Conflict("a queue of this name was created meanwhile")
        try:
            before = 0
            async for chunk in reader.read():
                await transfer.import_chunk(project, queue.name, token, chunk)
                on_progress(reader.tally.copied[MESSAGES] - before)
                before = reader.tally.copied[MESSAGES]
        except (Exception, asyncio.CancelledError):
            await self._undo(project, queue.name, transfer, token)
            raise
        await transfer.commit_import(project, queue.name, token)

    async def _undo(self, project: str, queue: str, transfer: Transfer, token: str) -> None:
        with contextlib.suppress(errors.Unavailable):  # else the next import does it
            if await transfer.move_lock(project, queue) == f"into:{token}":
                await transfer.abort_import(project, queue, token)
                await self._target.forget(project, queue)


def _transfer(driver: Driver, queue: str) -> Transfer:
    """Raises CannotMove."""
    if driver.transfer is None:
        raise errors.CannotMove(queue=queue, why="its store cannot import queues")
    return driver.transfer
