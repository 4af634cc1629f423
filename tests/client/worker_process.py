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


@contextlib.contextmanager
def worker_process(
    url: str, project: str, log: Path, **options: int
) -> Iterator[subprocess.Popen[bytes]]:
    """*options*: of the worker."""
    environment = {f"JOBS_{name.upper()}": str(value) for name, value in options.items()}
    environment |= {"JOBS_URL": url, "JOBS_PROJECT": project}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "client"), str(ROOT)])
    command = [sys.executable, "-m", "zaqar_redis_client.command", "tests.client.jobs:worker"]
    process = servers.start_logged(command, log, environment, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
