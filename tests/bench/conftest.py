# SPDX-License-Identifier: Apache-2.0
"""Short runs of the benchmark command."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Exit status, stdout, stderr (progress), and the JSON report or {}.
BenchResult = tuple[int, str, str, dict[str, Any]]
RunBench = Callable[..., BenchResult]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zaqar_redis.cli.main", "bench", *arguments]


def run_bench(file: Path, *arguments: str) -> BenchResult:
    """*file*: for the JSON report; it must not exist."""
    done = subprocess.run(
        command(*arguments, "--json", str(file)),
        capture_output=True,
        text=True,
        timeout=300,  # of all workloads, on a busy machine
    )
    found = json.loads(file.read_text()) if file.exists() else {}
    return done.returncode, done.stdout, done.stderr, found


@pytest.fixture
def bench(tmp_path: Path) -> RunBench:
    return functools.partial(run_bench, tmp_path / "found.json")
