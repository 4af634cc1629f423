# SPDX-License-Identifier: Apache-2.0
"""Checks before the handler of every request: who sends it, and whether to serve it.

The order of the checks is stock Zaqar's: signature, content type, Accept, credential,
Client-ID, project, queue name, policy, and then our quota.  They run only for paths that exist.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable
from typing import Any

from falcon.util.mediatypes import quality

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import JSON, Request
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import MEMBER, Identity, with_implied
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner
from zaqar_redis.auth.strategy import project_header
from zaqar_redis.service.quota_enforcer import QuotaEnforcer

_ACCEPTED = frozenset((b"*/*", b"application/json"))


class RequestChecks:
    """The checks; the fast path and the ASGI path run them."""

    def __init__(
        self,
        limits: rules.Limits,
        signer: UrlSigner,
        access: Access,
        quotas: QuotaEnforcer | None = None,
    ) -> None:
        """*quotas*: None: requests are not limited."""
        self._limits = limits
        self._signer = signer
        self._authenticator = access.authenticator
        self._policy = access.policy
        self._quotas = quotas
        # A client sends many requests.
        self._names = functools.lru_cache(maxsize=4096)(self._check_names)

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

    def admit(
        self,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        project: str | None = None,
    ) -> Awaitable[None] | None:
        """Sets identity, client and project of a request, asks the policy, and counts it.

        *action*: None for a method that its path does not have.  *queue*, *project*: those in the
        path; the policy is asked about that project, and the request counts for its own.
        Raises what is wrong, and so does what is awaited; it is None when nobody has to be asked
        who sends the request.
        """
        headers = request.headers
        if b"url-signature" in headers:  # the signature was checked: it says what is allowed
            identity = _signed_identity(project_header(headers))
        else:
            found = self._authenticator.identify(headers)
            if type(found) is not Identity:
                return self._admit_later(found, request, action, queue, project)
            identity = found
        self._authorize(identity, request, action, queue, project)
        return None

    async def _admit_later(
        self,
        found: Any,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        project: str | None,
    ) -> None:
        self._authorize(await found, request, action, queue, project)

    def _authorize(
        self,
        identity: Identity,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        project: str | None,
    ) -> None:
        headers = request.headers
        request.identity = identity
        request.project, request.client = self._names(
            headers.get(b"client-id"), project_header(headers), identity.project
        )
        if queue is not None:
            rules.queue_name(queue)
        if action is not None:
            target = request.project if project is None else project
            self._policy.authorize(identity, action, target, queue or "")
        quotas = self._quotas
        if quotas is not None and quotas.limits_requests:
            quotas.check_request(request.project)

    def _check_names(
        self, client: bytes | None, project: bytes | None, own_project: str
    ) -> tuple[str, str]:
        known = rules.client_id(_text(client), self._limits)
        named = own_project or None if project is None else _text(project)
        return rules.project_id(named), known

    def _check_signature(self, headers: dict[bytes, bytes], method: str, path: str) -> None:
        def shown(name: bytes) -> str:
            return _text(headers.get(name)) or ""

        # The same values that the handlers use: if a header comes twice, the check and
        # the handler must not read different ones.
        signed = SignedUrl(
            paths=_split(shown(b"url-paths")),
            methods=_split(shown(b"url-methods")),
            project=_text(project_header(headers)) or "",
            expires=shown(b"url-expires"),
            signature=shown(b"url-signature"),
        )
        self._signer.check(signed, method, path)


@functools.lru_cache(maxsize=4096)
def _signed_identity(project: bytes | None) -> Identity:
    roles = with_implied(frozenset((MEMBER,)))
    return Identity(_text(project) or "", "signed-url", roles, strategy="signed-url")


def _accepts_json(accept: bytes) -> bool:
    try:
        return quality(JSON, accept.decode("latin-1")) > 0
    except ValueError:
        return False


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]
