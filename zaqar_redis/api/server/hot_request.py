# SPDX-License-Identifier: Apache-2.0
"""A request on the fast path, as uvicorn's protocol sees it: one of its cycles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.keyspace.script import EagerRun, Steps


class _NoEvent:
    """In the place of an event that nobody waits for."""

    def set(self) -> None:
        pass


class HotRequest(Request[Any, Any]):
    """A request for a hot route, with the state that uvicorn asks a cycle for."""

    message_event = _NoEvent()
    keep_alive = True
    response_complete = False
    disconnected = False
    #: all requests before it are answered
    has_turn = True
    #: by the monotonic clock; only with an access log
    started_at = 0.0
    run: EagerRun[Answer] | None = None
    _disconnected_event: asyncio.Event | None = None

    def __init__(
        self,
        endpoint: Endpoint,
        params: tuple[str, ...],
        path: str,
        query_string: str,
        headers: dict[bytes, bytes],
        body: bytes | None = None,
    ) -> None:
        """*body*: None while it is being read."""
        super().__init__(path, query_string, headers, body or b"")
        self.endpoint = endpoint
        self.params = params
        self.is_complete = body is not None

    @property
    def method(self) -> str:
        return self.endpoint.route.method

    @property
    def raw_path(self) -> str:
        return self.path  # paths of hot routes have nothing to decode

    async def read_body(self) -> bytes:
        return self.data

    def watch_disconnect(self) -> asyncio.Event:
        self._disconnected_event = asyncio.Event()
        return self._disconnected_event

    def disconnect(self) -> None:
        self.disconnected = True
        if self._disconnected_event is not None:
            self._disconnected_event.set()
        elif self.run is not None:
            self.run.cancel()


def answer_admitted(admission: Awaitable[None], request: HotRequest) -> Steps[Answer]:
    """Answers a request once *admission* has found out who sends it."""
    yield admission
    answer: Answer = yield request.endpoint(request, request.params)
    return answer
