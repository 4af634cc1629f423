# SPDX-License-Identifier: Apache-2.0
"""The floor: the minimum cost of a post in any Python service on Redis.

It is an empty verb that runs an empty script, with the worker class, the protocol and the
batching client of the real service; requests and answers have the same bytes.  What a post
costs beyond that, the service itself adds.
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
from typing import IO, Any

from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.endpoints import request_ids
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.hot_routes import HotRoutes
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.auth.access import open_access
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.benchmarks.logs import check_log
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.script import RedisCommand, Steps, verb
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.service.requests_in_flight import RequestsInFlight

_SCRIPT = "return 1"
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_STORE = "ZAQAR_REDIS_BENCH_FLOOR"
#: Seconds that it may take to start, and to stop before it is killed.
_START_SECONDS, _STOP_SECONDS = 60.0, 10.0

#: An answer of the size of a real one.
_ID = "0" * 8 + "-0000-0000-0000-" + "0" * 12
_ANSWER = Answer(
    b'{"resources":["/v2/queues/bench-floor/messages/%b"]}' % _ID.encode(),
    201,
    (("location", f"/v2/queues/bench-floor/messages?ids={_ID}"),),
)


class FloorApp:
    """The ASGI application, with the attributes that the worker class needs."""

    settings = ApiSettings()

    def __init__(self, store: str) -> None:
        self.client = keyspace.client(store, BatchSettings())
        self.checks = RequestChecks(
            self.settings.limits, UrlSigner(None), open_access(), RequestsInFlight(8192, 4096)
        )
        self.request_ids = request_ids()
        self.audit = RequestAudit(None)
        route = ("POST", "/v2/queues/{queue}/messages", self.answer, "messages:create")
        routes = [ApiRoute(*route, body=Body(Any, "A post"), hot=True)]
        self.hot_routes = HotRoutes(routes, self.audit.covers)

    @verb
    def answer(self, request: Request[None, Any], queue: str) -> Steps[Answer]:
        yield RedisCommand("EVALSHA", _SHA, 1, "zr:bench")
        return _ANSWER

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answers the events of the server's start and end; 404 to other requests."""
        if scope["type"] != "lifespan":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body"})
            return
        await receive()
        await self.client.start()
        await self.client.command("SCRIPT", "LOAD", _SCRIPT)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.client.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def ping_essential(self) -> None:
        """Does nothing: it has started."""

    def begin_shutdown(self) -> None:
        """Does nothing: there are no long polls to end."""


def create() -> FloorApp:
    """Creates the application, for gunicorn in a process that `running` started."""
    return FloorApp(os.environ[_STORE])


@contextlib.contextmanager
def running(store: str) -> Iterator[str]:
    """Serves the floor over a Redis with one worker on a free port; yields its URL.

    Raises BenchmarkFailed when it does not start, or its log shows a bug.
    """
    keyspace.validate_uri(store)
    with tempfile.TemporaryFile() as log:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port: int = bound.getsockname()[1]
            process = subprocess.Popen(
                _command(bound.fileno()),
                stdout=log,
                stderr=log,
                env=os.environ | {_STORE: store},
                pass_fds=[bound.fileno()],
                start_new_session=True,
            )
        try:
            if not _listens(process, port):
                raise BenchmarkFailed(f"the floor did not start: {_text(log)[-1000:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        check_log("the floor", _text(log))


def _command(descriptor: int) -> list[str]:
    """*descriptor*: of a socket that is bound; gunicorn listens on it."""
    command = [sys.executable, "-m", "gunicorn", "--workers", "1", "--bind", f"fd://{descriptor}"]
    command += ["--worker-class", "zaqar_redis.api.server.worker.Worker", "--keep-alive", "75"]
    command += ["--no-control-socket", "--log-level", "warning"]
    return [*command, "zaqar_redis.benchmarks.floor:create()"]


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def _text(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace").strip()
