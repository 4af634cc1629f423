# SPDX-License-Identifier: Apache-2.0
"""Fits tables to the terminal.  Wrapped, as cliff does it, ids and bodies cannot be read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence

from cliff.utils import terminal_width

from zaqar_redis.cli.base import Row, Table

#: Characters of a table that each column takes beside its cells.
_BORDER = 3


def fit(
    shown: Table,
    parsed: argparse.Namespace,
    shortened: Mapping[str, int],
    optional: Collection[str],
) -> tuple[Table, Sequence[str]]:
    """Returns a table that fits the terminal, and the names of columns that were left out for it.

    The texts of the columns *shortened* may end with "…", after so many characters at least; the
    last one of these gives way first.  If that is not enough, *optional* columns are left out, the
    first one first.  Columns without a value are always left out.  Columns that were asked for (-c,
    --sort-column) stay.  Every other output, and every other format, has all.
    """
    names, rows = shown
    width = _table_width(parsed)
    if not width or not rows:
        return shown, ()
    chosen = {*map(_normalized, parsed.columns)}
    if chosen and chosen.isdisjoint(names):
        return shown, ()  # cliff says which columns there are
    cells: dict[str, Row] = dict(zip(names, zip(*rows, strict=True), strict=True))
    asked = {*chosen, *parsed.sort_columns}
    for name in names:
        is_empty = all(cell in (None, "") for cell in cells[name])
        if name not in asked and (chosen or is_empty):
            del cells[name]
    needed = {name: max(map(len, (name, *map(_text, cells[name])))) for name in cells}
    widths = {
        name: min(size, max(len(name), shortened.get(name, size))) for name, size in needed.items()
    }

    def spare() -> int:
        return width - 1 - sum(widths.values()) - _BORDER * len(widths)

    left_out = []
    for name in optional:
        if spare() < 0 and name in widths.keys() - asked:
            left_out.append(name)
            del widths[name]
    for name in shortened:
        if name in widths:
            widths[name] += max(0, min(spare(), needed[name] - widths[name]))
    columns = [[_cut(cell, widths[name]) for cell in cells[name]] for name in widths]
    return (tuple(widths), list(zip(*columns, strict=True))), left_out


def _normalized(name: str) -> str:
    """Returns the column that a name means, by cliff's rules."""
    return name.lower().strip().replace(" ", "_")


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _cut(cell: object, size: int) -> object:
    """Returns the cell; a text that is longer with "…" at its end."""
    if isinstance(cell, str) and len(cell) > size:
        return f"{cell[: size - 1]}…"
    return "" if cell is None else cell


def _table_width(parsed: argparse.Namespace) -> int:
    """Returns the characters that a line may have, by cliff's rules; 0: as many as it needs."""
    if parsed.formatter != "table":
        return 0
    if parsed.max_width > 0 or not (sys.stdout.isatty() or parsed.fit_width):
        return max(0, int(parsed.max_width))
    return terminal_width() or 0
