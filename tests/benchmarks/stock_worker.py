# SPDX-License-Identifier: Apache-2.0
"""A process with stock Zaqar's WSGI application in it, and who calls that there.

No HTTP server and no client: they cost the same whatever the driver is, and would
only hide what differs. What is called is all of stock's own, from its outermost
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

from tests.benchmarks.rounds import sample
from zaqar_redis.bench.load import Sample
from zaqar_redis.bench.service import Failed, message

#: One post of the preparation: stock takes 256 KiB at most.
_FILL = 1000
#: The most that stock's configuration lets one claim take.
_CLAIM = 20
#: Messages of one claim or listing that is measured.
CLAIMED = LISTED = 10
#: Seconds that anything may take, of which claiming so many messages is the longest.
_PATIENCE = 300.0
_CLAIMING = b'{"ttl":43200,"grace":60}'


class Worker:
    """The process, as the one that measures sees it; it ends with that one."""

    def __init__(self, home: Path) -> None:
        """*home*: where stock looks for its configuration."""
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
        """Let `Calls` do something.  Raises Failed when that fails or takes too long."""
        self._connection.send((name, arguments))
        if not self._connection.poll(_PATIENCE):
            raise Failed(f"{name} took more than {_PATIENCE:.0f} s")
        try:
            answer, failure = self._connection.recv()
        except EOFError:
            raise Failed(f"the process ended at {name}") from None
        if failure:
            raise Failed(failure)
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


class Calls:
    """What can be asked of the application."""

    def __init__(self, application: Any) -> None:
        self._application = application
        #: WSGI's variables that are the same in every call
        self._same = {
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
        #: claims that were made while it was measured
        self._made: list[str] = []

    def measure(self, workload: str, queue: str, seconds: int) -> Sample:
        """Do one thing after another until the time is over, at least once."""
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
        self._made.append(location)
        return bool(location)

    def claim_delete(self, queue: str) -> bool:
        """Claim some, and delete them by their ids in one request."""
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
        """Claim so many messages for long."""
        for start in range(0, count, _CLAIM):
            self._claimed(queue, min(_CLAIM, count - start))

    def made(self) -> list[str]:
        """The claims that were made since it was asked last."""
        made, self._made = self._made, []
        return made

    def release(self, claims: list[str]) -> None:
        for claim in filter(None, claims):
            self._expect(204, "DELETE", _behind_queues(claim))

    def claimed(self, queue: str) -> int:
        _, data = self._expect(200, "GET", f"{queue}/stats")
        return int(json.loads(data)["messages"]["claimed"])

    def _claimed(self, queue: str, limit: int) -> tuple[str, bytes]:
        """The claim, or "" when there was nothing to claim, and its messages."""
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

        asked = {
            "REQUEST_METHOD": method,
            "PATH_INFO": f"/v2/queues/{path}",
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.input": io.BytesIO(data),
        }
        answer = b"".join(self._application(self._same | asked, start_response))
        if int(given[0][:3]) not in (status, or_else):
            text = answer.decode("utf-8", "replace")
            raise Failed(f"{method} {path} answered {given[0]}: {text}")
        return {name.lower(): value for name, value in given[1]}, answer


def _serve(connection: Connection, home: Path) -> None:
    """In the process itself.  What fails is told, and the process goes on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is not for us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["HOME"] = str(home)
    calls: Calls | None = None
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        answer, failure = None, ""
        try:
            if calls is None:
                # Reads its configuration where it is imported, as in any WSGI server.
                from zaqar.transport.wsgi import app

                calls = Calls(app.application)
            answer = getattr(calls, name)(*arguments)
        except Exception as error:
            failure = f"{name}: {error!r}"
        connection.send((answer, failure))


def _posting(count: int) -> bytes:
    return json.dumps({"messages": [message()] * count}, separators=(",", ":")).encode()


def _behind_queues(path: str) -> str:
    return path.rpartition("/v2/queues/")[2]
