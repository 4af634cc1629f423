# SPDX-License-Identifier: Apache-2.0
"""The tests that do not apply to a driver that is not stock's, with the reasons."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LIST = Path(__file__).with_suffix(".toml")


def inapplicable() -> dict[str, str]:
    """Returns the reason why each test may fail or be skipped."""
    return {test: group["reason"] for group in _groups() for test in group["tests"]}


def needless() -> set[str]:
    """Returns those inapplicable tests that are not run at all."""
    return {test for group in _groups() if not group.get("run", True) for test in group["tests"]}


def racing() -> set[str]:
    """Returns the tests that any driver passes, but not every time; they may be retried."""
    return {test for race in _document()["race"] for test in race["tests"]}


def _groups() -> Iterator[dict[str, Any]]:
    yield from _document()["group"]


def _document() -> dict[str, Any]:
    return tomllib.loads(_LIST.read_text())
