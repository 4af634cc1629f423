# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis project …``."""

from __future__ import annotations

import argparse
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.api import CommandFailed, Missing
from zaqar_redis.cli.base import ApiCommand, Row, Table, TargetCommand


class ListProject(TargetCommand, Lister):
    """List the projects with queues in the store and its pools, and their numbers of queues.

    Example: zaqar-redis project list --storage redis://127.0.0.1:6379/0
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        from zaqar_redis.cli import stores

        with (
            stores.open_store(parsed_args, self.target) as (driver, runner),
            self.progress("counting", " queues") as progress,
        ):
            found = runner.run(stores.count_queues, driver, progress.update)
        if not found.is_complete:
            raise CommandFailed("a store of the service is not available, or lists no projects")
        return ("project", "queues"), sorted(found.queues.items())


class ShowProjectStats(ApiCommand, ShowOne):
    """Add up the messages of all queues of a project (--project), by state, and their totals.

    Example: zaqar-redis project stats --project shop
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        sums: dict[str, Any] = {"queues": 0, **dict.fromkeys(_COUNTS, 0), "oldest_age": None}
        queues = self.api.list_items("/queues", "queues")
        for queue in self.progress("reading", " queues", iterable=queues):
            try:
                document = self.api.queue_stats(queue["name"])
            except Missing:  # it was deleted since
                continue
            sums["queues"] += 1
            counts = document["messages"]
            for each in _COUNTS:
                sums[each] += counts[each]
            if "oldest" in counts:
                sums["oldest_age"] = max(sums["oldest_age"] or 0, counts["oldest"]["age"])
            for each, number in document["counters"].items():
                sums[f"{each}_total"] = sums.get(f"{each}_total", 0) + number
        return tuple(sums), tuple(sums.values())


_COUNTS = ("total", "free", "claimed", "delayed")
