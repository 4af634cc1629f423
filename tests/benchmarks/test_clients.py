# SPDX-License-Identifier: Apache-2.0
"""The benchmark of clients measures those that are installed, and names the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_SHORT = ("--rounds", "1", "--seconds", "0.2")


def test_clients_of_queues_send_and_take(folder: Path) -> None:
    output = BenchmarkProcess("clients", folder).output("--part", "queues", *_SHORT)
    found = rows(output, "servers, µs", "queues")
    assert {("zaqar-redis", "1"), ("zaqar-redis", "32")} <= {(row[0], row[1]) for row in found}
    assert all(float(cell) > 0 for row in found for cell in row[2:])
    labels = ("zaqar-redis", "RabbitMQ, aio-pika", "beanstalkd, greenstalk")
    assert all(label in output for label in labels)


@pytest.mark.nightly
def test_frameworks_post_jobs_and_do_them(folder: Path) -> None:
    output = BenchmarkProcess("clients", folder).output("--part", "jobs", *_SHORT)
    found = rows(output, "servers, µs", "jobs")
    done = {row[0]: row[5:] for row in found if row[1] == "32"}
    assert {"zaqar-redis, Worker", "dramatiq on zaqar-redis"} <= done.keys()
    assert all(float(cell) > 0 for cells in done.values() for cell in cells)
