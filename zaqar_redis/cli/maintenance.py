# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis check`` and ``zaqar-redis sweep``: maintenance of whole stores."""

from __future__ import annotations

import argparse

from cliff.lister import Lister
from tqdm import tqdm

from zaqar_redis.check_records import CheckResult
from zaqar_redis.cli import stores
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import Row, Table, TargetCommand
from zaqar_redis.storage.contract import Driver, Sweeper


class CheckStore(TargetCommand, Lister):
    """Read all keys of the store and its pools, and list inconsistencies.

    A finding is either damage, which no service causes by itself: keys that were evicted,
    edited or lost; or a harmless leftover of a process that died. --repair repairs what it
    can: it removes keys that belong to nothing, and loses no existing message. The service
    may run meanwhile. Exits with 1 when damage is left. Example:

        zaqar-redis check --storage redis://127.0.0.1:6379/0
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--repair", action="store_true", help="repair what can be repaired")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._damaged = False
        return super().run(parsed_args) or int(self._damaged)

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            rows = runner.run(self._check, driver, parsed_args.repair)
        return ("pool", "project", "queue", "kind", "mended", "what"), rows

    async def _check(self, driver: Driver, repair: bool) -> list[Row]:
        if driver.checker is None:
            raise CommandFailed("The driver of this store has no check.")
        rows: list[Row] = []
        with tqdm(unit=" queues", desc="checking") as progress:
            messages = 0
            async for checked in driver.checker.check(repair):
                progress.update(checked.exists)
                messages += checked.messages
                progress.set_postfix_str(
                    f"{messages} messages, {len(rows)} findings", refresh=False
                )
                rows += _rows(checked)
                self._damaged |= any(
                    finding.damage and not finding.mended for finding in checked.findings
                )
        return rows


def _rows(checked: CheckResult) -> list[Row]:
    return [
        (
            checked.store,
            checked.project,
            checked.queue,
            "damage" if finding.damage else "leftover",
            finding.mended,
            finding.what,
        )
        for finding in checked.findings
    ]


async def _sweep(sweeper: Sweeper) -> int:
    with tqdm(unit=" queues", desc="sweeping") as progress:
        return await sweeper.sweep(0, lambda queue: progress.update(1))


class SweepStore(TargetCommand):
    """Sweep the store and its pools now: expired messages and claims, deleted queues.

    Services do so once a minute by themselves. Fails when a store is unreachable, after
    the others were swept. Example:

        zaqar-redis sweep --storage redis://127.0.0.1:6379/0
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with stores.open_store(parsed_args, self.target) as (driver, runner):
            if driver.sweeper is None:
                raise CommandFailed("The driver of this store needs no sweeping.")
            swept = runner.run(_sweep, driver.sweeper)
            self.app.stdout.write(f"{swept} messages and claims swept\n")
            runner.run(driver.ping)  # fails for an unreachable store, which was skipped
