# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.bus``: each contender passes messages, and the report has its figures."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from benchmarks.bus import brokers, process, report
from benchmarks.bus.contenders import CONTENDERS, select_contenders
from benchmarks.bus.rounds import BusSample, RelaySample
from benchmarks.bus.sessions import ClientSpec
from benchmarks.support.processes import cpu_seconds
from tests.support import servers
from tests.support.command_line import run_module
from zaqar_redis import errors

_BUILT = [each.name for each in CONTENDERS.values() if each.missing() is None]


_SHORT = ["--clients", "1", "--rounds", "1", "--seconds", "2"]


class BusRunResult(NamedTuple):
    status: int
    output: str
    progress: str
    report: dict[str, Any]


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.bus", *words]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], BusRunResult]:
    """Runs a contender for a short while, once."""
    return functools.cache(lambda name: _run(name, tmp_path_factory.mktemp(name)))


def _run(name: str, folder: Path) -> BusRunResult:
    file = folder / "bus.json"
    done = subprocess.run(
        _command("--contender", name, *_SHORT, "--relay", "--json", str(file)),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert file.exists(), done.stderr
    return BusRunResult(done.returncode, done.stdout, done.stderr, json.loads(file.read_text()))


@pytest.mark.timeout(250)
@pytest.mark.parametrize("name", _BUILT)
def test_contender_passes_messages_and_has_a_row_in_the_report(
    name: str, run_of: Callable[[str], BusRunResult]
) -> None:
    result = run_of(name)
    assert result.status == 0, result.progress
    [rounds] = result.report["throughput"]
    [sample] = rounds["samples"]
    assert (rounds["contender"], rounds["clients"]) == (name, 1)
    assert min(sample["per_client"], sample["total"], sample["published"]) > 0
    assert min(sample["cpu_publishers"], sample["cpu_subscribers"], sample["cpu_broker"]) > 0
    assert 0 <= sample["lost"] < 1
    assert rounds["per_client"]["median"] == sample["per_client"]
    assert f"| {name} " in result.output
    assert f"round 1 of 1, {name}, 1 clients" in result.progress
    relayed = [report.RELAY_LIMITATION] if CONTENDERS[name].is_ours else []
    assert result.report["notes"] == [*report.LIMITATIONS, *relayed]
    assert "nothing about a network" in result.output


@pytest.mark.timeout(250)
@pytest.mark.parametrize("name", [name for name in _BUILT if CONTENDERS[name].is_ours])
def test_relay_of_our_bus_has_latencies(name: str, run_of: Callable[[str], BusRunResult]) -> None:
    [rounds] = run_of(name).report["relay"]
    [sample] = rounds["samples"]
    assert rounds["contender"] == name
    assert sample["received"] > 0
    assert 0 < sample["p50"] <= sample["p99"]


def test_redis_that_runs_already_is_measured_and_left_running() -> None:
    with servers.redis_server() as server:
        with brokers.running_redis(server.uri) as broker:
            assert broker.address == server.uri
            assert broker.process == server.pid
            assert cpu_seconds(broker.process) > 0
        assert server.answers()


def test_interrupted_run_ends_its_brokers_and_clients(tmp_path: Path) -> None:
    words = ["--contender", "redis", "--clients", "1", "--rounds", "9", "--seconds", "9"]
    with (tmp_path / "log").open("w+") as log:
        run = subprocess.Popen(_command(*words), stdout=log, stderr=log)
        children: set[int] = set()
        while len(children) < 4:  # a broker, and the clients
            assert run.poll() is None
            children = _children(run.pid)
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130
    # One that was just starting ends when it finds that nobody will tell it what to do.
    servers.wait_for(lambda: not any(map(_is_alive, children)), "the children to end")


def test_client_ends_when_the_command_is_gone_before_it_has_begun() -> None:
    with servers.redis_server() as server:
        spec = ClientSpec("redis", "publisher", f"redis://127.0.0.1:{server.open_port()}", 1, 20)
        done = subprocess.run(
            [sys.executable, "-m", process.__name__, msgspec.json.encode(spec).decode()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    assert (done.returncode, done.stdout) == (1, process.READY)


def _children(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(child) for child in found.split()}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--contender", "rabbitmq"], "there is no contender rabbitmq; choose from: redis-py,"),
        (
            ["--redis", "redis://192.0.2.1", "--contender", "redis"],
            "it must be on a loopback address",
        ),
        (["--plot", "bus.none"], "--plot bus.none: its name must end with one of .eps,"),
        (["--clients", "0"], "it must be 1 to 16"),
        (["--seconds", "61"], "it must be 2 to 60"),
        (["--size", "65537"], "it must be 1 to 65536"),
    ],
)
def test_wrong_option_is_refused_with_a_reason(words: list[str], reason: str) -> None:
    done = run_module("benchmarks.bus", *words)
    assert done.returncode != 0
    assert done.stdout == ""
    assert reason in done.stderr


def test_contender_without_its_broker_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.BadConfiguration, match="apt-get install nats-server"):
        select_contenders(["nats-py"])
    assert "nats-py" not in [each.name for each in select_contenders([])]


def test_table_shows_medians_of_rounds_and_the_highest_loss() -> None:
    samples = [_sample(100, 0.25), _sample(300, 0), _sample(200, 0)]
    relay = [RelaySample(1000, 5, 1, p99, 0) for p99 in (2, 9, 3)]
    found = report.BusReport(
        "python -m benchmarks.bus",
        {"cores": "2"},
        [report.BusRounds("redis", 2, samples)],
        [report.RelayRounds("redis", relay)],
        ["one machine"],
        ["round 2 failed"],
    )
    rates, cpu, latencies = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in report.text(found).splitlines()
        if line.startswith("| redis ")
    ]
    assert rates == ["redis", "2", "200", "100", "300", "400", "200", "25.0 %", "3"]
    assert cpu == ["redis", "2", "1.00", "2.00", "3.00", "6.00"]
    assert latencies == ["redis", "1000", "1.00", "3.00", "9.00", "0.0 %"]
    assert "Note: one machine.\n\nNote: round 2 failed." in report.text(found)


def test_plot_names_each_contender_once(tmp_path: Path) -> None:
    file = tmp_path / "bus.svg"
    rounds = [
        report.BusRounds(name, clients, [_sample(100 * clients, 0)])
        for name in ("redis", "nats")
        for clients in (1, 2)
    ]
    report.plot(report.BusReport("", {}, rounds, [], [], []), file)
    drawn = file.read_text()
    assert [drawn.count(f"<!-- {name} -->") for name in ("redis", "nats", "zeromq")] == [1, 1, 0]


def _sample(rate: float, lost: float) -> BusSample:
    return BusSample(rate, 2 * rate, rate, 1, 2, 3, lost, 1)
