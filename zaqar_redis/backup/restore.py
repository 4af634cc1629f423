# SPDX-License-Identifier: Apache-2.0
"""Restores queues of a backup file, each completely or not at all.

A queue that exists is left alone.  After an interruption the restore is repeated, and goes on with
the queues that are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from zaqar_redis import errors
from zaqar_redis.backup.backup_file import BackupDamaged, BackupReader
from zaqar_redis.backup.backup_records import (
    BackupAccessKey,
    BackupChunk,
    BackupQueue,
    BackupQueueAbandoned,
    BackupQueueEnd,
    BackupQuota,
    BackupSchedule,
    BackupTrailer,
)
from zaqar_redis.backup.backup_results import SCHEDULE, BackupResult
from zaqar_redis.cron import Cron
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.schedule_records import Schedule
from zaqar_redis.service.schedules import next_time
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import Control, Schedules
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.import_targets import ImportConflict, ImportStatus, QueueImporter

_NO_FLAVOR = 'no pool has its flavor "{0}": first "zaqar-redis flavor create {0} POOL"'
_THERE = "it exists; what changed in it since the backup stays: delete it first to restore it"
_OTHER = "a schedule of this name exists that is not as in the file: delete it first"
_NO_CONTROL = "this store has no control store for schedules (pooling is off)"

#: Called after each record.
RestoreProgress = Callable[[], object]
#: Tells whether a queue of a project, as stores name it, is to be restored.
QueueFilter = Callable[[str, str], bool]


class _Abandoned(Exception):
    """The backup gave this copy of a queue up."""


class Restore:
    """The restore of one file."""

    def __init__(
        self,
        reader: BackupReader,
        driver: Driver,
        *,
        is_wanted: QueueFilter,
        dry_run: bool,
        on_progress: RestoreProgress,
    ) -> None:
        """With *dry_run* the whole file is read, and nothing is written."""
        self._reader = reader
        self._driver = driver
        self._target = QueueImporter(driver)
        self._is_wanted = is_wanted
        self._dry_run = dry_run
        self._on_progress = on_progress
        self._complete = 0
        #: the queue that is being read, for errors; None: between queues
        self.queue: BackupQueue | None = None
        #: the one before
        self.previous: BackupQueue | None = None
        self.quotas: list[BackupQuota] = []
        self.access_keys: list[BackupAccessKey] = []

    async def results(self) -> AsyncIterator[BackupResult]:
        """Restores queue by queue, and the schedules, and yields the outcome of each.

        Raises BackupDamaged; earlier queues are restored then, and later ones are not.
        """
        while not isinstance(record := self._read(), BackupTrailer):
            if isinstance(record, BackupQueue):
                self.queue = record
                if (result := await self._queue(record)) is not None:
                    yield result
                self.queue, self.previous = None, record
            elif isinstance(record, BackupQuota):
                self.quotas.append(record)
            elif isinstance(record, BackupAccessKey):
                self.access_keys.append(record)
            elif isinstance(record, BackupSchedule):
                if (result := await self._schedule(record)) is not None:
                    yield result
            else:
                raise BackupDamaged("a record is out of place")
        if record.queues != self._complete:
            raise BackupDamaged(f"it has {self._complete} queues, not {record.queues}")

    def _read(self) -> object:
        record = self._reader.read()
        self._on_progress()
        return record

    async def _queue(self, begin: BackupQueue) -> BackupResult | None:
        """Returns None for a queue that is not wanted, or that the backup gave up."""
        source = _QueueRecords(self._read)
        try:
            result = await self._restored(begin, source)
            messages = (source.end or await source.pass_over()).messages
        except _Abandoned:
            return None
        self._complete += 1
        return result and msgspec.structs.replace(result, messages=messages)

    async def _restored(self, begin: BackupQueue, source: _QueueRecords) -> BackupResult | None:
        project, queue = begin.project, begin.queue
        if not self._is_wanted(project, queue):
            return None
        try:
            there = await self._target.has_copy(
                project, queue, begin.created, dry_run=self._dry_run
            )
            if there:
                return BackupResult(project, queue, ImportStatus.THERE, why=_THERE)
            if not await self._target.has_flavor(begin.flavor):
                why = _NO_FLAVOR.format(begin.flavor)
                return BackupResult(project, queue, ImportStatus.FAILED, why=why)
            if self._dry_run:
                return BackupResult(project, queue, ImportStatus.WANTED)
            await self._target.copy(project, queue, begin.flavor, source.chunks())
            return BackupResult(project, queue, ImportStatus.COPIED)
        except ImportConflict as why:
            return BackupResult(project, queue, ImportStatus.CONFLICT, why=str(why))
        except errors.Problem as problem:
            return BackupResult(project, queue, ImportStatus.FAILED, why=problem.text)

    async def _schedule(self, record: BackupSchedule) -> BackupResult | None:
        schedule = Schedule.decode(record.definition)
        if not self._is_wanted(record.project, schedule.queue):
            return None
        status, why = ImportStatus.FAILED, _NO_CONTROL
        if isinstance(self._driver, PooledDriver):
            try:
                schedules = self._driver.control.schedules
                status, why = await self._planned(schedules, record, schedule)
            except errors.Problem as problem:
                why = problem.text
        return BackupResult(record.project, SCHEDULE + record.name, status, why=why)

    async def _planned(
        self, schedules: Schedules, record: BackupSchedule, schedule: Schedule
    ) -> tuple[ImportStatus, str]:
        """Creates a schedule that is missing, which counts from now."""
        cron = Cron(schedule.cron, schedule.timezone)
        while True:
            now, there = await schedules.get(record.project, record.name)
            if there is not None:
                same = there.schedule == schedule
                return (ImportStatus.THERE, "") if same else (ImportStatus.CONFLICT, _OTHER)
            if self._dry_run:
                return ImportStatus.WANTED, ""
            due = 0 if schedule.paused else next_time(schedule, cron, now)
            if await schedules.put(record.project, record.name, schedule, due) is not None:
                return ImportStatus.COPIED, ""


class _QueueRecords:
    """The records of one queue, behind its `BackupQueue`."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self._chunks = 0
        #: None: more is to be read
        self.end: BackupQueueEnd | None = None

    async def chunks(self) -> AsyncIterator[TransferChunk]:
        """Yields the chunks that were not read yet.  Raises _Abandoned and BackupDamaged."""
        while isinstance(record := self._read(), BackupChunk):
            self._chunks += 1
            await asyncio.sleep(0)  # reading does not wait, and Ctrl-C cancels only what waits
            yield record.chunk
        if isinstance(record, BackupQueueAbandoned):
            raise _Abandoned
        if not isinstance(record, BackupQueueEnd):
            raise BackupDamaged("a record is out of place")
        if record.chunks != self._chunks:
            raise BackupDamaged(f"it has {self._chunks} chunks, not {record.chunks}")
        self.end = record

    async def pass_over(self) -> BackupQueueEnd:
        """Reads what was not read yet.  Raises as `chunks` does."""
        while self.end is None:
            async for _ in self.chunks():
                pass
        return self.end


async def restore_control(
    control: Control, quotas: Sequence[BackupQuota], access_keys: Sequence[BackupAccessKey]
) -> tuple[int, int]:
    """Creates the quotas and access keys that the control store lacks; returns how many of each.

    Raises LimitExceeded and StoreUnavailable.
    """
    known = await control.quotas.list()
    missing = [each for each in quotas if each.project not in known]
    for each in missing:
        await control.quotas.put(each.project, each.quota)
    created = 0
    for record in access_keys:
        if await control.access_keys.get(record.key.id) is None:
            await control.access_keys.create(record.key)
            created += 1
    return len(missing), created
