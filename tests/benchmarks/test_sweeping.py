# SPDX-License-Identifier: Apache-2.0
"""The recorded costs of the sweeper, and of verbs in two checkouts, with small numbers."""

from __future__ import annotations

import subprocess
import sys


def _table(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_round_sweeps_nothing_in_idle_queues_and_all_after_expiry() -> None:
    table = _table("benchmarks.sweeping", "--queues", "20")
    swept = [line.split("|")[-2].strip() for line in table.splitlines()[2:] if line]
    assert swept == ["0", "0", "0", "20", "0"]


def test_a_checkout_is_compared_with_itself() -> None:
    words = ("--beside", ".", "--rounds", "1", "--workload", "post-100")
    assert "post-100" in _table("benchmarks.posting", *words)


def test_posts_are_measured_while_expired_messages_are_swept() -> None:
    words = ("--messages", "2000", "--queues", "20", "--rate", "100", "--seconds", "0.5")
    table = _table("benchmarks.expiring", *words)
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    assert [row[1] for row in rows if len(row) > 2][2:] == ["before", "during the sweep", "ratio"]
    assert "2000 messages were swept in" in table
