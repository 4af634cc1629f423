# SPDX-License-Identifier: Apache-2.0
"""The example works from the posts to the report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import processes

_EXAMPLE = Path(__file__).parents[3] / "examples" / "million.py"


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_example_runs_end_to_end(tmp_path: Path) -> None:
    command = [sys.executable, _EXAMPLE, tmp_path, "--messages", 3000]
    done = processes.run(command, timeout=220)
    assert done.returncode == 0, done.stderr
    for report in ("archived: 3 000", "written: 3 000", "messages: 6 000"):
        assert report in done.stdout
    assert list((tmp_path / "archive" / "project=example" / "queue=orders").glob("*/*.parquet"))
    assert "</html>" in (tmp_path / "report" / "report.html").read_text()
