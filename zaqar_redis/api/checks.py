# SPDX-License-Identifier: Apache-2.0
"""Checks before the handler of every request: client, project, and whether to serve it.

The order of the checks is stock Zaqar's: signature, content type, Accept,
Client-ID, project, queue name.  They run only for paths that exist.
"""

from __future__ import annotations

from falcon.util.mediatypes import quality

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import JSON
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner

_ACCEPTED = frozenset((b"*/*", b"application/json"))


class RequestChecks:
    """The checks; either way of a request runs them."""

    def __init__(self, limits: rules.Limits, signer: UrlSigner) -> None:
        self._limits = limits
        self._signer = signer

    def check_head(self, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        """Raises what is wrong with a request, whoever sends it."""
        if b"url-signature" in headers:
            self._check_signature(headers, method, path)
        if headers.get(
            b"content-type", b""
        ).lower() == b"application/x-www-form-urlencoded" and int(
            headers.get(b"content-length", 0)
        ):
            raise errors.BadContentType
        accept = headers.get(b"accept")
        if accept and accept not in _ACCEPTED and not _accepts_json(accept):
            raise errors.NotAcceptable

    def identify(self, headers: dict[bytes, bytes], queue: str | None) -> tuple[str, str]:
        """Returns project and client.  Raises what is wrong with them, or the queue's name."""
        client = rules.client_id(_text(headers.get(b"client-id")), self._limits)
        project = rules.project_id(_project(headers))
        if queue is not None:
            rules.queue_name(queue)
        return project, client

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


def _accepts_json(accept: bytes) -> bool:
    try:
        return quality(JSON, accept.decode("latin-1")) > 0
    except ValueError:
        return False


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]
