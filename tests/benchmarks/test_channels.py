# SPDX-License-Identifier: Apache-2.0
"""Each part of the channel benchmark fills its tables, and stops its servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.channels.fanout import OrderChecker
from benchmarks.channels.websocket_peers import encode_frame, frames
from tests.benchmarks.benchmark_process import BenchmarkProcess, rows
from zaqar_redis.benchmarks.service import BenchmarkFailed

_SMALL = ["--rounds", "1", "--seconds", "0.3"]
_SMALL += ["--subscribers", "20", "--idle", "50", "--returning", "200"]
_ROWS = {
    "fanout": {
        (f"fanout, {channel}", label)
        for channel in ("busy", "quiet")
        for label in ("zaqar-redis", "zaqar-redis, kept")
    },
    "publish": {("publish", "engine"), ("publish", "raw EVALSHA")},
    "idle": {("idle", "worker without"), ("idle", "each connection")},
    "recovery": {("recovery", "CPU of the workers, each client")},
}
_TARGETS = {
    "fanout": ["zaqar-redis"],
    "publish": ["engine", "engine : raw EVALSHA"],
    "idle": ["worker with 50 connections"],
    "recovery": ["200 clients are back"],
}


@pytest.mark.parametrize("part", _ROWS)
def test_a_part_fills_its_tables(part: str, folder: Path) -> None:
    output = BenchmarkProcess("channels", folder).output("--part", part, *_SMALL)
    targets, others = rows(output, "is"), rows(output, "rounds")
    assert [row[1] for row in targets] == _TARGETS[part]
    assert all(row[-1] in ("met", "missed") for row in targets)
    assert _ROWS[part] <= {(row[0], row[1]) for row in others}
    assert all(float(row[3]) > 0 for row in [*targets, *others])
    assert f"--part {part}" in output


def test_an_interrupted_run_reports_what_it_has_and_stops_its_servers(folder: Path) -> None:
    many = ["--part", "recovery", *_SMALL, "--rounds", "100"]
    output, started = BenchmarkProcess("channels", folder).run_interrupted(
        *many, after="round 1 of 100"
    )
    assert "| 200 clients are back " in output
    assert started >= 2


def test_frames_returns_complete_messages_and_the_rest() -> None:
    short, long = b"x" * 125, b"y" * 70_000
    sent = b"\x81\x7d" + short + b"\x81\x7f" + len(long).to_bytes(8) + long
    assert frames(sent + b"\x81\x7e\x01") == ([short, long], b"\x81\x7e\x01")
    assert frames(sent[:-1]) == ([short], sent[2 + 125 : -1])
    assert encode_frame(b"{}") == b"\x81\x82\x00\x00\x00\x00{}"
    assert encode_frame(short + b"x") == b"\x81\xfe\x00\x7e\x00\x00\x00\x00" + short + b"x"


def test_a_publication_that_is_missing_or_comes_twice_is_a_failure() -> None:
    for wrong in (b'{"n":1}', b'{"n":3}'):
        order_checker = OrderChecker()
        assert order_checker.count_publications([b'{"n":0}\n{"n":1}']) == 2
        with pytest.raises(BenchmarkFailed, match=r"arrived instead of 2"):
            order_checker.count_publications([wrong])
