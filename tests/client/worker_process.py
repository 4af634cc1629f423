# SPDX-License-Identifier: Apache-2.0
"""`zaqar-redis-worker` in a process, for the worker of `tests.client.jobs`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conventions.files import ROOT
from tests.support import servers

#: The client, which is not installed, and what else the tests find.
PYTHON_PATH = {"PYTHONPATH": os.pathsep.join([str(ROOT / "client"), str(ROOT), *sys.path])}


def environment_of(url: str, project: str, **options: int) -> dict[str, str]:
    """Returns the variables for the worker of `tests.client.jobs`."""
    variables = {f"JOBS_{name.upper()}": str(value) for name, value in options.items()}
    return variables | {"JOBS_URL": url, "JOBS_PROJECT": project} | PYTHON_PATH


@contextlib.contextmanager
def worker_process(
    url: str, project: str, log: Path, *words: str, **options: int
) -> Iterator[subprocess.Popen[bytes]]:
    """*words*: of the command.  *options*: of the worker."""
    environment = environment_of(url, project, **options)
    command = [sys.executable, "-m", "zaqar_redis_client.command", "tests.client.jobs:worker"]
    process = servers.start_logged([*command, *words], log, environment, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
