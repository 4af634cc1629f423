# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis import-stock``: queues of a stock Zaqar store become ours."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from cliff.lister import Lister
from tqdm import tqdm

from zaqar_redis.cli import session
from zaqar_redis.cli.session import Refused, Targeted
from zaqar_redis.cli.target import store_advice
from zaqar_redis.keyspace.client import printable
from zaqar_redis.stock import source as sources
from zaqar_redis.stock.importer import Fate, Importer, Outcome
from zaqar_redis.stock.layout import Unreadable
from zaqar_redis.stock.portions import CLAIMS, MESSAGES, SUBSCRIPTIONS, Tally
from zaqar_redis.stock.source import Source, SourceAway
from zaqar_redis.stock.targets import target
from zaqar_redis.storage.driver import Driver

Row = tuple[Any, ...]

_KINDS = (MESSAGES, CLAIMS, SUBSCRIPTIONS)
_COLUMNS = ("project", "queue", "outcome", *_KINDS, "expired", "left_out", "why")


class ImportStock(Targeted, Lister):
    """Copy queues with messages, claims and subscriptions out of stock Zaqar's Redis store.

    Stop stock Zaqar first: what changes meanwhile may be missed. Its store is only read,
    and must hold queues and messages both; of stock's pools, nothing is known.

    Each queue appears whole or not at all. After an interruption, run the command again:
    it goes on with the queues that are missing. What stock Zaqar gets for a queue after
    that was copied does not follow: delete the copy to import the queue anew. A queue
    that was there before is left alone and listed as a conflict.

    Claim ids, subscription ids, times, order, claim counts and metadata stay. Message ids
    change: ours say where in its queue a message stands. What has expired stays behind.
    Messages that stock encrypted stay so, and only stock Zaqar with its key can read
    them: run it with this store as its driver, or let them be consumed before.

    Exits with 1 when something was left out. Example:

        zaqar-redis import-stock --from redis://10.0.0.5:6379/0 --storage redis://10.0.0.6:6379/0
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--from",
            dest="source",
            required=True,
            metavar="URI",
            help="stock's store, as in its configuration, e.g. redis://10.0.0.5:6379/0",
        )
        parser.add_argument(
            "--project",
            action="append",
            metavar="PROJECT",
            help="only this project's queues; may be given more than once (all)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be copied, and write nothing"
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._outcomes: list[Outcome] = []
        try:
            code = super().run(parsed_args)
        finally:  # also when there are no rows, because it was cut short
            for line in _summary(self._outcomes):
                self.app.stderr.write(f"{line}\n")
        return code or int(not all(map(_is_good, self._outcomes)))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        if self.target.assumed:
            raise Refused(f"say where to: {store_advice()}, or with --config-file")
        with session.stored(parsed_args, self.target) as (driver, runner):
            try:
                runner.run(self._import, driver, parsed_args)
            except (SourceAway, Unreadable) as why:
                raise Refused(f"--from {printable(parsed_args.source)}: {why}") from why
        return _COLUMNS, [_row(outcome) for outcome in self._outcomes]

    async def _import(self, driver: Driver, parsed: argparse.Namespace) -> None:
        async with sources.opened(parsed.source) as source:
            now = await source.now()
            queues = await _queues(source, parsed.project)
            await driver.ping()
            importer = Importer(source, target(driver), now=now, dry=parsed.dry_run)
            doing = "reading" if parsed.dry_run else "importing"
            # A queue may take long: what is shown is looked at with every page.
            with tqdm(unit=" queues", desc=doing, total=len(queues), miniters=0) as progress:
                messages = 0

                def told(more: int) -> None:
                    nonlocal messages
                    messages += more
                    progress.set_postfix_str(f"{messages} messages", refresh=False)
                    progress.update(0)

                for project, member in queues:
                    self._outcomes.append(await importer.take(project, member, told))
                    progress.update(1)


async def _queues(source: Source, wanted: list[str] | None) -> list[tuple[str, bytes]]:
    """All there are.  Raises Unreadable when there is none."""
    projects = await source.projects() if wanted is None else list(dict.fromkeys(wanted))
    queues = [queue async for queue in source.queues(projects)]
    if queues:
        return queues
    if wanted is not None:
        raise Unreadable(f"no queues of {', '.join(wanted)} are there")
    if await source.holds_messages():
        raise Unreadable("stock Zaqar has messages there, but its queues are in another store")
    raise Unreadable("this is no store of stock Zaqar: no queues are there")


def _is_good(outcome: Outcome) -> bool:
    return outcome.fate.good and not (outcome.tally and outcome.tally.left_out)


def _row(outcome: Outcome) -> Row:
    tally = outcome.tally or Tally()
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


def _summary(outcomes: list[Outcome]) -> list[str]:
    """Lines: what became of queues and of each kind of thing, and why some were left out."""
    fates = Counter(outcome.fate for outcome in outcomes)
    if not fates:
        return []
    tallies = [outcome.tally for outcome in outcomes if outcome.tally]
    copied = Fate.WANTED if fates[Fate.WANTED] else Fate.COPIED
    lines = ["queues: " + ", ".join(f"{fates[fate]} {fate}" for fate in Fate if fates[fate])]
    lines += [_about(kind, tallies, copied) for kind in _KINDS]
    reasons = _reasons(outcomes).most_common()
    lines += [f"left out: {number} {reason}" for reason, number in reasons]
    if sealed := sum(tally.sealed for tally in tallies):
        lines.append(f"note: {sealed} messages are encrypted by stock Zaqar, and stay so")
    return lines


def _about(kind: str, tallies: list[Tally], copied: Fate) -> str:
    done = sum(tally.copied[kind] for tally in tallies)
    expired = sum(tally.expired[kind] for tally in tallies)
    left_out = sum(
        number for tally in tallies for (of, _), number in tally.left_out.items() if of == kind
    )
    return f"{kind}: {done} {copied}, {expired} expired, {left_out} left out"


def _reasons(outcomes: list[Outcome]) -> Counter[str]:
    """How often each thing was left out for the same reason."""
    found = Counter[str]()
    for outcome in outcomes:
        if outcome.why:
            found[f"queues: {outcome.why}"] += 1
        for (kind, reason), number in outcome.tally.left_out.items() if outcome.tally else ():
            found[f"{kind}: {reason}"] += number
    return found
