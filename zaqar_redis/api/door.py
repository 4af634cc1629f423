# SPDX-License-Identifier: Apache-2.0
"""What every request passes before its handler: who asks, and may it be served.

The order of the checks is stock Zaqar's: signature, content type, Accept,
Client-ID, project, queue name.  They run only for paths that exist.
"""

from __future__ import annotations

import random
from typing import Any

import falcon.asgi

from zaqar_redis import errors, rules
from zaqar_redis.auth.signed import Signed, Signer

_REQUEST_ID = "X-OpenStack-Request-ID"
_ACCEPTED = frozenset(("*/*", "application/json"))


class Door:
    """Falcon middleware; leaves ``project`` and ``client`` in ``req.context``."""

    def __init__(self, limits: rules.Limits, signer: Signer) -> None:
        self._limits = limits
        self._signer = signer

    async def process_request(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response
    ) -> None:
        resp.set_header(_REQUEST_ID, _request_id())

    async def process_resource(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        params: dict[str, Any],
    ) -> None:
        header = req.get_header
        if resource is None:
            return
        if header("URL-Signature") is not None:
            self._check_signature(req)
        if (
            header("Content-Type") or ""
        ).lower() == "application/x-www-form-urlencoded" and req.content_length:
            raise errors.BadContentType
        accept = header("Accept")
        if (
            accept is not None
            and accept not in _ACCEPTED
            and not req.client_accepts("application/json")
        ):
            raise errors.NotAcceptable
        if getattr(resource, "open", False):
            return
        req.context.client = rules.client_id(header("Client-ID"), self._limits)
        req.context.project = rules.project_id(_project(req))
        if "queue" in params:
            rules.queue_name(params["queue"])

    def _check_signature(self, req: falcon.asgi.Request) -> None:
        self._signer.check(
            Signed(
                paths=_split(req.get_header("URL-Paths")),
                methods=_split(req.get_header("URL-Methods")),
                project=_project(req) or "",
                expires=req.get_header("URL-Expires") or "",
                signature=req.get_header("URL-Signature") or "",
            ),
            req.method,
            req.path,
        )


def _project(req: falcon.asgi.Request) -> str | None:
    project = req.get_header("X-Project-ID")
    if project is None:
        project = req.get_header("X-Tenant-ID")
    return req.get_header("X-Tenant") if project is None else project


def _split(header: str | None) -> list[str]:
    return [item.strip() for item in (header or "").split(",") if item.strip()]


def _request_id() -> str:
    """``req-`` and a UUID: a name for log lines, not a secret."""
    digits = f"{random.getrandbits(128):032x}"
    return f"req-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
