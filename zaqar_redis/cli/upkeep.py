# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis check`` and ``zaqar-redis sweep``: work on a store as a whole."""

from __future__ import annotations

import argparse
from typing import Any

from cliff.lister import Lister
from tqdm import tqdm

from zaqar_redis.cli import session
from zaqar_redis.cli.session import Refused, Targeted
from zaqar_redis.records import Checked
from zaqar_redis.storage.driver import Driver, Sweeping

Row = tuple[Any, ...]


class Check(Targeted, Lister):
    """Read all keys of the store and its pools, and list what does not fit together.

    Findings are damage, which no service does by itself: keys that were evicted, edited
    or lost; or leftovers of a process that died, which do no harm. --repair mends what
    can be: it takes away what is of nothing, and loses no message that is still there.
    The service may run meanwhile. Exits with 1 when damage is left. Example:

        zaqar-redis check --storage redis://127.0.0.1:6379/0
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--repair", action="store_true", help="mend what can be mended")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._damaged = False
        return super().run(parsed_args) or int(self._damaged)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        with session.stored(parsed_args, self.target) as (driver, runner):
            rows = runner.run(self._check, driver, parsed_args.repair)
        return ("pool", "project", "queue", "kind", "mended", "what"), rows

    async def _check(self, driver: Driver, repair: bool) -> list[Row]:
        if driver.checker is None:
            raise Refused("This kind of store cannot be checked.")
        rows: list[Row] = []
        with tqdm(unit=" queues", desc="checking") as progress:
            messages = 0
            async for checked in driver.checker.check(repair):
                progress.update(checked.there)
                messages += checked.messages
                progress.set_postfix_str(
                    f"{messages} messages, {len(rows)} findings", refresh=False
                )
                rows += _rows(checked)
                self._damaged |= any(
                    finding.damage and not finding.mended for finding in checked.findings
                )
        return rows


def _rows(checked: Checked) -> list[Row]:
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


async def _swept(sweeper: Sweeping) -> int:
    with tqdm(unit=" queues", desc="sweeping") as progress:
        return await sweeper.sweep(0, lambda queue: progress.update(1))


class Sweep(Targeted):
    """Tidy the store and its pools now: expired messages, lapsed claims, deleted queues.

    Services do so once a minute by themselves. Fails when a store is away, behind the
    others. Example:

        zaqar-redis sweep --storage redis://127.0.0.1:6379/0
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with session.stored(parsed_args, self.target) as (driver, runner):
            if driver.sweeper is None:
                raise Refused("This kind of store needs no sweeping.")
            settled = runner.run(_swept, driver.sweeper)
            self.app.stdout.write(f"{settled} messages and claims tidied\n")
            runner.run(driver.ping)  # a store that is away was passed over
