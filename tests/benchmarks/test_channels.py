# SPDX-License-Identifier: Apache-2.0
"""Every part measures what it says it does, and stops what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.benchmarks.channels_fanout import Witness
from tests.benchmarks.crowd import framed, frames
from zaqar_redis.bench.service import Failed

_SMALL = ["--rounds", "1", "--seconds", "1"]
_SMALL += ["--subscribers", "20", "--idle", "50", "--returning", "200"]
_ROWS = {
    "fanout": {
        (f"fanout, {channel}", label)
        for channel in ("busy", "quiet")
        for label in ("zaqar-redis", "python-socketio", "zaqar-redis, kept")
    },
    "publish": {("publish", "engine"), ("publish", "raw EVALSHA")},
    "idle": {("idle", "worker without"), ("idle", "each connection")},
    "recovery": {("recovery", "CPU of the workers, each client")},
}
_TARGETS = {
    "fanout": ["zaqar-redis", "zaqar-redis : python-socketio", "python-socketio : zaqar-redis"],
    "publish": ["engine", "engine : raw EVALSHA"],
    "idle": ["worker with 50 connections"],
    "recovery": ["200 clients are back"],
}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.channels", *arguments]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run has its servers.  Not pytest's: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        yield Path(made)


def _tables(output: str) -> dict[str, list[list[str]]]:
    """The rows of each table, by its last heading."""
    tables: dict[str, list[list[str]]] = {}
    for block in output.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in block.splitlines() if line[:1] == "|"]
        if lines:
            head, _, *rows = [[cell.strip() for cell in line] for line in lines]
            tables[head[-1]] = rows
    return tables


@pytest.mark.parametrize("part", _ROWS)
def test_a_part_fills_its_tables(part: str, folder: Path) -> None:
    done = subprocess.run(
        _command("--part", part, *_SMALL),
        capture_output=True,
        text=True,
        timeout=110,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    tables = _tables(done.stdout)
    assert [row[1] for row in tables["is"]] == _TARGETS[part]
    assert all(row[-1] in ("met", "missed") for row in tables["is"])
    assert _ROWS[part] <= {(row[0], row[1]) for row in tables["rounds"]}
    assert all(float(row[3]) > 0 for row in [*tables["is"], *tables["rounds"]])
    assert f"--part {part}" in done.stdout
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_reports_what_it_has_and_stops_its_servers(
    folder: Path, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    with progress.open("w") as told:
        process = subprocess.Popen(
            _command("--part", "recovery", *_SMALL, "--rounds", "100"),
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    servers.wait_for(lambda: "round 1 of 100" in progress.read_text(), "a round to end")
    started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(started) >= 2
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, progress.read_text()
    assert "| 200 clients are back " in output
    assert "the run was interrupted" in output
    servers.wait_for(
        lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], "all to end"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--part", "nonsense"], ["--rounds", "0"], ["--seconds", "61"], ["--subscribers", "1"]],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str]) -> None:
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert arguments[0] in done.stderr


def test_messages_are_counted_whole_and_what_is_no_whole_one_is_kept() -> None:
    short, long = b"x" * 125, b"y" * 70_000
    sent = b"\x81\x7d" + short + b"\x81\x7f" + len(long).to_bytes(8) + long
    assert frames(sent + b"\x81\x7e\x01") == ([short, long], b"\x81\x7e\x01")
    assert frames(sent[:-1]) == ([short], sent[2 + 125 : -1])
    assert framed(b"{}") == b"\x81\x82\x00\x00\x00\x00{}"
    assert framed(short + b"x") == b"\x81\xfe\x00\x7e\x00\x00\x00\x00" + short + b"x"


def test_a_publication_that_is_missing_or_comes_twice_is_a_failure() -> None:
    for wrong in (b'{"n":1}', b'{"n":3}'):
        witness = Witness()
        assert witness.hears([b'{"n":0}\n{"n":1}']) == 2
        with pytest.raises(Failed, match=r"came in the place of 2"):
            witness.hears([wrong])
