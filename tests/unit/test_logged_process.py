# SPDX-License-Identifier: Apache-2.0
"""A process that ends by itself is a failure, whatever strikes it afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import LoggedProcess, started
from tests.support.servers import wait_for
from zaqar_redis.benchmarks.service import BenchmarkFailed


def _process(tmp_path: Path, program: str) -> LoggedProcess:
    return LoggedProcess("mover", lambda _: [sys.executable, "-c", program], tmp_path / "log")


def test_process_that_has_ended_by_itself_cannot_be_killed(tmp_path: Path) -> None:
    with started(_process(tmp_path, "raise SystemExit('no store')")) as process:
        wait_for(lambda: not process.is_alive, "the process to end")
        with pytest.raises(BenchmarkFailed, match="the mover ended by itself: no store"):
            process.kill()
        with pytest.raises(BenchmarkFailed, match="the mover failed: no store"):
            process.finish()


def test_process_that_was_killed_may_start_again_and_finish(tmp_path: Path) -> None:
    with started(_process(tmp_path, "import time; time.sleep(60)")) as process:
        process.restart()
        process.finish()
