# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis check`` and ``zaqar-redis sweep``: maintenance of whole stores."""

from __future__ import annotations

import argparse

from cliff.lister import Lister

from zaqar_redis.check_records import CheckResult, Finding
from zaqar_redis.cli import stores
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import Row, Table, TargetCommand, arg, takes
from zaqar_redis.cli.queues import stores_away
from zaqar_redis.storage.contract import Driver, Sweeper


class CheckStore(TargetCommand, Lister):
    """Read all keys of the store and its pools, and list inconsistencies.

    A finding is either damage, which no service causes by itself (evicted, edited or lost
    keys), or a harmless leftover of a process that died. --repair removes keys that belong to
    nothing, and loses no existing message. The service may run meanwhile. An unavailable store
    is a finding of the kind unread. Exits with 1 if damage is left, else with 5 if a store was
    not read. Example:

        zaqar-redis check --storage redis://127.0.0.1:6379/0
    """

    arguments = takes(arg("--repair", action="store_true", help="repair repairable damage"))

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._damaged = False
        code = super().run(parsed_args)
        return 1 if self._damaged else code

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            rows = runner.run(self._check, driver, parsed_args.repair)
        return ("pool", "project", "queue", "kind", "mended", "what"), rows

    async def _check(self, driver: Driver, repair: bool) -> list[Row]:
        if driver.checker is None:
            raise CommandFailed("The driver of this store has no check.")
        rows: list[Row] = []
        unread: set[str] = set()
        messages = entries = 0
        with self.progress("checking", " queues") as progress:

            def on_progress(queue: str, more: int) -> None:
                nonlocal entries
                entries += more
                about = f"{messages} messages, {len(rows)} findings, {entries} entries read"
                progress.set_postfix_str(about, refresh=False)
                progress.update(0)

            async for checked in driver.checker.check(repair, on_progress):
                progress.update(checked.exists)
                messages += checked.messages
                rows += _rows(checked)
                on_progress(checked.queue, 0)
                for finding in checked.findings:
                    self._damaged |= finding.damage and not finding.mended
                    if finding.unread:
                        unread.add(checked.store)
        if unread:
            self.warn_incomplete(stores_away(unread, "what is there was not checked"))
        elif not rows:
            self.print_notice("nothing is wrong", verbosity=1)
        return rows


def _rows(checked: CheckResult) -> list[Row]:
    return [
        (
            checked.store,
            checked.project,
            checked.queue,
            _kind(finding),
            finding.mended,
            finding.what,
        )
        for finding in checked.findings
    ]


def _kind(finding: Finding) -> str:
    if finding.unread:
        return "unread"
    return "damage" if finding.damage else "leftover"


class SweepStore(TargetCommand):
    """Sweep the store and its pools now: expired messages and claims, deleted queues.

    Services sweep once a minute themselves. If a store is unreachable, the command sweeps
    the others, and then fails. Example:

        zaqar-redis sweep --storage redis://127.0.0.1:6379/0
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            if driver.sweeper is None:
                raise CommandFailed("The driver of this store needs no sweeping.")
            swept = runner.run(self._sweep, driver.sweeper)
            self.app.stdout.write(f"{swept} messages and claims swept\n")
            runner.run(driver.ping)  # fails for an unreachable store, which was skipped

    async def _sweep(self, sweeper: Sweeper) -> int:
        swept = 0
        with self.progress("sweeping", " queues") as progress:

            def on_progress(queue: str, more: int) -> None:
                nonlocal swept
                swept += more
                progress.set_postfix_str(f"{swept} messages and claims", refresh=False)
                progress.update(not more)

            return await sweeper.sweep(0, on_progress)
