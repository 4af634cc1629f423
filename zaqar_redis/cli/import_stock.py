# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis import-stock``: copies queues from a store of stock Zaqar."""

from __future__ import annotations

import argparse
from collections import Counter

from cliff.lister import Lister

from zaqar_redis.cli import stores
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import PROJECTS, Row, Table, TargetCommand, arg, takes
from zaqar_redis.cli.target import store_advice
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools.import_targets import ImportStatus, QueueImporter
from zaqar_redis.zaqar_import import source as sources
from zaqar_redis.zaqar_import.importer import Importer, ImportResult
from zaqar_redis.zaqar_import.layout import InvalidStockData
from zaqar_redis.zaqar_import.queue_reader import CLAIMS, MESSAGES, SUBSCRIPTIONS, ImportTally
from zaqar_redis.zaqar_import.source import SourceUnavailable, StockStore

_KINDS = (MESSAGES, CLAIMS, SUBSCRIPTIONS)
_COLUMNS = ("project", "queue", "outcome", *_KINDS, "expired", "left_out", "why")


class ImportStock(TargetCommand, Lister):
    """Copy queues with messages, claims and subscriptions from stock Zaqar's Redis store.

    Stop stock Zaqar first: changes during the copy may be missed. Its store is only read. It
    must contain both queues and messages; stock's pools are not supported.

    Each queue is copied completely or not at all. After an interruption, run the command
    again: it continues with the missing queues. Messages that stock Zaqar gets for a queue
    after the copy are missing: delete the copy to import the queue again. A queue that
    existed before stays unchanged and is listed as a conflict.

    Claim ids, subscription ids, times, order, claim counts and metadata stay. Message ids
    change: ours are positions in the queue. Expired messages are not copied. Messages that
    stock encrypted stay encrypted, and only stock Zaqar with its key can read them: run it
    with this store as its driver, or have them consumed before.

    Exits with 1 when something was left out. Example:

        zaqar-redis import-stock --from redis://10.0.0.5:6379/0 --storage redis://10.0.0.6:6379/0
    """

    arguments = takes(
        arg(
            "--from",
            dest="source",
            required=True,
            metavar="URI",
            help="stock's store, as in its configuration, e.g. redis://10.0.0.5:6379/0",
        ),
        PROJECTS,
        arg("--dry-run", action="store_true", help="show what would be copied, and write nothing"),
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._outcomes: list[ImportResult] = []
        try:
            code = super().run(parsed_args)
        finally:  # also when an error or Ctrl-C leaves no rows
            for line in _summary(self._outcomes):
                self.app.stderr.write(f"{line}\n")
        return code or int(not all(map(_is_good, self._outcomes)))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        if self.target.is_default:
            raise CommandFailed(f"no target store: {store_advice()}, or with --config-file")
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            try:
                runner.run(self._import, driver, parsed_args)
            except (SourceUnavailable, InvalidStockData) as why:
                raise CommandFailed(f"--from {redact_password(parsed_args.source)}: {why}") from why
        return _COLUMNS, [_row(outcome) for outcome in self._outcomes]

    async def _import(self, driver: Driver, parsed: argparse.Namespace) -> None:
        async with sources.open_source(parsed.source) as source:
            now = await source.now()
            queues = await _queues(source, parsed.project)
            await driver.ping()
            importer = Importer(source, QueueImporter(driver), now=now, dry_run=parsed.dry_run)
            doing = "reading" if parsed.dry_run else "importing"
            with self.progress(doing, " queues", total=len(queues)) as progress:
                messages = 0

                def on_progress(more: int) -> None:
                    nonlocal messages
                    messages += more
                    progress.set_postfix_str(f"{messages} messages", refresh=False)
                    progress.update(0)

                for project, member in queues:
                    self._outcomes.append(await importer.import_queue(project, member, on_progress))
                    progress.update(1)


async def _queues(source: StockStore, wanted: list[str]) -> list[tuple[str, bytes]]:
    """Returns all queues, or those of the wanted projects.

    Raises InvalidStockData when there is none.
    """
    projects = list(dict.fromkeys(wanted)) or await source.projects()
    queues = [queue async for queue in source.queues(projects)]
    if queues:
        return queues
    if wanted:
        raise InvalidStockData(f"the store has no queues of {', '.join(wanted)}")
    if await source.holds_messages():
        raise InvalidStockData(
            "the store has messages of stock Zaqar, but its queues are in another store"
        )
    raise InvalidStockData(
        "this is not a store of stock Zaqar: it has no queues (stock Zaqar reads the number of its "
        "database from ?dbid=, 0 by default, and not from the path)"
    )


def _is_good(outcome: ImportResult) -> bool:
    return outcome.fate.good and not (outcome.tally and outcome.tally.left_out)


def _row(outcome: ImportResult) -> Row:
    tally = outcome.tally or ImportTally()
    why = outcome.why or ", ".join(
        f"{number} {kind}: {reason}" for (kind, reason), number in tally.left_out.items()
    )
    return (
        outcome.project,
        outcome.queue,
        str(outcome.fate),
        *(tally.copied[kind] for kind in _KINDS),
        tally.expired.total(),
        tally.left_out.total(),
        why,
    )


def _summary(outcomes: list[ImportResult]) -> list[str]:
    """Returns lines: counts of queues and of each kind, and the reasons for omissions."""
    fates = Counter(outcome.fate for outcome in outcomes)
    if not fates:
        return []
    tallies = [outcome.tally for outcome in outcomes if outcome.tally]
    copied = ImportStatus.WANTED if fates[ImportStatus.WANTED] else ImportStatus.COPIED
    lines = [
        "queues: " + ", ".join(f"{fates[fate]} {fate}" for fate in ImportStatus if fates[fate])
    ]
    lines += [_about(kind, tallies, copied) for kind in _KINDS]
    reasons = _reasons(outcomes).most_common()
    lines += [f"left out: {number} {reason}" for reason, number in reasons]
    if encrypted := sum(tally.encrypted for tally in tallies):
        lines.append(f"note: {encrypted} messages stay encrypted with stock Zaqar's key")
    return lines


def _about(kind: str, tallies: list[ImportTally], copied: ImportStatus) -> str:
    done = sum(tally.copied[kind] for tally in tallies)
    expired = sum(tally.expired[kind] for tally in tallies)
    left_out = sum(
        number for tally in tallies for (of, _), number in tally.left_out.items() if of == kind
    )
    return f"{kind}: {done} {copied}, {expired} expired, {left_out} left out"


def _reasons(outcomes: list[ImportResult]) -> Counter[str]:
    """Counts omissions by kind and reason."""
    found = Counter[str]()
    for outcome in outcomes:
        if outcome.why:
            found[f"queues: {outcome.why}"] += 1
        for (kind, reason), number in outcome.tally.left_out.items() if outcome.tally else ():
            found[f"{kind}: {reason}"] += number
    return found
