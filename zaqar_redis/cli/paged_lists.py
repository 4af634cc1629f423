# SPDX-License-Identifier: Apache-2.0
"""Listings of any length: rows are printed as pages arrive, and only a part is in memory.

cliff's formatters of JSON and YAML, and of tables, collect all rows before they print one.
"""

from __future__ import annotations

import argparse
import csv
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TextIO

import stevedore
from cliff.formatters.commaseparated import CSVLister
from cliff.formatters.json_format import JSONFormatter
from cliff.formatters.yaml_format import YAMLFormatter
from cliff.lister import Lister

from zaqar_redis.cli.api import PAGE_SIZE
from zaqar_redis.cli.base import Row, ShellCommand, Table

_Names = Sequence[str]
_Rows = Iterable[Sequence[Any]]

#: Rows of a table: the widths of its columns need all of them.  Each further table has its heading.
_TABLE_ROWS = 1000


class _JsonRows(JSONFormatter):
    """Writes what cliff's formatter writes, row by row."""

    def emit_list(
        self, column_names: _Names, data: _Rows, stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        line, margin, indent = (" ", "", None) if parsed_args.noindent else ("\n", "  ", 2)
        before = opening = "[" + line.strip(" ")
        for row in data:
            item = json.dumps(dict(zip(column_names, row, strict=True)), indent=indent)
            stdout.write(before + textwrap.indent(item, margin))
            before = f",{line}"
        stdout.write("[]\n" if before is opening else f"{line.strip(' ')}]\n")


class _CsvRows(CSVLister):
    """Writes what csv reads by default (RFC 4180): cliff's has each backslash twice."""

    def emit_list(
        self, column_names: _Names, data: _Rows, stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        quoting = self.QUOTE_MODES[parsed_args.quote_mode]
        escape = "\\" if quoting == csv.QUOTE_NONE else None
        writer = csv.writer(stdout, quoting=quoting, lineterminator="\n", escapechar=escape)
        writer.writerow(column_names)
        writer.writerows(data)


class _YamlRows(YAMLFormatter):
    """Writes what cliff's formatter writes, row by row."""

    def emit_list(
        self, column_names: _Names, data: _Rows, stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        rows = iter(data)
        for row in chain([next(rows, None)], rows):
            super().emit_list(column_names, [] if row is None else [row], stdout, parsed_args)


class PagedListCommand(ShellCommand, Lister):
    """Base of the commands whose rows come page by page.

    A table of more than a thousand rows is printed as several, as `psql` does. What is to be
    sorted (--sort-column) is read first.
    """

    def _load_formatter_plugins(self) -> stevedore.ExtensionManager[Any]:
        plugins = super()._load_formatter_plugins()
        plugins["json"].obj, plugins["yaml"].obj = _JsonRows(), _YamlRows()
        plugins["csv"].obj = _CsvRows()
        return plugins

    def fitted(self, shown: Table, parsed: argparse.Namespace) -> Table:
        """Returns a table, or a part of it, as it is to be printed."""
        return shown

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: _Names, data: _Rows
    ) -> int:
        rows, names = map(tuple, data), tuple(column_names)
        if parsed_args.formatter != "table":
            # What is wrong with the first page is said before anything is printed.
            first = [*islice(rows, 1)]
            return super().produce_output(parsed_args, names, self._flushed(chain(first, rows)))
        size = None if parsed_args.sort_columns else _TABLE_ROWS
        part = [*islice(rows, size)]
        while True:
            super().produce_output(parsed_args, *self.fitted((names, part), parsed_args))
            part = [*islice(rows, size)]
            if not part:
                return 0
            self.app.stdout.flush()

    def _flushed(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields rows; what is printed is seen before the next page is asked for."""
        for number, row in enumerate(rows, 1):
            yield row
            if number % PAGE_SIZE == 0:
                self.app.stdout.flush()
