# SPDX-License-Identifier: Apache-2.0
"""The tables of doc/spark.md, generated from the code, and the code that is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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


def option_table() -> str:
    """Returns the table of options: name, uses, default, meaning."""
    rows = [
        (
            f"`{option.name}`",
            _uses(option.uses),
            "" if option.default is None else f"`{option.default}`",
            option.about,
        )
        for option in OPTIONS
    ]
    return _table(("option", "for", "default", "meaning"), rows)


def column_table() -> str:
    """Returns the table of columns: name, type, meaning."""
    rows = [
        (
            f"`{column.name}`",
            type_text(column.spark),
            column.about if column.default else f"{column.about}; only when asked for",
        )
        for column in COLUMNS
    ]
    return _table(("column", "type", "meaning"), rows)


def _uses(uses: tuple[str, ...]) -> str:
    return _KINDS.get(uses) or ", ".join(_SHORT[use] for use in uses)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    # An unescaped bar would end the cell.
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )
