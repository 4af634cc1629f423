# SPDX-License-Identifier: Apache-2.0
"""Where runs of benchmarks have their servers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        inside = Path(made) / "run"
        inside.mkdir()
        yield inside
