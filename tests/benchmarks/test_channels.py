# SPDX-License-Identifier: Apache-2.0
"""Every part measures what it says it does, and stops what it started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.channels_fanout import Witness
from tests.benchmarks.crowd import framed, frames
from tests.benchmarks.runs import Bench, rows
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


@pytest.mark.parametrize("part", _ROWS)
def test_a_part_fills_its_tables(part: str, folder: Path) -> None:
    output = Bench("channels", folder).output("--part", part, *_SMALL)
    targets, told = rows(output, "is"), rows(output, "rounds")
    assert [row[1] for row in targets] == _TARGETS[part]
    assert all(row[-1] in ("met", "missed") for row in targets)
    assert _ROWS[part] <= {(row[0], row[1]) for row in told}
    assert all(float(row[3]) > 0 for row in [*targets, *told])
    assert f"--part {part}" in output


def test_an_interrupted_run_reports_what_it_has_and_stops_its_servers(folder: Path) -> None:
    many = ["--part", "recovery", *_SMALL, "--rounds", "100"]
    output, started = Bench("channels", folder).interrupted(*many, behind="round 1 of 100")
    assert "| 200 clients are back " in output
    assert started >= 2


@pytest.mark.parametrize(
    "arguments",
    [["--part", "nonsense"], ["--rounds", "0"], ["--seconds", "61"], ["--subscribers", "1"]],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str], folder: Path) -> None:
    Bench("channels", folder).refuses(*arguments)


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
