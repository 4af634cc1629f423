# SPDX-License-Identifier: Apache-2.0
"""Copies queues of a stock Zaqar store into ours, each completely or not at all."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from zaqar_redis import errors
from zaqar_redis.records import Record
from zaqar_redis.storage.pools.import_targets import ImportConflict, ImportStatus, QueueImporter
from zaqar_redis.zaqar_import import layout
from zaqar_redis.zaqar_import.layout import InvalidStockData
from zaqar_redis.zaqar_import.queue_reader import ImportProgress, ImportTally, QueueReader
from zaqar_redis.zaqar_import.source import StockStore

#: The reason beside ImportStatus.THERE.
_ALREADY_COPIED = "copied before; what changed in stock Zaqar since then is not copied"


class ImportResult(Record, frozen=True):
    """The outcome for one queue."""

    project: str
    queue: str
    fate: ImportStatus
    why: str = ""
    #: of a queue that was, or would be, copied
    tally: ImportTally | None = None


@dataclass(frozen=True)
class Importer:
    source: StockStore
    target: QueueImporter
    _: KW_ONLY
    #: the source's time in seconds
    now: int
    #: nothing is written
    dry_run: bool

    async def import_queue(
        self, project: str, member: bytes, on_progress: ImportProgress
    ) -> ImportResult:
        """Copies one queue; *member* names it in its project's list.  Raises SourceUnavailable."""
        name = member.decode(errors="replace")
        try:
            name = layout.name_of(project, member)
            queue = await self.source.queue(project, name)
            if await self.target.has_copy(project, name, queue.created, dry_run=self.dry_run):
                return ImportResult(project, name, ImportStatus.THERE, _ALREADY_COPIED)
            flavor = queue.metadata.get("_flavor") or ""
            if not await self.target.has_flavor(flavor):
                raise errors.NoSuchFlavor(name=flavor)
            reader = QueueReader(self.source, project, queue, self.now, on_progress)
            if self.dry_run:
                async for _ in reader.read():
                    pass
                return ImportResult(project, name, ImportStatus.WANTED, tally=reader.tally)
            await self.target.copy(project, name, flavor, reader.read())
            return ImportResult(project, name, ImportStatus.COPIED, tally=reader.tally)
        except ImportConflict as why:
            return ImportResult(project, name, ImportStatus.CONFLICT, str(why))
        except errors.Problem as problem:
            return ImportResult(project, name, ImportStatus.FAILED, problem.text)
        except InvalidStockData as why:
            return ImportResult(project, name, ImportStatus.FAILED, f"it cannot be read: {why}")
