# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis backup`` and ``zaqar-redis restore``."""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cliff.lister import Lister

from zaqar_redis.backup.backup import Backup, list_queues, save_control, save_schedules
from zaqar_redis.backup.backup_file import BackupDamaged, BackupFileError, reading, writing
from zaqar_redis.backup.backup_records import BackupHeader, BackupTrailer
from zaqar_redis.backup.backup_results import BackupResult, BackupStatus
from zaqar_redis.backup.restore import Restore, restore_control
from zaqar_redis.cli import stores
from zaqar_redis.cli.api import CommandFailed, print_warning
from zaqar_redis.cli.base import PROJECTS, Row, Table, TargetCommand, arg, resource_name, takes
from zaqar_redis.cli.target import store_advice
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.formats import is_new, use_formats

_COLUMNS = ("project", "queue", "outcome", "messages", "why")


class BackupCommand(TargetCommand, Lister):
    """Base of both commands: which queues they take, and what they say of them."""

    arguments = takes(
        PROJECTS,
        arg(
            "--queue",
            action="append",
            default=[],
            type=resource_name,
            metavar="QUEUE",
            help="only queues of this name, and their schedules; may be given more than once (all, "
            "and all topics)",
        ),
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._results: list[BackupResult] = []
        try:
            return super().run(parsed_args)
        finally:  # also when an error or Ctrl-C leaves no rows
            for line in _summary(self._results):
                self.app.stderr.write(f"{line}\n")

    def add(self, result: BackupResult) -> None:
        self._results.append(result)
        if not result.status.good:
            self.exit_code = 1

    def table(self) -> Table:
        return _COLUMNS, [_row(each) for each in self._results]


class BackupQueues(BackupCommand):
    """Copy queues and topics of a running service to a file.

    The file has everything of a queue: messages with their ids, claims, metadata, counters,
    subscriptions, due deliveries, idempotency keys. Each queue is locked for a moment and copied in
    that state; requests wait meanwhile. Each queue has a moment of its own.

    The file also has schedules, quotas and access keys, but no pools, flavors and channels. FILE
    must not exist; a name that ends with .gz is compressed. The command writes FILE.part, readable
    only by its owner, and renames it when it is complete and on disk.

    Exits with 1 if a queue was left out. Example:

        zaqar-redis backup --to zaqar.backup.gz --storage redis://10.0.0.5:6379/0
    """

    arguments = takes(
        arg("--to", required=True, type=Path, metavar="FILE", help="the file to write")
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            try:
                runner.run(self._backup, driver, parsed_args)
            except BackupFileError as why:
                raise CommandFailed(str(why)) from why
        return self.table()

    async def _backup(self, driver: Driver, parsed: argparse.Namespace) -> None:
        is_wanted = _filter(parsed)
        queues = [each for each in await list_queues(driver) if is_wanted(*each)]
        with (
            writing(parsed.to, self.target.store) as writer,
            self.progress("saving", " queues", total=len(queues)) as progress,
        ):

            def on_progress() -> None:
                megabytes = writer.bytes_written / 1_000_000
                progress.set_postfix_str(f"{megabytes:.1f} MB", refresh=False)
                progress.update(0)

            backup = Backup(driver, writer, on_progress)
            results = []
            for project, queue in queues:
                results.append(await backup.save_queue(project, queue))
                progress.update(1)
            saved = sum(each.status is BackupStatus.SAVED for each in results)
            if isinstance(driver, PooledDriver):
                results += await save_schedules(driver.control, writer, is_wanted)
                if not parsed.queue:
                    await save_control(driver.control, writer, parsed.project)
            if not results:
                raise CommandFailed("the store has no such queues: nothing was written")
            writer.write(BackupTrailer(saved))
        # Not before: an interrupted backup removes its file, and has saved nothing.
        for each in results:
            self.add(each)


class RestoreQueues(BackupCommand):
    """Restore queues, topics and schedules from a file that `backup` has written.

    Each is restored completely or not at all. An existing queue does not change: with the same
    creation time as in the file it is listed as already there, else as a conflict. After an
    interruption, run the command again: it continues with the missing queues. With pools each
    queue gets a pool of its flavor, which must exist. A schedule counts from now; an existing one
    does not change: it is already there if it is as in the file, else a conflict.

    Times are absolute: messages and claims that have ended since are gone. From a damaged or
    truncated file the command restores the queues before the damage.

    Exits with 1 if a queue or schedule was left out (a conflict, or a failure), or if the file is
    damaged or has no such queues. Queues that are already there do not count. Example:

        zaqar-redis restore --from zaqar.backup.gz --storage redis://10.0.0.6:6379/0
    """

    arguments = takes(
        arg(
            "--from",
            dest="source",
            required=True,
            type=Path,
            metavar="FILE",
            help="the file to read",
        ),
        arg(
            "--control",
            action="store_true",
            help="restore quotas and access keys that are missing, too; keys that were deleted "
            "since the backup are valid again",
        ),
        arg(
            "--dry-run",
            action="store_true",
            help="read and check the whole file, show what would be restored, and write nothing",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        if self.target.is_default:
            raise CommandFailed(f"no target store: {store_advice()}, or with --config-file")
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            try:
                runner.run(self._restore, driver, parsed_args)
            except BackupFileError as why:
                raise CommandFailed(str(why)) from why
        return self.table()

    async def _restore(self, driver: Driver, parsed: argparse.Namespace) -> None:
        path: Path = parsed.source
        with reading(path) as (header, reader):
            self.print_notice(_about(header), verbosity=1)
            await driver.ping()
            if not parsed.dry_run and await is_new(driver):  # as a service begins on it
                await use_formats(driver, is_new=True)
            doing = "reading" if parsed.dry_run else "restoring"
            with self.progress(doing, "B", unit_scale=True, total=reader.size) as progress:
                restore = Restore(
                    *(reader, driver),
                    is_wanted=_filter(parsed),
                    dry_run=parsed.dry_run,
                    on_progress=lambda: progress.update(reader.position() - progress.n),
                )
                try:
                    async for result in restore.results():
                        self.add(result)
                        progress.set_postfix_str(f"{len(self._results)} queues", refresh=False)
                except BackupDamaged as why:
                    progress.close()
                    self._warn_damaged(path, reader.position(), restore, why)
                    return
        if parsed.control:
            await self._restore_control(driver, restore, parsed)
        if not self._results and (parsed.queue or not parsed.control):
            raise CommandFailed(f"{path} has no such queues: none was restored")

    def _warn_damaged(
        self, path: Path, position: int, restore: Restore, why: BackupDamaged
    ) -> None:
        found, place = (restore.queue, "in") if restore.queue else (restore.previous, "behind")
        where = f", {place} {found.queue} of project {found.project}" if found else ""
        print_warning(
            f"{path} is damaged before byte {position}{where}: {why}. What comes behind cannot be "
            "restored."
        )
        self.exit_code = 1

    async def _restore_control(
        self, driver: Driver, restore: Restore, parsed: argparse.Namespace
    ) -> None:
        if not isinstance(driver, PooledDriver):
            raise CommandFailed("--control: this store has no control store (pooling is off)")
        wanted = set(parsed.project)
        quotas = [each for each in restore.quotas if not wanted or each.project in wanted]
        keys = [each for each in restore.access_keys if not wanted or each.key.project in wanted]
        if parsed.dry_run:
            self.print_notice(
                f"the file has {len(quotas)} quotas and {len(keys)} access keys", verbosity=1
            )
            return
        new_quotas, new_keys = await restore_control(driver.control, quotas, keys)
        self.print_notice(
            f"restored {new_quotas} of {len(quotas)} quotas and {new_keys} of {len(keys)} access "
            "keys; the others exist",
            verbosity=1,
        )


def _filter(parsed: argparse.Namespace) -> Callable[[str, str], bool]:
    projects, queues = set(parsed.project), set(parsed.queue)
    return lambda project, queue: (
        (not projects or project in projects) and (not queues or queue in queues)
    )


def _about(header: BackupHeader) -> str:
    created = datetime.datetime.fromtimestamp(header.created / 1000, datetime.UTC)
    return f"backup of {created:%Y-%m-%d %H:%M:%S} UTC, of {header.store}"


def _row(result: BackupResult) -> Row:
    return result.project, result.queue, str(result.status), result.messages, result.why


def _summary(results: Iterable[BackupResult]) -> Iterator[str]:
    """Yields lines: counts of queues, messages and schedules by outcome, and the reasons for it."""
    found, messages = Counter[tuple[str, str]](), Counter[str]()
    reasons = Counter[tuple[str, str, str]]()
    for each in results:
        found[each.noun, each.status] += 1
        messages[each.status] += each.messages
        if each.why:
            outcome = each.status if each.status.good else "left out"
            reasons[outcome, each.noun, each.why] += 1
    for (noun, status), number in found.items():
        having = f" with {messages[status]} messages" if noun == "queues" else ""
        yield f"{number} {noun}{having} {status}"
    for (outcome, noun, why), number in reasons.most_common():
        yield f"{outcome}: {number} {noun}: {why}"
