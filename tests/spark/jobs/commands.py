# SPDX-License-Identifier: Apache-2.0
"""Jobs as processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support import servers
from zaqar_redis.spark.jobs import running as jobs
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.running import SparkJob

#: Generous: a JVM starts slowly, and machines are shared.
TIMEOUT_SECONDS = 240.0

_COMMAND = (sys.executable, "-m", "zaqar_redis.cli.main", "pipeline")
#: With the default low priority a job would only finish after all parallel tests.
IN_TURN = ("--priority", "normal")
_ENVIRONMENT = {"SPARK_MASTER": "local[2]"}


class StoreAndProject(Protocol):
    """A store and a project."""

    uri: str
    project: str


def _arguments(store: StoreAndProject, arguments: tuple[object, ...]) -> list[str]:
    return ["--storage", store.uri, "--project", store.project, *map(str, arguments)]


def parts(report: JobReport, name: str = "messages read") -> dict[str, int]:
    """Returns the parts of a count that are not 0."""
    found = report.counts[name]
    assert isinstance(found, dict)
    return {part: number for part, number in found.items() if number}


def report(
    capsys: pytest.CaptureFixture[str], store: StoreAndProject, job: SparkJob, *arguments: object
) -> dict[str, Any]:
    """Runs a job in the existing session; returns its JSON report."""
    capsys.readouterr()
    code = jobs.main(job, ["--json", "--no-progress", *_arguments(store, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    document: dict[str, Any] = json.loads(captured.out)
    return document


@contextlib.contextmanager
def running(
    store: StoreAndProject, job: str, *arguments: object, stderr: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a job with all its processes in one group; kills it at the end.

    *stderr* is the file for its stderr.
    """
    with open(stderr or os.devnull, "wb") as errors:
        process = subprocess.Popen(
            [*_COMMAND, job, *IN_TURN, *_arguments(store, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            env=os.environ | _ENVIRONMENT,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a job with its JVM and workers by SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    servers.wait_for(lambda: not _alive(process.pid), "the processes of a job to end")


def _alive(group: int) -> bool:
    """Returns whether any process of the group is running."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                return True
    return False
