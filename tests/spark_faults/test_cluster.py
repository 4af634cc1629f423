# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster: a master and two workers, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_faults.drivers import (
    ROOT,
    TIMEOUT_SECONDS,
    SparkDriver,
    driver,
    environment,
    of_session,
)
from tests.support import servers, spark_classes
from tests.support.spark_reads import SparkTestStore

#: Spark is slow to start, and machines are shared.
pytestmark = pytest.mark.timeout(400)

#: Gives four tasks: fewer than 10 000 messages each would give fewer.
_MANY = 40_000


def _wait_for(log: Path, words: str) -> str:
    """Waits for a pattern in a log; returns the match."""
    pattern = re.compile(words)
    servers.wait_for(lambda: pattern.search(log.read_text()) is not None, words, TIMEOUT_SECONDS)
    found = pattern.search(log.read_text())
    assert found
    return found[0]


class StandaloneCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        log = self._start("master.Master", "--port", "0")
        self.master = _wait_for(log, r"spark://127\.0\.0\.1:[0-9]+")
        logs = [
            self._start(
                "worker.Worker",
                *("--cores", "1", "--memory", "600m"),
                *("--work-dir", str(folder / f"work{number}"), self.master),
            )
            for number in range(2)
        ]
        for log in logs:
            _wait_for(log, "Successfully registered")

    def _start(self, name: str, *arguments: str) -> Path:
        """Starts a daemon; returns its log."""
        log = self._folder / f"daemon{len(self._processes)}"
        settings = {
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": spark_classes.java_options(),
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    str(spark_classes.spark_home() / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    *("--host", "127.0.0.1", "--webui-port", "0"),
                    *arguments,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=ROOT,
                env=environment() | settings,
            )
        self._processes.append(process)
        return log

    def close(self) -> None:
        for process in self._processes:
            for pid in of_session(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster_driver(tmp_path: Path) -> Iterator[SparkDriver]:
    """A driver whose tasks run in two executors."""
    cluster = StandaloneCluster(tmp_path)
    try:
        with driver(cluster.master, tmp_path / "log") as running:
            yield running
    finally:
        cluster.close()


def test_tasks_of_two_executors_copy_every_message_once(
    cluster_driver: SparkDriver, store: SparkTestStore
) -> None:
    store.post(*range(_MANY))
    everywhere = {"uri": store.uri, "project": store.project}
    order = {
        "name": "copy",
        "read": everywhere | {"subscribe": "q", "minPartitions": "4"},
        "write": everywhere | {"queue": "copy", "delivery": "ledger", "writeId": "copy"},
    }
    for _ in range(2):  # the second write finds nothing missing
        ended = cluster_driver.expect_end("copy")
        cluster_driver.send_order(order)
        end = ended()
        assert end.error is None
        assert len(end.executors) == 2
        assert min(end.executors.values()) > 0
        assert sorted(store.bodies("copy")) == list(range(_MANY))
        assert store.last_rank("copy") == _MANY
