# SPDX-License-Identifier: Apache-2.0
"""Checks before the handler of every request: client, project, and whether to serve it.

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
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner

_REQUEST_ID = "X-OpenStack-Request-ID"
_ACCEPTED = frozenset((b"*/*", b"application/json"))


class RequestMiddleware:
    """Falcon middleware; leaves ``project`` and ``client`` in ``req.context``."""

    def __init__(self, limits: rules.Limits, signer: UrlSigner) -> None:
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
            return  # API: everybody may ask for the allowed methods
        # Straight from the server: falcon decodes name and value at each access.
        headers: dict[bytes, bytes] = dict(req.scope["headers"])
        if b"url-signature" in headers:
            self._check_signature(headers, req.method, req.path)
        content_type = headers.get(b"content-type", b"").lower()
        if content_type == b"application/x-www-form-urlencoded" and req.content_length:
            raise errors.BadContentType
        accept = headers.get(b"accept", b"*/*")
        if accept not in _ACCEPTED and not req.client_accepts("application/json"):
            raise errors.NotAcceptable
        if getattr(resource, "public", False):
            return
        req.context.client = rules.client_id(_text(headers.get(b"client-id")), self._limits)
        req.context.project = rules.project_id(_project(headers))
        if "queue" in params:
            rules.queue_name(params["queue"])

    def _check_signature(self, headers: dict[bytes, bytes], method: str, path: str) -> None:
        def shown(name: bytes) -> str:
            return _text(headers.get(name)) or ""

        # The same values that the handlers use: if a header comes twice, the check and
        # the handler must not read different ones.
        signed = SignedUrl(
            paths=_split(shown(b"url-paths")),
            methods=_split(shown(b"url-methods")),
            project=_project(headers) or "",
            expires=shown(b"url-expires"),
            signature=shown(b"url-signature"),
        )
        self._signer.check(signed, method, path)


def _project(headers: dict[bytes, bytes]) -> str | None:
    """API: X-Project-ID, or the headers that oslo.context accepts in its place."""
    for name in (b"x-project-id", b"x-tenant-id", b"x-tenant"):
        if name in headers:
            return _text(headers[name])
    return None


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]


def _request_ids() -> Iterator[str]:
    """Yields ``req-`` and a UUID: a name for log lines, not a secret.

    A random half for the process and a counter: random digits for each request
    would cost more than routing it.
    """
    process = f"{random.getrandbits(64):016x}"
    prefix = f"req-{process[:8]}-{process[8:12]}-{process[12:]}"
    for number in itertools.count(1):
        digits = f"{number:016x}"
        yield f"{prefix}-{digits[:4]}-{digits[4:]}"
