# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks with tokens."""

from __future__ import annotations

from http.server import ThreadingHTTPServer
from typing import cast

from tests.support.http_handlers import QuietHandler


class TokenReceiver(ThreadingHTTPServer):
    """A real endpoint, which records paths and tokens, and can refuse some of them once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ReceiverHandler)
        self.uri = f"http://127.0.0.1:{self.server_port}/hook"
        self.received: list[tuple[str, str]] = []
        #: answers to come, before 204
        self.statuses: list[int] = []


class _ReceiverHandler(QuietHandler):
    def do_POST(self) -> None:
        receiver = cast(TokenReceiver, self.server)
        self.body()
        receiver.received.append((self.path, self.headers["X-Auth-Token"]))
        self.answer(receiver.statuses.pop(0) if receiver.statuses else 204)
