# SPDX-License-Identifier: Apache-2.0
"""The command of a benchmark that has parts: its arguments, its run, and its report."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from benchmarks.support.rounds import print_progress
from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.run import terminable
from zaqar_redis.cli.base import bounded_int


class MeasuredResults(Protocol):
    """What was measured, as far as a run has come."""

    def __bool__(self) -> bool: ...

    def tables(self) -> list[str]:
        """Returns Markdown tables; an empty text for one without rows."""

    def findings(self) -> Sequence[report.WorkloadResult]:
        """Returns the results that the common report shows, too."""


#: Measures one part of a benchmark.
MeasurePart = Callable[[], None]


#: Bounds of a round: CPU times are counted in hundredths of a second, and a run has many rounds.
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 60


class PartsProgram:
    """A program ``python -m benchmarks.NAME``."""

    def __init__(self, name: str, text: str | None, parts: Sequence[str]) -> None:
        """*text*: says what it measures; *parts*: in the order in which they run."""
        self._command = f"python -m benchmarks.{name}"
        self._parts = parts
        self._parser = argparse.ArgumentParser(
            prog=self._command,
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_choice("--part", parts, "which to measure")
        self.add_number("--rounds", 1, 100, 5, "of each")

    def add_choice(self, name: str, choices: Sequence[str], what: str) -> None:
        self._parser.add_argument(
            name, action="append", choices=choices, help=f"{what}, may be repeated (all)"
        )

    def add_number(self, name: str, least: int, most: int, default: int, what: str) -> None:
        self._parser.add_argument(
            name,
            type=bounded_int(least, most),
            default=default,
            metavar="N",
            help=f"{what} ({default})",
        )

    def add_seconds(self, default: int) -> None:
        """Adds the duration of a round: a fraction of a second shows whether it runs at all.

        wrk and the service's pings take whole seconds: they round it up.
        """
        self._parser.add_argument(
            "--seconds",
            type=_round_seconds,
            default=default,
            metavar="N",
            help=f"of a round ({default})",
        )

    def run(
        self,
        prepare: Callable[[argparse.Namespace, contextlib.ExitStack], Mapping[str, MeasurePart]],
        results: MeasuredResults,
        **facts: str,
    ) -> int:
        """Measures the wanted parts, and prints a report, also after Ctrl-C; returns an exit code.

        *prepare*: starts what the parts share, and returns them by name; all of it ends with the
        stack.  *facts*: about the machine, for the report.
        """
        given = self._parser.parse_args()
        machine = report.machine() | facts
        interrupted: list[str] = []
        try:
            with terminable(), contextlib.ExitStack() as stack:
                measures = prepare(given, stack)
                for part in self._parts:
                    if part in (given.part or self._parts):
                        print_progress(f"part: {part}")
                        measures[part]()
        except KeyboardInterrupt:
            interrupted.append("the run was interrupted; the last rows have fewer rounds")
        if results:
            found = results.findings()
            command = shlex.join([*self._command.split(), *sys.argv[1:]])
            notes = [*report.warnings(found), *interrupted]
            about = report.text(report.BenchmarkReport(command, machine, found, {}, notes))
            print("\n\n".join(part for part in (*results.tables(), about) if part).rstrip())
        return 130 if interrupted else 0


def _round_seconds(given: str) -> float:
    if not _LEAST_SECONDS <= float(given) <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"it must be {_LEAST_SECONDS} to {_MOST_SECONDS}")
    return float(given)
