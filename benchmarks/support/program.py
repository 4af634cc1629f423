# SPDX-License-Identifier: Apache-2.0
"""The commands of benchmarks: their arguments, their runs, and their reports."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.support.rounds import print_progress
from zaqar_redis import errors
from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.run import terminable
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import bounded_int, check_folder

R = TypeVar("R")

#: Bounds of a round: CPU times are counted in hundredths of a second, and a run has many rounds.
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 60
_INTERRUPTED = 130


class BenchmarkProgram:
    """A program ``python -m benchmarks.NAME``."""

    def __init__(self, name: str, text: str | None) -> None:
        """*text*: says what it measures."""
        self._command = f"python -m benchmarks.{name}"
        self._parser = argparse.ArgumentParser(
            prog=self._command,
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        #: adds an option, as argparse does
        self.add = self._parser.add_argument

    def add_number(
        self, name: str, least: int, most: int, default: int, what: str, metavar: str = "N"
    ) -> None:
        self.add(
            name,
            type=bounded_int(least, most),
            default=default,
            metavar=metavar,
            help=f"{what} ({default})",
        )

    def command_line(self) -> str:
        return shlex.join([*self._command.split(), *sys.argv[1:]])


class MeasuredResults(Protocol):
    """What was measured, as far as a run has come."""

    def __bool__(self) -> bool: ...

    def tables(self) -> list[str]:
        """Returns Markdown tables; an empty text for one without rows."""

    def findings(self) -> Sequence[report.WorkloadResult]:
        """Returns the results that the common report shows, too."""


#: Measures one part of a benchmark.
MeasurePart = Callable[[], None]


class PartsProgram(BenchmarkProgram):
    """A program that measures several parts, or some of them."""

    def __init__(self, name: str, text: str | None, parts: Sequence[str]) -> None:
        """*parts*: in the order in which they run."""
        super().__init__(name, text)
        self._parts = parts
        self.add_choice("--part", parts, "which to measure")
        self.add_number("--rounds", 1, 100, 5, "of each")

    def add_choice(self, name: str, choices: Sequence[str], what: str) -> None:
        self.add(name, action="append", choices=choices, help=f"{what}, may be repeated (all)")

    def add_seconds(self, default: int) -> None:
        """Adds the duration of a round: a fraction of a second shows whether it runs at all.

        wrk and the service's pings take whole seconds: they round it up.
        """
        self.add(
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
            notes = [*report.warnings(found), *interrupted]
            about = about_the_run(self.command_line(), machine, notes, found)
            print("\n\n".join(part for part in (*results.tables(), about) if part).rstrip())
        return _INTERRUPTED if interrupted else 0


class ReportModule(Protocol):
    """A module that knows how results are written and drawn."""

    def text(self, found: Any, /) -> str: ...

    def encode(self, found: Any, /) -> bytes: ...

    def plot(self, found: Any, file: Path, /) -> None: ...


class ReportProgram(BenchmarkProgram):
    """A program that prints its results, and also writes them to files, and draws them."""

    def __init__(self, name: str, text: str, results: ReportModule) -> None:
        super().__init__(name, text)
        self._name = name
        self._results = results

    def run(self, main: Callable[[argparse.Namespace], int]) -> int:
        """Returns what *main* returns; 1, when it says why it cannot be done, or went wrong."""
        self.add("--json", type=Path, metavar="FILE", help="also write all results to this file")
        drawn = f"also draw the rates, e.g. to {self._name}.svg"
        self.add("--plot", type=Path, metavar="FILE", help=drawn)
        given = self._parser.parse_args()
        try:
            return main(given)
        except (errors.BadConfiguration, errors.Problem, BenchmarkFailed, CommandFailed) as error:
            print_progress(str(error))
        except TimeoutError as error:
            print_progress(f"waited too long for {error}")
        return 1

    def measure(
        self, given: argparse.Namespace, run: Callable[[str], tuple[R, bool]]
    ) -> tuple[R, int]:
        """Returns the results, and the exit code.

        *run* gets the command line for the report; it returns its results, and whether it came to
        its end.  Raises CommandFailed and BadConfiguration before that when a file cannot be
        written.
        """
        check_folder("--json", given.json)
        check_folder("--plot", given.plot)
        if given.plot:
            _check_plotting(given.plot)
        found, is_complete = run(self.command_line())
        sys.stdout.write(self._results.text(found))  # first: writing the files may fail
        if given.json:
            given.json.write_bytes(self._results.encode(found))
        if given.plot:
            self._results.plot(found, given.plot)
        return found, 0 if is_complete else _INTERRUPTED


def about_the_run(
    command: str,
    machine: Mapping[str, str],
    notes: Sequence[str],
    findings: Sequence[report.WorkloadResult] = (),
) -> str:
    """Returns the last part of a report: the common tables of *findings*, machine, and notes."""
    return report.text(report.BenchmarkReport(command, machine, findings, {}, notes))


def _check_plotting(file: Path) -> None:
    """Raises BadConfiguration when matplotlib is missing, or cannot write such a file."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise errors.BadConfiguration("--plot needs the extra report: matplotlib") from error
    known = Figure().canvas.get_supported_filetypes()
    if file.suffix.removeprefix(".") not in known:
        raise errors.BadConfiguration(
            f"--plot {file}: its name must end with one of .{', .'.join(known)}"
        )


def _round_seconds(given: str) -> float:
    if not _LEAST_SECONDS <= float(given) <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"it must be {_LEAST_SECONDS} to {_MOST_SECONDS}")
    return float(given)
