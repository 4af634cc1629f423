# SPDX-License-Identifier: Apache-2.0
"""Every workload measures a real service and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from tests import servers
from tests.bench.conftest import Bench, command
from zaqar_redis.bench.service import Service
from zaqar_redis.bench.workloads import WORKLOADS
from zaqar_redis.keyspace import keys

_SHORT = ["--rounds", "1", "--seconds", "1", "--connections", "4"]
_SMALL = ["--claimed", "40", "--preload", "2000"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_counts_work_and_no_errors(
    name: str, bench: Bench, service: servers.Service
) -> None:
    status, output, progress, found = bench(
        "--url", service.url, "--workload", name, *_SHORT, *_SMALL
    )
    assert status == 0, progress
    [finding] = found["findings"]
    for samples in finding["samples"].values():
        [sample] = samples
        assert sample["rate"] > 0
        assert sample["work"] > 0
        assert sample["errors"] == 0
        assert 0 < sample["p50"] <= sample["p99"]
        assert 0 < sample["generator"] < 1.5
    assert f"| {name} " in output
    assert f"{name}: round 1 of 1" in progress


def test_two_services_and_the_floor_take_turns(
    bench: Bench, service: servers.Service, redis_server: servers.RedisServer
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


def _left(client: redis.Redis) -> list[bytes]:
    """Keys, but for the catalogue's, which remembers for a minute where queues were, and whose
    the store is."""
    stays = (keys.CONTROL.prefix, keys.OWNER)
    return [key for key in client.scan_iter(count=1000) if not key.startswith(stays)]


def test_no_queue_and_no_key_is_left(bench: Bench) -> None:
    with servers.redis_server() as store, servers.service(store.uri) as service:
        status, _, progress, _ = bench(
            *["--url", service.url, "--workload", "post-1", "claim-delete", "claim-20000"],
            *[*_SHORT, *_SMALL],
        )
        assert status == 0, progress
        with store.client() as client:
            servers.wait_for(lambda: not _left(client), "no keys")


def test_memory_of_a_message_is_measured(bench: Bench) -> None:
    with servers.redis_server() as store, servers.service(store.uri) as service:
        status, output, progress, found = bench(
            *["--url", service.url, "--store", store.uri, "--memory-messages", "10000"],
            *["--workload", "list-10", *_SHORT],
        )
    assert status == 0, progress
    assert 150 < found["memory"]["url"] < 1330
    assert "bytes a message" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_it_has_and_cleans_up(
    number: signal.Signals, tmp_path: Path
) -> None:
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
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "| list-10 " in output
        assert "the run was interrupted" in output
        with store.client() as client:
            servers.wait_for(lambda: not _left(client), "no keys")


def test_preparation_fills_claims_and_deletes_queues(
    service: servers.Service,
) -> None:
    with contextlib.closing(Service(service.url)) as ours:
        queue = ours.queue()
        ours.fill(queue, 45)
        ours.hold(queue, 40)
        assert ours.total(queue) == 45
        assert len(ours.first_ids(queue, 10)) == 5
        assert ours.drop_all() == []
        assert ours.total(queue) == 0
