# SPDX-License-Identifier: Apache-2.0
"""Writes queues of a running service to a backup file.

Each queue is copied as a move copies it: its messages while it is in use, and what changed since
while it is frozen.  So a queue is in the file as it was at one moment.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from zaqar_redis import errors
from zaqar_redis.backup.backup_file import BackupFileError, BackupWriter
from zaqar_redis.backup.backup_records import (
    BackupAccessKey,
    BackupChunk,
    BackupQueue,
    BackupQueueAbandoned,
    BackupQueueEnd,
    BackupQuota,
    BackupSchedule,
)
from zaqar_redis.backup.backup_results import SCHEDULE, BackupResult, BackupStatus
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import Control
from zaqar_redis.storage.move.copy import copy_messages
from zaqar_redis.storage.move.queue_move import QueueGone, QueueMove, transfer_of
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.import_targets import store_of
from zaqar_redis.storage.pools.retry import Attempts, RetryPolicy

#: Seconds: a lock that a killed backup or mover left expires within ten.
_LOCK_TIMEOUT = 15.0
#: Seconds for which a store may be away: a failover takes a few.
_OUTAGE_TIMEOUT = 30.0
#: Access keys, or schedules, read at once: some 100 KB, with the longest messages 6 MB.
_PAGE = 100

#: Called after each chunk.
BackupProgress = Callable[[], object]


class _FileTarget:
    """A file as the target of a move that keeps the queue: a `TransferTarget`.

    Nothing is to be undone in it: the records around the chunks say whether they are complete.
    """

    def __init__(self, writer: BackupWriter, on_progress: BackupProgress) -> None:
        self._writer = writer
        self._on_progress = on_progress
        self.chunks = 0

    async def begin_import(self, project: str, queue: str, token: str) -> bool:
        return True

    async def abort_import(self, project: str, queue: str, token: str) -> bool:
        return True

    async def import_chunk(
        self, project: str, queue: str, token: str, chunk: TransferChunk
    ) -> None:
        """Raises BackupFileError."""
        # A write to the page cache: it takes less time than Redis needs for the next chunk.
        self._writer.write(BackupChunk(chunk))
        self.chunks += 1
        self._on_progress()

    async def commit_import(self, project: str, queue: str, token: str) -> bool:
        """Does nothing: the caller ends the queue."""
        return True


class _NoRecord:
    """The record of a copy, which leaves catalogues as they are: a `MoveRecord`."""

    async def commit(self) -> bool:
        return True

    async def withdraw(self) -> bool:
        return True

    async def end(self) -> None:
        """Does nothing."""

    async def undo(self, imported: bool) -> None:
        """Does nothing."""


class Backup:
    """A backup of queues into one file."""

    def __init__(self, driver: Driver, writer: BackupWriter, on_progress: BackupProgress) -> None:
        self._driver = driver
        self._writer = writer
        self._on_progress = on_progress
        self._outage_timeout = _OUTAGE_TIMEOUT

    async def save_queue(self, project: str, queue: str) -> BackupResult:
        """Writes one queue.  Raises BackupFileError."""
        attempts: Attempts | None = None
        while True:
            try:
                messages = await self._save(project, queue)
                self._outage_timeout = _OUTAGE_TIMEOUT
                return BackupResult(project, queue, BackupStatus.SAVED, messages)
            except QueueGone:
                return BackupResult(project, queue, BackupStatus.GONE)
            except errors.Unavailable as error:
                # From now on: what the copy took until then does not count.
                attempts = attempts or Attempts(RetryPolicy(_LOCK_TIMEOUT, self._outage_timeout))
                try:
                    pause = attempts.pause(error)
                except errors.Unavailable:
                    if not isinstance(error, errors.MoveLocked):
                        self._outage_timeout = 0.0  # the next queues do not wait for it again
                    return BackupResult(project, queue, BackupStatus.FAILED, why=error.text)
                await asyncio.sleep(pause.seconds)
            except errors.Problem as error:
                return BackupResult(project, queue, BackupStatus.FAILED, why=error.text)
            except BackupFileError:
                raise
            except Exception as error:  # an error reply: of damaged data, e.g.
                why = f"its store answers: {error}; zaqar-redis check may say more"
                return BackupResult(project, queue, BackupStatus.FAILED, why=why)

    async def _save(self, project: str, queue: str) -> int:
        """Returns how many messages the queue has.  Raises QueueGone."""
        driver = await store_of(self._driver, project, queue)
        found = await driver.queues.get(project, queue)
        if found is None:
            raise QueueGone
        source = transfer_of(driver, "the store", queue)
        flavor = str(found.metadata.get("_flavor") or "")
        file = _FileTarget(self._writer, self._on_progress)
        self._writer.write(BackupQueue(project, queue, found.created, flavor))
        try:
            copy = QueueMove(project, queue, source, file, _NoRecord(), token=secrets.token_hex(16))
            messages = await copy.run(copy_messages, None, keep=True)
            now = await driver.queues.get(project, queue)
            if now is None or now.created != found.created:
                # Messages of two queues of this name may be in the copy.
                raise QueueGone if now is None else errors.MoveLocked
        except BackupFileError:
            raise
        except Exception as error:
            self._writer.write(BackupQueueAbandoned(str(error) or BackupStatus.GONE))
            raise
        self._writer.write(BackupQueueEnd(messages, file.chunks))
        return messages


async def save_control(control: Control, writer: BackupWriter, projects: Collection[str]) -> None:
    """Writes quotas and access keys, of these projects or, if there are none, of all.

    Raises BackupFileError and StoreUnavailable.
    """
    for project, quota in sorted((await control.quotas.list()).items()):
        if not projects or project in projects:
            writer.write(BackupQuota(project, quota))
    after = ""
    while True:
        page = await control.access_keys.list(after, _PAGE)
        for key in page.items:
            if not projects or key.project in projects:
                writer.write(BackupAccessKey(key))
        if not page.marker:
            return
        after = page.marker


async def save_schedules(
    control: Control, writer: BackupWriter, is_wanted: Callable[[str, str], bool]
) -> Sequence[BackupResult]:
    """Writes the schedules that post to wanted queues (project, queue).

    Raises BackupFileError and StoreUnavailable.
    """
    results = []
    async for project in control.schedules.projects():
        after = ""
        while (page := await control.schedules.list(project, after, _PAGE)).marker:
            for each in page.items:
                if is_wanted(project, each.schedule.queue):
                    writer.write(BackupSchedule(project, each.name, each.schedule.encode()))
                    name = SCHEDULE + each.name
                    results.append(BackupResult(project, name, BackupStatus.SAVED))
            after = page.marker
    return results


async def list_queues(driver: Driver) -> list[tuple[str, str]]:
    """Returns the project and the name of every queue, topics included, as stores name them.

    Raises StoresUnavailable, StoreUnavailable, and BadConfiguration when a store cannot list them.
    """
    await driver.ping()
    # Names take some 200 bytes each.
    found: dict[tuple[str, str], None] = {}
    stores = await driver.stores() if isinstance(driver, PooledDriver) else {"": driver}
    # Twice: a queue may move from a store that is yet to be read to one that has been.
    for _ in range(min(2, len(stores))):
        for name, store in stores.items():
            async for project, names in _content(name, store):
                found.update({(project, each): None for each in names})
    return list(found)


def _content(name: str, store: Driver | None) -> AsyncIterator[tuple[str, Sequence[str]]]:
    if store is None or store.ownership is None:
        raise errors.BadConfiguration(f'the store of "{name}" cannot list its queues')
    return store.ownership.content()
