# SPDX-License-Identifier: Apache-2.0
"""Services whose connections are tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import counted_app
from tests.support import servers

#: Seconds that `impatient` keeps an idle connection; `zaqar-redis serve` has no such option.
KEEP_ALIVE = 1


@pytest.fixture(scope="session")
def impatient(
    redis_server: servers.RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.RunningService]:
    """A service of `counted_app` that closes idle connections soon."""
    port = servers.free_port()
    log: Path = tmp_path_factory.mktemp("impatient") / "service.log"
    words = ["--worker-class", "zaqar_redis.api.server.worker.Worker", "--bind"]
    words += [f"127.0.0.1:{port}", "--keep-alive", str(KEEP_ALIVE), "--no-control-socket"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *words, f"{counted_app.__name__}:app()"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {counted_app.STORE: redis_server.uri},
        )
    with servers.watched(process, port, log) as running:
        yield running
