# SPDX-License-Identifier: Apache-2.0
"""The programs that doc/recipes.md prints."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conventions.files import ROOT

_PAGE = ROOT / "doc" / "recipes.md"
#: What the page has in the place of what tests have.
PRINTED = {"address": "127.0.0.1:8888", "redis": "127.0.0.1:6379", "project": '"demo"'}
_FILE = re.compile(r"`([\w.]+)`[^`]*:\n\n```\w+\n(.*?)```", re.DOTALL)


def write(folder: Path, *names: str, **replaced: str) -> None:
    """Writes files of the page, with its address of the service and its project replaced."""
    files = dict(_FILE.findall(_PAGE.read_text()))
    for name in names:
        text = files[name]
        for word, other in replaced.items():
            text = text.replace(PRINTED[word], other)
        (folder / name).write_text(text)


def command(words: str) -> list[str]:
    """Returns the words of a command, which the page must have."""
    assert f"    {words}\n" in _PAGE.read_text()
    return words.split()
