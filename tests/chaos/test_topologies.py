# SPDX-License-Identifier: Apache-2.0
"""Short runs of chaos with a fixed seed on every kind of store."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.topologies import TOPOLOGIES
from tests.support import processes

#: Of a run: that of `python -m benchmarks.chaos` may be as long as one likes.
_SECONDS = 40
#: Of starting and checking it, on a busy machine.
_MARGIN = 200


def _run(file: Path, *words: str) -> tuple[int, str, dict[str, Any]]:
    """Returns exit code, output, and the report."""
    command = [sys.executable, "-m", "benchmarks.chaos"]
    command += ["--seconds", str(_SECONDS), "--json", str(file), *words]
    done = processes.run(command, timeout=_SECONDS + _MARGIN)
    assert file.exists(), done.stdout + done.stderr
    return done.returncode, done.stdout, json.loads(file.read_text())


def _acknowledged(report: dict[str, Any]) -> dict[str, int]:
    return {row["kind"]: row["ok"] for row in report["acts"]}


@pytest.mark.timeout(_SECONDS + _MARGIN + 10)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_store_whose_replicas_all_confirm_loses_nothing(topology: str, tmp_path: Path) -> None:
    replicas = TOPOLOGIES[topology].replicas
    words = ("--topology", topology, "--seed", "20", "--ack-replicas", str(replicas))
    code, output, report = _run(tmp_path / "found.json", *words)
    assert code == 0, output
    # A failover may be noticed by subscribers of channels; nothing acknowledged is lost.
    assert {each["rule"] for each in report["findings"]} <= {"gap", "id"}, output
    assert len(report["faults"]) >= 3, output
    acknowledged = _acknowledged(report)
    assert min(acknowledged.values()) > 10, acknowledged
    assert acknowledged["post"] > 300


@pytest.mark.timeout(_SECONDS + _MARGIN + 10)
def test_kill_of_a_primary_loses_nothing_that_one_replica_has_confirmed(tmp_path: Path) -> None:
    words = ("--topology", "sentinel", "--seed", "21", "--ack-replicas", "1")
    faults = ("--faults", "kill", "disk:primary", "hold:primary")
    code, output, report = _run(tmp_path / "found.json", *words, *faults)
    assert code == 0, output  # the others are in the documents
    assert "kill:primary" in [row["what"] for row in report["faults"]]


@pytest.mark.timeout(_SECONDS + _MARGIN + 10)
def test_failover_that_waits_for_no_replica_loses_the_last_acts_only(tmp_path: Path) -> None:
    words = ("--topology", "sentinel", "--seed", "23", "--ack-replicas", "0")
    faults = ("--faults", "kill:primary", "hold:primary", "pause:primary")
    code, output, report = _run(tmp_path / "found.json", *words, *faults)
    assert code == 0, output
    assert len(report["faults"]) >= 2, output
