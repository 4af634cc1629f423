# SPDX-License-Identifier: Apache-2.0
"""Services whose connections are tested."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import counted_app
from tests.support import servers
from tests.support.backends import Backend
from tests.support.raw_http import RawConnection

#: Seconds that services keep an idle connection; `zaqar-redis serve` has no such option.
#: `impatient` keeps them longer than a busy machine takes from an answer to the next request.
_IMPATIENT, _PATIENT = 5, 300


@pytest.fixture
def connection(service: servers.RunningService) -> Iterator[RawConnection]:
    with RawConnection(service.port) as made:
        yield made


@pytest.fixture(scope="session")
def impatient(
    redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.RunningService]:
    """A service that closes idle connections soon."""
    with _service(redis_server, tmp_path_factory.mktemp("impatient"), _IMPATIENT) as running:
        yield running


@pytest.fixture(scope="session")
def counted(
    redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.RunningService]:
    """A service of `counted_app`."""
    with _service(redis_server, tmp_path_factory.mktemp("counted"), _PATIENT) as running:
        yield running


@contextlib.contextmanager
def _service(store: Backend, folder: Path, keep_alive: int) -> Iterator[servers.RunningService]:
    port = servers.free_port()
    log = folder / "service.log"
    words = ["--worker-class", "zaqar_redis.api.server.worker.Worker", "--bind"]
    words += [f"127.0.0.1:{port}", "--keep-alive", str(keep_alive), "--no-control-socket"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *words, f"{counted_app.__name__}:app()"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {counted_app.STORE: store.uri},
        )
    with servers.watched(process, port, log) as running:
        yield running
