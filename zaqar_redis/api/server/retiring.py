# SPDX-License-Identifier: Apache-2.0
"""Connections of a worker that another one replaces: each is answered to its end.

A connection becomes such a one by its class: while no worker retires, no request asks for it.
"""

from __future__ import annotations

from typing import Any

from zaqar_redis.api.exchange import Answer
from zaqar_redis.api.server.hot_request import HotRequest
from zaqar_redis.api.server.logging_protocol import LoggingProtocol
from zaqar_redis.api.server.protocol import HttpProtocol


class RetiringProtocol(HttpProtocol):
    """Closes with the next answer behind which no request waits."""

    def retire(self) -> None:
        self._output.is_lingering = True
        cycle: Any = self._current or self.cycle
        if cycle is None or cycle.response_complete:
            return
        # What it calls at its end was looked up when it began.
        cycle.keep_alive = cycle.keep_alive and bool(self.pipeline)
        cycle.on_response = self.on_response_complete

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        cycle.keep_alive = cycle.keep_alive and bool(self.pipeline)
        cycle.on_response = self.on_response_complete
        super()._start_asgi_task(cycle, app)

    def _on_end(
        self, request: HotRequest, answer: Answer | None, error: BaseException | None
    ) -> None:
        request.keep_alive = bool(self.pipeline)
        super()._on_end(request, answer, error)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._ignore_what_follows()

    def shutdown(self) -> None:
        super().shutdown()
        self._ignore_what_follows()

    def _ignore_what_follows(self) -> None:
        """What comes behind the end was not begun: its client sends it again, to a new worker."""
        if self.transport.is_closing() and not self._output.unbuffered.is_closing():
            self._rejection = b""
            self.pipeline.clear()
            self.flow.resume_reading()  # so that the client's own end is noticed


class RetiringLoggingProtocol(RetiringProtocol, LoggingProtocol):
    """The same, with an access log."""


def retire(connection: HttpProtocol) -> None:
    """Closes the connection when its requests are answered, or `shutdown` is called."""
    if isinstance(connection, RetiringProtocol):
        return
    logs = isinstance(connection, LoggingProtocol)
    connection.__class__ = RetiringLoggingProtocol if logs else RetiringProtocol
    connection.retire()  # type: ignore[attr-defined]  # of its new class
