# SPDX-License-Identifier: Apache-2.0
"""A process that runs stock Zaqar's WSGI application, and calls it.

Without HTTP server and client: they cost the same whatever the driver is, and would
only hide differences. The calls run all of stock's own code, from its outermost
middleware on.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.support.rounds import sample
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed, message

#: Messages in one post of the preparation: stock accepts at most 256 KiB.
_FILL = 1000
#: Maximum number of messages in one claim, by stock's default configuration.
_CLAIM = 20
#: Messages in one measured claim or listing.
CLAIMED = LISTED = 10
#: Timeout of any call; the longest claims many messages.
_CALL_TIMEOUT_SECONDS = 300.0
_CLAIMING = b'{"ttl":43200,"grace":60}'


class StockWorker:
    """A handle of the process, which ends with the one that has the handle."""

    def __init__(self, home: Path) -> None:
        """*home*: the folder with stock's configuration."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, home), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def call(self, name: str, *arguments: object) -> Any:
        """Calls a method of `WsgiCalls`; returns its result.

        Raises BenchmarkFailed when it fails or takes too long.
        """
        self._connection.send((name, arguments))
        if not self._connection.poll(_CALL_TIMEOUT_SECONDS):
            raise BenchmarkFailed(f"{name} took more than {_CALL_TIMEOUT_SECONDS:.0f} s")
        try:
            answer, failure = self._connection.recv()
        except EOFError:
            raise BenchmarkFailed(f"the process ended during {name}") from None
        if failure:
            raise BenchmarkFailed(failure)
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


class WsgiCalls:
    """Calls of the application."""

    def __init__(self, application: Any) -> None:
        self._application = application
        #: WSGI variables that are the same in every call
        self._environ = {
            "SCRIPT_NAME": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8888",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1:8888",
            "HTTP_CLIENT_ID": str(uuid.uuid4()),
            "HTTP_X_PROJECT_ID": "bench",
            "HTTP_ACCEPT": "*/*",
            "CONTENT_TYPE": "application/json",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        self._one = _posting(1)
        #: claims created while it was measured
        self._claims: list[str] = []

    def measure(self, workload: str, queue: str, seconds: float) -> LoadSample:
        """Repeats one call until the time is over, at least once; returns a sample."""
        step: Callable[[str], bool] = getattr(self, workload)
        delays: list[int] = []
        start = now = time.monotonic_ns()
        end = start + seconds * 10**9
        dry = False
        while now < end and not dry:
            before = now
            dry = not step(queue)
            now = time.monotonic_ns()
            if not dry:
                delays.append(now - before)
        return msgspec.structs.replace(sample(delays, 0, (now - start) / 1e9), dry=dry)

    def post_one(self, queue: str) -> bool:
        self._expect(201, "POST", f"{queue}/messages", self._one)
        return True

    def list_some(self, queue: str) -> bool:
        self._expect(200, "GET", f"{queue}/messages", query=f"limit={LISTED}&echo=true")
        return True

    def claim_some(self, queue: str) -> bool:
        location, _ = self._claimed(queue, CLAIMED)
        self._claims.append(location)
        return bool(location)

    def claim_delete(self, queue: str) -> bool:
        """Claims some messages, and deletes them by their ids in one request."""
        location, data = self._claimed(queue, CLAIMED)
        if location:
            ids = ",".join(found["id"] for found in json.loads(data)["messages"])
            claim = location.rpartition("/")[2]
            query = f"ids={ids}&claim_ids={claim}"
            self._expect(204, "DELETE", f"{queue}/messages", query=query)
        return bool(location)

    def claim_delete_each(self, queue: str) -> bool:
        location, data = self._claimed(queue, CLAIMED)
        if location:
            for found in json.loads(data)["messages"]:
                path, _, query = found["href"].partition("?")
                self._expect(204, "DELETE", _behind_queues(path), query=query)
        return bool(location)

    def fill(self, queue: str, count: int) -> None:
        while count > 0:
            self._expect(201, "POST", f"{queue}/messages", _posting(min(count, _FILL)))
            count -= _FILL

    def hold(self, queue: str, count: int) -> None:
        """Claims *count* messages, longer than any run."""
        for start in range(0, count, _CLAIM):
            self._claimed(queue, min(_CLAIM, count - start))

    def made(self) -> list[str]:
        """Returns the claims created since its last call."""
        claims, self._claims = self._claims, []
        return claims

    def release(self, claims: list[str]) -> None:
        for claim in filter(None, claims):
            self._expect(204, "DELETE", _behind_queues(claim))

    def claimed(self, queue: str) -> int:
        _, data = self._expect(200, "GET", f"{queue}/stats")
        return int(json.loads(data)["messages"]["claimed"])

    def _claimed(self, queue: str, limit: int) -> tuple[str, bytes]:
        """Returns the claim's path, or "" when there was nothing to claim, and its body."""
        path = f"{queue}/claims"
        headers, data = self._expect(201, "POST", path, _CLAIMING, f"limit={limit}", or_else=204)
        return headers.get("location", ""), data

    def _expect(
        self,
        status: int,
        method: str,
        path: str,
        data: bytes = b"",
        query: str = "",
        or_else: int = 0,
    ) -> tuple[dict[str, str], bytes]:
        given: list[Any] = []

        def start_response(*answer: Any) -> None:
            given.extend(answer)

        variables = {
            "REQUEST_METHOD": method,
            "PATH_INFO": f"/v2/queues/{path}",
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.input": io.BytesIO(data),
        }
        answer = b"".join(self._application(self._environ | variables, start_response))
        if int(given[0][:3]) not in (status, or_else):
            text = answer.decode("utf-8", "replace")
            raise BenchmarkFailed(f"{method} {path} answered {given[0]}: {text}")
        return {name.lower(): value for name, value in given[1]}, answer


def _serve(connection: Connection, home: Path) -> None:
    """Serves calls, in the process itself; reports failures, and goes on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is not for us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["HOME"] = str(home)
    calls: WsgiCalls | None = None
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        answer, failure = None, ""
        try:
            if calls is None:
                # Its import reads the configuration, as in any WSGI server.
                from zaqar.transport.wsgi import app

                calls = WsgiCalls(app.application)
            answer = getattr(calls, name)(*arguments)
        except Exception as error:
            failure = f"{name}: {error!r}"
        connection.send((answer, failure))


def _posting(count: int) -> bytes:
    return json.dumps({"messages": [message()] * count}, separators=(",", ":")).encode()


def _behind_queues(path: str) -> str:
    return path.rpartition("/v2/queues/")[2]
