# SPDX-License-Identifier: Apache-2.0
"""Tables of the documents are well formed: every row has the columns of its header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from tests.conventions.files import ROOT

_DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "doc").rglob("*.md")])
#: Ends a cell, also within code, unless a backslash precedes it.
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|(?: *:?-+:? *\|)+")


def tables(text: str) -> Iterator[list[str]]:
    for is_table, lines in groupby(text.splitlines(), lambda line: line.startswith("|")):
        if is_table:
            yield list(lines)


def wrong(table: list[str]) -> list[str]:
    """Returns the rows that do not match the header of their table."""
    if len(table) < 2 or not _RULE.fullmatch(table[1]):
        return table[:1]  # without a header it is not rendered as a table
    width = len(_BAR.findall(table[0]))
    return [row for row in table if len(_BAR.findall(row)) != width]


def test_every_table_row_has_the_columns_of_its_header() -> None:
    found = {
        str(document.relative_to(ROOT)): [
            row for table in tables(document.read_text()) for row in wrong(table)
        ]
        for document in _DOCUMENTS
    }
    assert {name: rows for name, rows in found.items() if rows} == {}


def test_malformed_table_is_found() -> None:
    split = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n"
    assert [wrong(table) for table in tables(split)] == [[], ["| 3 | 4 |"]]
    assert wrong(["| a | b |", "|---|---|", "| `x|y` | 2 |"]) == ["| `x|y` | 2 |"]
