# SPDX-License-Identifier: Apache-2.0
"""A real endpoint of webhooks, for tests that look at what it got and say what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support import servers
from tests.support.http_handlers import QuietHandler, local_server


class AnsweringEndpoint:
    """An endpoint that answers with a status, and has kept what it got since."""

    def __init__(self, port: int) -> None:
        self.uri = f"http://127.0.0.1:{port}/"
        self.status = 204
        #: of its answers other than 204
        self.text = b"no room"
        #: decides by the body
        self.status_of: Callable[[bytes], int] = lambda body: self.status
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []

    def documents(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]

    def bodies(self) -> list[Any]:
        """Returns the bodies of the messages; None for what is none, e.g. a test."""
        return [document.get("body") for document in self.documents()]


@contextmanager
def answering_endpoint() -> Iterator[AnsweringEndpoint]:
    class _Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.body()
            found.paths.append(self.path)
            found.got.append((dict(self.headers.items()), body))
            status = found.status_of(body)
            self.answer(status, b"" if status == 204 else found.text)

    with servers.http_server(local_server(_Handler)) as server:
        found = AnsweringEndpoint(server.server_port)
        yield found
