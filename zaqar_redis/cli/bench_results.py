# SPDX-License-Identifier: Apache-2.0
"""What the commands that measure for minutes do with their results."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from zaqar_redis.benchmarks.report import check_plotting
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import ShellCommand, check_folder

R = TypeVar("R")
W = TypeVar("W", contravariant=True)

#: The command line as the report shows it, when another program has called this one.
_COMMAND_VARIABLE = "ZAQAR_REDIS_BENCH_COMMAND"
_INTERRUPTED = 130


class ReportWriter(Protocol[W]):
    """A module that knows how results are written."""

    def text(self, report: W, /) -> str: ...

    def encode(self, report: W, /) -> bytes: ...


class Drawing(NamedTuple):
    """How results are drawn into a file, and an example of its name."""

    draw: Callable[[Any, Path], None]
    example: str


class BenchmarkCommand(ShellCommand):
    """Base of the commands that run for long, print results and write them to files."""

    #: of ``--plot``; None: it has no such option
    drawing: ClassVar[Drawing | None] = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_options(parser)
        add = parser.add_argument
        add("--json", type=Path, metavar="FILE", help="also write all results to this file")
        if self.drawing:
            drawn = f"also draw the rates, e.g. to {self.drawing.example}"
            add("--plot", type=Path, metavar="FILE", help=drawn)
        return parser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options that only this command has."""

    def measure(
        self,
        parsed_args: argparse.Namespace,
        run: Callable[[str], tuple[R, bool]],
        writer: ReportWriter[R],
    ) -> tuple[R, int]:
        """Returns the results, and the exit code.

        *run* gets the command line for the report; it returns its results, and whether it came to
        its end.  Raises CommandFailed and BadConfiguration before that when a file cannot be
        written, and CommandFailed when *run* raises BenchmarkFailed.
        """
        picture: Path | None = parsed_args.plot if self.drawing else None
        check_folder("--json", parsed_args.json)
        check_folder("--plot", picture)
        if picture:
            check_plotting(picture)
        command = os.environ.get(_COMMAND_VARIABLE) or shlex.join(["zaqar-redis", *sys.argv[1:]])
        try:
            found, complete = run(command)
        except BenchmarkFailed as error:
            raise CommandFailed(str(error)) from error
        sys.stdout.write(writer.text(found))  # first: writing the files may fail
        if parsed_args.json:
            parsed_args.json.write_bytes(writer.encode(found))
        if self.drawing and picture:
            self.drawing.draw(found, picture)
        return found, 0 if complete else _INTERRUPTED
