# SPDX-License-Identifier: Apache-2.0
"""The floor: the minimum cost of a request in any Falcon service on Redis.

It is an empty handler that runs an empty script, with the worker class and the batching
client of the real service.  What a request costs beyond that, the service itself adds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import falcon.asgi

from zaqar_redis.bench import logs
from zaqar_redis.bench.service import BenchmarkFailed
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings

_SCRIPT = "return 1"
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_STORE = "ZAQAR_REDIS_BENCH_FLOOR"


class _ClientLifespan:
    def __init__(self, client: keyspace.AsyncClient) -> None:
        self._client = client

    async def process_startup(self, scope: Any, event: Any) -> None:
        await self._client.start()
        await self._client.command("SCRIPT", "LOAD", _SCRIPT)

    async def process_shutdown(self, scope: Any, event: Any) -> None:
        await self._client.close()


class _EmptyResource:
    def __init__(self, client: keyspace.AsyncClient) -> None:
        self._client = client

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, queue: str
    ) -> None:
        await self._client.command("EVALSHA", _SHA, 1, "zr:bench")
        resp.status = 204


class _WorkerSettings:
    max_connections = 16_384
    request_timeout = 60.0


class FloorApp:
    """The ASGI application, with the attributes that the worker class needs."""

    settings = _WorkerSettings()

    def __init__(self, store: str) -> None:
        client = keyspace.client(store, BatchSettings())
        app: falcon.asgi.App[Any, Any] = falcon.asgi.App(middleware=[_ClientLifespan(client)])
        app.add_route("/v2/queues/{queue}/messages", _EmptyResource(client))
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def begin_shutdown(self) -> None:
        """Does nothing: there are no long polls to end."""


def create() -> FloorApp:
    """Creates the application, for gunicorn in a process that `running` started."""
    return FloorApp(os.environ[_STORE])


@contextlib.contextmanager
def running(store: str) -> Iterator[str]:
    """Serves the floor over a Redis with one worker on a free port; yields its URL."""
    keyspace.validate_uri(store)
    port = _free_port()
    command = [sys.executable, "-m", "gunicorn", "--workers", "1", "--bind", f"127.0.0.1:{port}"]
    command += ["--worker-class", "zaqar_redis.api.worker.Worker", "--keep-alive", "75"]
    command += ["--no-control-socket", "--log-level", "warning"]
    command += ["zaqar_redis.bench.floor:create()"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env=os.environ | {_STORE: store},
            start_new_session=True,
        )
        try:
            if not _listens(process, port):
                log.seek(0)
                text = log.read().decode("utf-8", "replace").strip()
                raise BenchmarkFailed(f"the floor did not start: {text[-1000:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log.seek(0)
        logs.check("the floor", log.read().decode("utf-8", "replace"))


def _listens(process: subprocess.Popen[bytes], port: int, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
