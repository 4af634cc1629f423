# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``python -m benchmarks.chaos``: schedules that are shown, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import run_module

_CHAOS = "benchmarks.chaos"


def test_plan_of_a_seed_is_shown_and_the_same_each_time() -> None:
    words = ("--plan", "--topology", "sentinel", "--seed", "7", "--faults", "kill")
    first, again = (run_module(_CHAOS, *words) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert "Schedule of sentinel, seed 7" in first.stdout
    assert "kill:primary" in first.stdout
    assert "pause" not in first.stdout
    assert first.stdout == again.stdout


def test_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    done = run_module(_CHAOS, "--seconds", "10", "--folder", str(tmp_path))
    assert done.returncode == 1
    assert f"--folder {tmp_path} exists: name a new one" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--faults", "burn"], "there is no fault burn here; choose from: kill:worker"),
        (["--faults", "slots"], "there is no fault slots here"),
        (["--ack-replicas", "1"], "a primary of single has 0 replicas"),
        (["--plan", "--json", "x"], "--plan only shows the schedule: leave out --json and --plot"),
        (["--plan", "--plot", "x.svg"], "leave out --json and --plot"),
        (["--seconds", "9"], "it must be 10 to 3600"),
        (["--topology", "ring"], "invalid choice"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(words: list[str], told: str) -> None:
    done = run_module(_CHAOS, *words)
    assert done.returncode != 0
    assert told in done.stderr
    assert done.stdout == ""
