# SPDX-License-Identifier: Apache-2.0
"""A webhook endpoint that fails as its paths say, the same way in each run."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from threading import Event
from typing import Any

from tests.support import servers
from tests.support.http_handlers import QuietHandler


class FaultEndpoint:
    """What came by each path, and what the paths do.

    ``/steady…`` takes all; ``/flaky…`` fails a third of the first attempts: 503, a connection that
    is closed, no answer in time; ``/slow…`` waits until it is released; ``/gone…`` is gone;
    ``/refused…`` never takes anything; ``/away…`` answers 503 until it is released.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        #: the bodies that were taken, in order, by path
        self.taken: defaultdict[str, list[Any]] = defaultdict(list)
        #: attempts by path
        self.attempts: Counter[str] = Counter()
        self.released = Event()
        self._seen: set[tuple[str, str]] = set()

    def uri(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def firsts(self, path: str) -> list[Any]:
        """Returns the bodies that were taken, each when it came first."""
        return list(dict.fromkeys(self.taken[path]))

    def status(self, path: str, bodies: list[Any]) -> int:
        """Returns what to answer; 0: nothing."""
        self.attempts[path] += 1
        if path.startswith("/gone"):
            return 410
        if path.startswith("/refused"):
            return 400
        if path.startswith("/slow"):
            self.released.wait()
        if path.startswith("/away") and not self.released.is_set():
            return 503
        if path.startswith("/flaky"):
            attempt = path, str(bodies[0])
            chosen = random.Random(str(attempt)).randrange(12)
            if attempt not in self._seen and chosen < 4:
                self._seen.add(attempt)
                if chosen == 0:
                    self.released.wait(1)  # longer than the time-out
                return 503 if chosen == 1 else 0
        self.taken[path] += bodies
        return 204


@contextlib.contextmanager
def fault_endpoint() -> Iterator[FaultEndpoint]:
    class _FaultHandler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            document = json.loads(self.body())
            messages = document.get("messages", [document])
            status = found.status(self.path, [each["body"] for each in messages])
            if not status:
                self.close_connection = True
                return
            with contextlib.suppress(ConnectionError):  # the notifier was killed meanwhile
                self.answer(status)

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle()

    class _FaultServer(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    with servers.http_server(_FaultServer(("127.0.0.1", 0), _FaultHandler)) as server:
        found = FaultEndpoint(server.server_port)
        try:
            yield found
        finally:
            found.released.set()
