# SPDX-License-Identifier: Apache-2.0
"""The tables of doc/spark.md beside what the code says, and the code that is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.conventions.files import ROOT
from zaqar_redis.spark.columns import COLUMNS, type_text
from zaqar_redis.spark.options import BATCH, OPTIONS, SINK, STREAM, WRITE

_SHORT = {BATCH: "batch read", STREAM: "stream read", WRITE: "batch write", SINK: "stream write"}
_KINDS = {(BATCH, STREAM, WRITE, SINK): "all", (BATCH, STREAM): "reads", (WRITE, SINK): "writes"}


def printed(words: str, uri: str, project: str) -> str:
    """Returns the block of code that has these words, with another store and project."""
    text = (ROOT / "doc" / "spark.md").read_text()
    blocks = re.findall(r"^```[a-z]+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if words in block]
    return str(re.sub(r"""(["'])demo\1""", repr(project), found)).replace("embedded://", uri)


def meanings_of_options() -> list[str]:
    """Returns what the document says of each option, beside what the code says of it."""
    return _meanings(
        ("option", "for", "default", "meaning"),
        [
            (
                f"`{option.name}`",
                _uses(option.uses),
                "" if option.default is None else f"`{option.default}`",
            )
            for option in OPTIONS
        ],
    )


def meanings_of_columns() -> list[str]:
    """Returns the same of each column."""
    known = [(f"`{column.name}`", type_text(column.spark)) for column in COLUMNS]
    found = _meanings(("column", "type", "meaning"), known)
    for column, meaning in zip(COLUMNS, found, strict=True):
        assert meaning.endswith("; only when asked for") is not column.default, column.name
    return found


def _uses(uses: tuple[str, ...]) -> str:
    return _KINDS.get(uses) or ", ".join(_SHORT[use] for use in uses)


def _meanings(head: Sequence[str], known: Sequence[Sequence[str]]) -> list[str]:
    """Returns the last cells of the table that begins with this head and these rows."""
    text = (ROOT / "doc" / "spark.md").read_text()
    _, _, behind = text.partition(f"\n{_row(head)}\n{_row(['---'] * len(head))}\n")
    rows = behind.partition("\n\n")[0].splitlines()
    for row, cells in zip(rows, known, strict=True):
        assert row.startswith(_row(cells)), row
    return [
        row.removeprefix(_row(cells)).removesuffix(" |").strip()
        for row, cells in zip(rows, known, strict=True)
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
