# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for servers, not in pytest's: the path of a unix socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as parent:
        inside = Path(parent) / "run"
        inside.mkdir()
        yield inside
