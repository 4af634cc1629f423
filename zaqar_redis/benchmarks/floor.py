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
import sys
from collections.abc import Iterator
from typing import Any

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
from zaqar_redis.benchmarks import servers
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.script import RedisCommand, Steps, verb
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.service.requests_in_flight import RequestsInFlight

_SCRIPT = "return 1"
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_STORE = "ZAQAR_REDIS_BENCH_FLOOR"


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
