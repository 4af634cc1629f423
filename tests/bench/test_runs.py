# SPDX-License-Identifier: Apache-2.0
"""Every workload measures a real service and cleans up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from tests.bench.conftest import BenchResult, RunBench, command, run_bench
from tests.support import servers
from tests.support.backends import Backend
from tests.support.servers import RunningService
from zaqar_redis.benchmarks.service import MeasuredService
from zaqar_redis.benchmarks.workloads import WORKLOADS
from zaqar_redis.keyspace import control_keys, keys

_SHORT = ["--rounds", "1", "--seconds", "1", "--connections", "4"]
_SMALL = ["--claimed", "40", "--preload", "2000"]


@pytest.fixture(scope="module")
def run_of_all(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    """One run of every workload: a process for each would take most of the time."""
    file = tmp_path_factory.mktemp("bench") / "found.json"
    return run_bench(file, "--url", service.url, "--workload", *WORKLOADS, *_SHORT, *_SMALL)


def _check_samples(samples: dict[str, list[dict[str, float]]]) -> None:
    for [sample] in samples.values():
        assert sample["rate"] > 0
        assert sample["work"] > 0
        assert sample["errors"] == 0
        assert 0 < sample["p50"] <= sample["p99"]
        assert 0 < sample["generator"] < 1.5


def _leftover_keys(client: redis.Redis) -> list[bytes]:
    """Returns the keys, except those of the catalogue, which caches routes for a minute, and the
    owner."""
    ignored = (control_keys.CONTROL.prefix, keys.OWNER)
    return [key for key in client.scan_iter(count=1000) if not key.startswith(ignored)]


def test_run_measures_work_memory_and_floor_and_leaves_no_queues(bench: RunBench) -> None:
    workloads = ["post-1", "claim-deep"]
    with servers.redis_server() as store, servers.service(store.uri) as service:
        status, output, progress, found = bench(
            *["--url", service.url, "--floor", store.uri, "--store", store.uri],
            *["--workload", *workloads, *_SHORT, "--memory-messages", "10000"],
            *["--claimed", "40", "--preload", "1000"],
        )
        assert status == 0, progress
        with store.client() as client:
            servers.wait_for(lambda: not _leftover_keys(client), "no keys")
    assert [finding["name"] for finding in found["findings"]] == workloads
    for finding in found["findings"]:
        _check_samples(finding["samples"])
        assert f"| {finding['name']} " in output
    assert found["findings"][0]["ratios"].keys() == {"url to floor"}
    assert 150 < found["memory"]["url"] < 1330
    assert "bytes a message" in output


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_counts_work_without_errors(name: str, run_of_all: BenchResult) -> None:
    status, output, progress, found = run_of_all
    assert status == 0, progress
    [finding] = [finding for finding in found["findings"] if finding["name"] == name]
    _check_samples(finding["samples"])
    assert f"| {name} " in output
    assert f"{name}: round 1 of 1" in progress


@pytest.mark.nightly
def test_services_and_floor_are_measured_in_turns(
    bench: RunBench, service: RunningService, redis_server: Backend
) -> None:
    with servers.service(redis_server.uri) as other:
        status, output, progress, found = bench(
            *["--url", service.url, "--against", other.url, "--floor", redis_server.uri],
            *["--workload", "post-1", "--rounds", "2", "--seconds", "1", "--connections", "4"],
        )
    assert status == 0, progress
    turns = [line.split(", ")[1].split(":")[0] for line in progress.splitlines() if "round" in line]
    assert turns == ["url", "against", "floor", "url", "against", "floor"]
    ratios = found["findings"][0]["ratios"]
    assert ratios.keys() == {"url to against", "url to floor"}
    for ratio in ratios.values():
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]
    assert "url : floor" in output


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_reports_and_cleans_up(number: signal.Signals, tmp_path: Path) -> None:
    with servers.redis_server() as store, servers.service(store.uri) as service:
        arguments = ["--url", service.url, "--workload", "list-10", "--rounds", "90"]
        with (tmp_path / "progress").open("w") as progress:
            process = subprocess.Popen(
                command(*arguments, "--seconds", "1", "--connections", "4"),
                stdout=subprocess.PIPE,
                stderr=progress,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        servers.wait_for(
            lambda: "round 1 of 90" in (tmp_path / "progress").read_text(), "a round to end"
        )
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "| list-10 " in output
        assert "the run was interrupted" in output
        with store.client() as client:
            servers.wait_for(lambda: not _leftover_keys(client), "no keys")


def test_preparation_fills_claims_from_and_deletes_queues(service: RunningService) -> None:
    with contextlib.closing(MeasuredService(service.url)) as ours:
        queue = ours.queue()
        ours.fill(queue, 45)
        ours.claim_messages(queue, 40)
        assert ours.total(queue) == 45
        assert len(ours.first_ids(queue, 10)) == 5
        assert ours.delete_queues() == []
        assert ours.total(queue) == 0
