# SPDX-License-Identifier: Apache-2.0
"""Jobs as processes of their own, as people run them."""

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

from tests import servers
from zaqar_redis.spark.jobs import running as jobs
from zaqar_redis.spark.jobs.running import Job

#: Seconds: a Java takes its time, and machines are shared.
PATIENCE = 240.0

_COMMAND = (sys.executable, "-m", "zaqar_redis.cli.main", "pipeline")
#: Behind other tests, a job that gives way to all would take until their end.
IN_TURN = ("--priority", "normal")
_ENVIRONMENT = {"SPARK_MASTER": "local[2]"}


class Where(Protocol):
    """A store, and whose queues in it."""

    uri: str
    project: str


def _arguments(store: Where, arguments: tuple[object, ...]) -> list[str]:
    return ["--storage", store.uri, "--project", store.project, *map(str, arguments)]


def report(
    capsys: pytest.CaptureFixture[str], store: Where, job: Job, *arguments: object
) -> dict[str, Any]:
    """What a job says in JSON, run in the session that is there."""
    capsys.readouterr()
    code = jobs.main(job, ["--json", "--no-progress", *_arguments(store, arguments)])
    said = capsys.readouterr()
    assert code == 0, said.err
    told: dict[str, Any] = json.loads(said.out)
    return told


@contextlib.contextmanager
def running(
    store: Where, job: str, *arguments: object, said: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A job under way, with all its processes in one group; it is killed at the end.

    *said* gets what it writes to stderr.
    """
    with open(said or os.devnull, "wb") as errors:
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
    """With SIGKILL, the JVM and the workers too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    servers.wait_for(lambda: not _alive(process.pid), "the processes of a job to end")


def _alive(group: int) -> bool:
    """Whether any process of the group is left."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                return True
    return False
