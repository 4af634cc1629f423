# SPDX-License-Identifier: Apache-2.0
"""The brokers' benchmark measures our service, and names a broker's program that is missing.

The other brokers come from Debian's packages, which the machines of these tests do not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows


def test_our_service_is_measured_by_process(folder: Path) -> None:
    only = ["--broker", "zaqar-redis", "--part", "post-claim-delete"]
    output = BenchmarkProcess("brokers", folder).output(*only, "--rounds", "1", "--seconds", "0.3")
    found = rows(output, "rounds")
    assert [tuple(row[:3]) for row in found] == [
        ("post-claim-delete", what, unit)
        for what, unit in (
            ("zaqar-redis", "µs of CPU"),
            ("zaqar-redis, worker", "µs of CPU"),
            ("zaqar-redis, redis-server", "µs of CPU"),
            ("zaqar-redis", "messages/s"),
            ("zaqar-redis, clients", "% of a core"),
        )
    ]
    total, worker, store, *_ = (float(row[3]) for row in found)
    assert worker > 0
    assert store > 0
    assert total == pytest.approx(worker + store, abs=1)


@pytest.mark.parametrize(
    ("broker", "program"),
    [
        ("zaqar-redis", "redis-server"),
        ("beanstalkd", "beanstalkd"),
        ("nats-jetstream", "nats-server"),
    ],
)
def test_a_missing_program_is_named_with_its_package(broker: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.brokers", "--broker", broker],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": ""},
    )
    assert done.returncode == 1
    assert f"apt-get install {program}" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["--part", "nonsense"], ["--broker", "nonsense"], ["--bytes", "1"]]
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str], folder: Path) -> None:
    BenchmarkProcess("brokers", folder).expect_usage_error(*arguments)
