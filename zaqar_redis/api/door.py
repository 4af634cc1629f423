# SPDX-License-Identifier: Apache-2.0
"""What every request passes before its handler: who asks, and may it be served.

The order of the checks is stock Zaqar's: signature, content type, Accept,
Client-ID, project, queue name.  They run only for paths that exist.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import falcon.asgi

from zaqar_redis import errors, rules
from zaqar_redis.auth.signed import Signed, Signer

_REQUEST_ID = "X-OpenStack-Request-ID"
_ACCEPTED = frozenset((b"*/*", b"application/json"))


class Door:
    """Falcon middleware; leaves ``project`` and ``client`` in ``req.context``."""

    def __init__(self, limits: rules.Limits, signer: Signer) -> None:
        self._limits = limits
        self._signer = signer
        self._request_ids = _request_ids()

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.set_header(_REQUEST_ID, next(self._request_ids))

    async def process_resource(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        params: dict[str, Any],
    ) -> None:
        if resource is None or req.method == "OPTIONS":
            return  # API: what a resource allows is told to everybody
        # Straight from the server: falcon decodes the name and the value at each look.
        headers: dict[bytes, bytes] = dict(req.scope["headers"])
        if b"url-signature" in headers:
            self._check_signature(headers, req.method, req.path)
        content_type = headers.get(b"content-type", b"").lower()
        if content_type == b"application/x-www-form-urlencoded" and req.content_length:
            raise errors.BadContentType
        accept = headers.get(b"accept", b"*/*")
        if accept not in _ACCEPTED and not req.client_accepts("application/json"):
            raise errors.NotAcceptable
        if getattr(resource, "open", False):
            return
        req.context.client = rules.client_id(_text(headers.get(b"client-id")), self._limits)
        req.context.project = rules.project_id(_project(headers))
        if "queue" in params:
            rules.queue_name(params["queue"])

    def _check_signature(self, headers: dict[bytes, bytes], method: str, path: str) -> None:
        def shown(name: bytes) -> str:
            return _text(headers.get(name)) or ""

        # Of the very headers that the handlers go by: two readings of a header that
        # comes twice would be a way in.
        signed = Signed(
            paths=_split(shown(b"url-paths")),
            methods=_split(shown(b"url-methods")),
            project=_project(headers) or "",
            expires=shown(b"url-expires"),
            signature=shown(b"url-signature"),
        )
        self._signer.check(signed, method, path)


def _project(headers: dict[bytes, bytes]) -> str | None:
    """API: X-Project-ID, or what oslo.context takes in its place."""
    for name in (b"x-project-id", b"x-tenant-id", b"x-tenant"):
        if name in headers:
            return _text(headers[name])
    return None


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]


def _request_ids() -> Iterator[str]:
    """``req-`` and a UUID each: a name for log lines, not a secret.

    A random half for the process and a counter: a random one for each request
    would cost more than to find its route.
    """
    process = f"{random.getrandbits(64):016x}"
    prefix = f"req-{process[:8]}-{process[8:12]}-{process[12:]}"
    for number in itertools.count(1):
        digits = f"{number:016x}"
        yield f"{prefix}-{digits[:4]}-{digits[4:]}"
