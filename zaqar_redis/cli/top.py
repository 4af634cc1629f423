# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis top``: a live view of queues."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zaqar_redis.cli.api import ApiClient, CommandFailed, ServiceUnavailable, counter_rates
from zaqar_redis.cli.base import ApiCommand, arg, bounded_int, takes
from zaqar_redis.cli.queues import stores_away

#: Queues that are read for a frame, by pages: a tenth of a second.
_QUEUES_MAX = 500
#: Rows of a frame without a terminal.
_ROWS = 50
#: Lines of a frame that are not of queues.
_OTHER_LINES = 8
#: Seconds between two tries of all stores, which post and delete messages of their own.
_STORES_INTERVAL = 30.0
_COUNTS = ("free", "claimed", "delayed", "total")
#: Counters, and the headings of their rates: all columns fit 80 characters.
_RATES = {
    "posted": "post/s",
    "claimed": "claim/s",
    "deleted": "del/s",
    "dead_lettered": "dead/s",
}
_SORTS = ("oldest", *_COUNTS, *_RATES.values(), "queue")


@dataclass
class _Sample:
    """The statistics of all queues at a moment."""

    at: float
    stats: Mapping[str, Any]
    #: queues that cannot be read now
    unknown: Sequence[str]
    #: stores that cannot be read now
    unavailable: Collection[str]
    #: there are more queues than were read
    more: bool


@dataclass
class _View:
    """What the frames are made of."""

    title: str
    sort: str
    rows: int
    #: seconds that each store's slowest operation took; None: one failed
    stores: Mapping[str, float | None] = field(default_factory=dict)
    problem: str = ""

    def frame(self, before: _Sample | None, now: _Sample | None) -> Group:
        parts: list[Any] = []
        if now is None:
            parts.append(Text(self.title, style="bold"))
        else:
            rows = sorted(self._rows(before, now), key=self._order)
            shown = f"the first {len(rows)}" if now.more else f"{len(rows)}"
            unknown = f" ({len(now.unknown)} unknown)" if now.unknown else ""
            total = sum(row["total"] or 0 for row in rows)
            title = f"{self.title}   {shown} queues{unknown}, {total} messages"
            parts.append(Text(title, style="bold", no_wrap=True))
            parts.append(_table(rows[: self.rows], {*now.unknown}))
        if self.stores:
            parts.append(_stores_table(self.stores))
        if self.problem:
            parts.append(Text(self.problem, style="bold red"))
        return Group(*parts)

    def _order(self, row: Mapping[str, Any]) -> tuple[Any, str]:
        return (row[self.sort] if self.sort == "queue" else -(row[self.sort] or 0)), row["queue"]

    def _rows(self, before: _Sample | None, now: _Sample) -> Iterator[dict[str, Any]]:
        for queue, document in now.stats.items():
            counts, rates = document["messages"], {}
            if before is not None and queue in before.stats:
                rates = counter_rates(before.stats[queue], document, now.at - before.at)
            row = {"queue": queue, "oldest": counts.get("oldest", {}).get("age")}
            row |= {name: counts[name] for name in _COUNTS}
            row |= {heading: rates.get(name) for name, heading in _RATES.items()}
            yield row
        nothing = dict.fromkeys(("oldest", *_COUNTS, *_RATES.values()))
        yield from ({"queue": queue, **nothing} for queue in now.unknown)


class Top(ApiCommand):
    """Watch queues: messages by state, age of the oldest, and rates, the busiest first.

    Rates are exact, because the store counts. q or Ctrl-C ends the display; --once prints one
    frame, for scripts. While a store is unavailable, its known queues are shown with "?"; --once
    then exits with 5. --stores also tries each store at intervals, and shows the slowest first; the
    service must be in admin mode. Example:

        zaqar-redis top --sort oldest --interval 5
    """

    arguments = takes(
        arg("--name", help="only queues whose name contains this"),
        arg("--sort", choices=_SORTS, default="total", help="largest first (total)"),
        arg(
            "--interval",
            type=bounded_int(1, 3600),
            default=2,
            metavar="SECONDS",
            help="time between frames, and of rates (2)",
        ),
        arg("--once", action="store_true", help="print one frame, after one interval"),
        arg("--stores", action="store_true", help="try the stores, too"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        title = f"{self.target.url or self.target.store}"
        if parsed_args.project:
            title += f"   project {parsed_args.project}"
        view = _View(title, parsed_args.sort, _ROWS)
        if parsed_args.once:
            self._once(parsed_args, view)
        else:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how one leaves it
                self._live(parsed_args, view)

    def _once(self, parsed: argparse.Namespace, view: _View) -> None:
        before = _sample(self.api, parsed.name)
        self.api.sleep(parsed.interval)
        now = _sample(self.api, parsed.name)
        if parsed.stores:
            view.stores = _try_stores(self.api)
        # Of a width that scripts can rely on, unless there is a terminal.
        width = None if self.app.stdout.isatty() else 160
        Console(file=self.app.stdout, width=width).print(view.frame(before, now))
        if now.unavailable:
            self.warn_incomplete(stores_away(now.unavailable))

    def _live(self, parsed: argparse.Namespace, view: _View) -> None:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CommandFailed("a live view needs a terminal; --once prints one frame")
        before: _Sample | None = None
        now: _Sample | None = None
        stores_at = -_STORES_INTERVAL
        with (
            _keys() as key_within,
            Live(console=Console(), screen=True, auto_refresh=False) as live,
        ):
            while True:
                try:
                    before, now = now, _sample(self.api, parsed.name)
                    if parsed.stores and time.monotonic() - stores_at >= _STORES_INTERVAL:
                        stores_at = time.monotonic()
                        view.stores = _try_stores(self.api)
                    view.problem = stores_away(now.unavailable) if now.unavailable else ""
                except ServiceUnavailable as error:
                    view.problem = str(error)  # it may come back
                view.rows = max(1, os.get_terminal_size().lines - _OTHER_LINES - len(view.stores))
                live.update(view.frame(before, now), refresh=True)
                if key_within(parsed.interval) == "q":
                    return


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Yields a function that waits for a key, so many seconds at most; '': none was pressed."""
    terminal = sys.stdin.fileno()
    settings = termios.tcgetattr(terminal)

    def key_within(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(terminal)
        yield key_within
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, settings)


def _sample(api: ApiClient, name: str | None) -> _Sample:
    """Raises ServiceUnavailable."""
    unavailable: set[str] = set()
    listed = list(islice(api.list_queues(unavailable, name=name, with_stats=True), _QUEUES_MAX + 1))
    stats: dict[str, Any] = {}
    unknown = []
    for queue in listed[:_QUEUES_MAX]:
        if "stats" in queue:
            stats[queue["name"]] = queue["stats"]
        else:  # its store is away, or it is being moved at the moment
            unknown.append(queue["name"])
    return _Sample(time.monotonic(), stats, unknown, unavailable, len(listed) > _QUEUES_MAX)


def _try_stores(api: ApiClient) -> dict[str, float | None]:
    """Returns by store the seconds of its slowest operation; None when one failed."""
    try:
        report = api.request("GET", "/health")
    except ServiceUnavailable as error:  # the report says of which
        report = error.document
        if not isinstance(report, dict) or "description" in report:
            raise
    checks = {"default": report} if "operation_status" in report else report
    return {name: _slowest(check) for name, check in checks.items() if isinstance(check, dict)}


def _slowest(check: Mapping[str, Any]) -> float | None:
    operations = check["operation_status"].values()
    if not operations or not all(each["succeeded"] for each in operations):
        return None
    return float(max(each["seconds"] for each in operations))


def _table(rows: list[dict[str, Any]], unknown: Collection[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("queue", no_wrap=True, overflow="ellipsis", min_width=10)
    for name in ("oldest", *_COUNTS, *_RATES.values()):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row["queue"] in unknown:
            table.add_row(row["queue"], *["?"] * (len(table.columns) - 1), style="dim")
            continue
        rates = (row[heading] for heading in _RATES.values())
        table.add_row(
            row["queue"],
            _age(row["oldest"]),
            *(str(row[name]) for name in _COUNTS),
            *("" if rate is None else f"{rate:.1f}" for rate in rates),
        )
    return table


def _stores_table(stores: Mapping[str, float | None]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("store", no_wrap=True)
    table.add_column("slowest operation", justify="right", no_wrap=True)
    # Those that fail come first.
    for name, seconds in sorted(stores.items(), key=lambda each: -(each[1] or 1e9)):
        table.add_row(name, "unavailable" if seconds is None else f"{seconds * 1000:.1f} ms")
    return table


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
