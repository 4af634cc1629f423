# SPDX-License-Identifier: Apache-2.0
"""The recorded drain, with small numbers."""

from __future__ import annotations

import subprocess
import sys


def test_drain_reports_no_lost_or_doubled_messages() -> None:
    small = ["--queues", "2", "--messages", "1500", "--busy", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.drain", *small],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 idle queues of 1500 messages and 1 busy ones moved" in done.stdout
    assert "0 messages lost, 0 doubled, 0 back" in done.stdout
    assert "| queues   | 3     |" in done.stdout
