# SPDX-License-Identifier: Apache-2.0
"""Requests in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zaqar_redis.api.exchange import Request
from zaqar_redis.auth.audit import AuditLog


class RequestAudit:
    def __init__(self, log: AuditLog | None) -> None:
        """*log*: None: nothing is recorded."""
        self._log = log
        #: returns whether requests with an action are recorded
        self.covers: Callable[[str], bool] = log.covers if log is not None else lambda action: False

    def record(
        self, action: str, method: str, request: Request[Any, Any], status: int, request_id: str
    ) -> None:
        """Records a request that is answered with *status*, and the calls in it."""
        if self._log is None:
            return
        calls = [call for call in request.calls if request.is_foreign or self.covers(call[0])]
        for each, path, outcome in ((action, request.path, status), *calls):
            self._log.record(
                identity=request.identity,
                action=each,
                method=method,
                path=path,
                target_project=request.target or request.project,
                status=outcome,
                request_id=request_id,
                global_request_id=request.global_id,
            )
