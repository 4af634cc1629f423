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
        """Records a request that is answered with *status*."""
        if self._log is None:
            return
        self._log.record(
            identity=request.identity,
            action=action,
            method=method,
            path=request.path,
            target_project=request.project,
            status=status,
            request_id=request_id,
            global_request_id=request.global_id,
        )
