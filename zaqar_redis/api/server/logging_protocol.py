# SPDX-License-Identifier: Apache-2.0
"""The fast path with an access log; a worker has this protocol or the one without."""

from __future__ import annotations

import time

from zaqar_redis.api import access_log
from zaqar_redis.api.exchange import Answer
from zaqar_redis.api.server.hot_request import HotRequest
from zaqar_redis.api.server.protocol import HttpProtocol


class LoggingProtocol(HttpProtocol):
    def _line_up(self, request: HotRequest) -> None:
        # Not the loop's clock, which stands still while it answers.
        request.started_at = time.monotonic()
        super()._line_up(request)

    def _encode(self, request: HotRequest, answer: Answer, request_id: str) -> bytes:
        access_log.write(
            request.method,
            request.path,
            answer.status,
            time.monotonic() - request.started_at,
            peer=access_log.peer_of(self.client),
            request=request,
            request_id=request_id,
        )
        return super()._encode(request, answer, request_id)
