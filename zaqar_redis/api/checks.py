# SPDX-License-Identifier: Apache-2.0
"""Checks before the handler of every request: client, project, and whether to serve it.

The order of the checks is stock Zaqar's: signature, content type, Accept,
Client-ID, project, queue name.  They run only for paths that exist.
"""

from __future__ import annotations

import functools
from typing import Any

from falcon.util.mediatypes import quality

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import JSON, Request
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner

_ACCEPTED = frozenset((b"*/*", b"application/json"))


class RequestChecks:
    """The checks; the fast path and the ASGI path run them."""

    def __init__(self, limits: rules.Limits, signer: UrlSigner) -> None:
        self._limits = limits
        self._signer = signer
        # A client sends many requests.
        self._identity = functools.lru_cache(maxsize=4096)(self._check_identity)

    def check_head(self, method: str, request: Request[Any, Any]) -> None:
        """Raises what is wrong with a request, whoever sends it."""
        headers = request.headers
        if b"url-signature" in headers:
            self._check_signature(headers, method, request.path)
        if headers.get(
            b"content-type", b""
        ).lower() == b"application/x-www-form-urlencoded" and int(
            headers.get(b"content-length", 0)
        ):
            raise errors.BadContentType
        accept = headers.get(b"accept")
        if accept and accept not in _ACCEPTED and not _accepts_json(accept):
            raise errors.NotAcceptable

    def identify(self, request: Request[Any, Any]) -> None:
        """Sets project and client of a request.  Raises what is wrong with them."""
        headers = request.headers
        request.project, request.client = self._identity(
            headers.get(b"client-id"), _project(headers)
        )

    def _check_identity(self, client: bytes | None, project: bytes | None) -> tuple[str, str]:
        known = rules.client_id(_text(client), self._limits)
        return rules.project_id(_text(project)), known

    def _check_signature(self, headers: dict[bytes, bytes], method: str, path: str) -> None:
        def shown(name: bytes) -> str:
            return _text(headers.get(name)) or ""

        # The same values that the handlers use: if a header comes twice, the check and
        # the handler must not read different ones.
        signed = SignedUrl(
            paths=_split(shown(b"url-paths")),
            methods=_split(shown(b"url-methods")),
            project=_text(_project(headers)) or "",
            expires=shown(b"url-expires"),
            signature=shown(b"url-signature"),
        )
        self._signer.check(signed, method, path)


def _project(headers: dict[bytes, bytes]) -> bytes | None:
    """API: X-Project-ID, or the headers that oslo.context accepts in its place."""
    for name in (b"x-project-id", b"x-tenant-id", b"x-tenant"):
        if name in headers:
            return headers[name]
    return None


def _accepts_json(accept: bytes) -> bool:
    try:
        return quality(JSON, accept.decode("latin-1")) > 0
    except ValueError:
        return False


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]
