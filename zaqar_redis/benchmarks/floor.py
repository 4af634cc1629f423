# SPDX-License-Identifier: Apache-2.0
"""The floor: the minimum cost of a request in any Falcon service on Redis.

It is an empty handler that runs an empty script, with the worker class and the batching
client of the real service.  What a request costs beyond that, the service itself adds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import falcon.asgi

from zaqar_redis.benchmarks import servers
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
    with servers.running("the floor", _command, {_STORE: store}) as (_, port):
        yield f"http://127.0.0.1:{port}"


def _command(port: int) -> list[str]:
    command = [sys.executable, "-m", "gunicorn", "--workers", "1", "--bind", f"127.0.0.1:{port}"]
    command += ["--worker-class", "zaqar_redis.api.server.worker.Worker", "--keep-alive", "75"]
    command += ["--no-control-socket", "--log-level", "warning"]
    return [*command, "zaqar_redis.benchmarks.floor:create()"]
