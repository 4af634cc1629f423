# SPDX-License-Identifier: Apache-2.0
"""The table of tiers in CONTRIBUTING.md names every folder of tests, and what runs which."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conventions.files import ROOT
from tests.support.tiers import NIGHTLY

_FOLDERS = sorted({path.parent for path in (ROOT / "tests").glob("*/test_*.py")})
_COMMANDS = (ROOT / "tools" / "test").read_text()
#: signs of a test that the gate leaves out
_SIGNS = ("mark.nightly", "in_gate(")
#: folder -> what `tools/test --fast` runs of it, and what the gate
_ROW = re.compile(r"^\| [^|]+ \| (`[^|]+) \| .* \| (all|some|none) \| (all|some|none) \|$", re.M)


def _tiers() -> dict[str, tuple[str, str]]:
    rows = _ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    return {
        folder: (fast, gate)
        for folders, fast, gate in rows
        for folder in re.findall(r"`(\w+)`", folders)
    }


def _leaves_out(folder: Path, *signs: str) -> bool:
    sources = [path.read_text() for path in folder.rglob("*.py") if path != Path(__file__)]
    return any(sign in source for sign in signs for source in sources)


def _fast(folder: Path) -> str:
    (command,) = re.findall(r"^if .* = --fast \]; then\n(.*?)^fi$", _COMMANDS, re.M | re.S)
    if f"tests/{folder.name}/" in command:
        return "some"
    if f"tests/{folder.name}" not in command:
        return "none"
    return "some" if _leaves_out(folder, "mark.slow", *_SIGNS) else "all"


def _gate(folder: Path) -> str:
    if f"tests/{folder.name}/" in NIGHTLY:
        return "none"
    return "some" if _leaves_out(folder, *_SIGNS) else "all"


def test_every_folder_has_a_row_that_says_what_runs_it() -> None:
    expected = {folder.name: (_fast(folder), _gate(folder)) for folder in _FOLDERS}
    assert _tiers() == expected
