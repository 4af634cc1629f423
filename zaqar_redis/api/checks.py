# SPDX-License-Identifier: Apache-2.0
"""Checks before the handler of every request: who sends it, and whether to serve it.

The order of the checks is stock Zaqar's: signature, content type, Accept, credential,
Client-ID, project, queue name, policy, and then our quota and what is in flight.  They run only
for paths that exist.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Mapping
from typing import Any

from falcon.util.mediatypes import quality

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import JSON, Request
from zaqar_redis.api.request_heads import has_content
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import ADMIN, MEMBER, NONE, SIGNED_URL, Identity, with_implied
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner
from zaqar_redis.auth.strategy import project_header
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.requests_in_flight import RequestsInFlight

_ACCEPTED = frozenset((b"*/*", b"application/json"))


#: Requests that a process remembers to have admitted: some MB.
_ADMITTED_MAX = 16_384
_Request = tuple[Identity | None, str | None, bytes | None, bytes | None, object]


class RequestChecks:
    """The checks; the fast path and the ASGI path run them."""

    def __init__(
        self,
        limits: rules.Limits,
        signer: UrlSigner,
        access: Access,
        in_flight: RequestsInFlight,
        quotas: QuotaEnforcer | None = None,
    ) -> None:
        """*quotas*: None: projects may send as many requests a second as they like."""
        self.in_flight = in_flight
        self._limits = limits
        self._signer = signer
        self._identify = access.authenticator.identify
        self._is_open = access.authenticator.is_open
        self._policy = access.policy
        self._quotas = quotas
        #: identity, project and client by identity (None without authentication), action, headers
        #: of both, and, if it has rights, queue; not of administrators in other projects, who are
        #: in the audit log
        self._admitted: dict[_Request, tuple[Identity, str, str]] = {}

    def check_head(self, method: str, request: Request[Any, Any], *, is_raw: bool = False) -> None:
        """Raises what is wrong with a request, whoever sends it.

        *is_raw*: its answer may be a message's body, of any type.
        """
        headers = request.headers
        if b"url-signature" in headers:
            self._check_signature(headers, method, request.path)
        kind = headers.get(b"content-type", b"").lower()
        if kind == b"application/x-www-form-urlencoded" and has_content(headers):
            raise errors.BadContentType
        if not is_raw and not accepts_json(headers):
            raise errors.NotAcceptable

    def admit(
        self,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        target: str | None = None,
    ) -> Awaitable[None] | None:
        """Sets identity, client and project of a request, asks the policy, and counts it.

        *action*: None for a method that its path does not have.  *queue*: the name in the path,
        which the caller checks to be one.  *target*: the project in the path, which the policy is
        asked about; None: there is none, so it is that of the request.  The caller must `release`
        the request in the end.  Raises what is wrong, TooManyInFlight when there are too many, and
        so does what is awaited; it is None when nobody has to be asked who sends the request.
        """
        headers = request.headers
        if b"url-signature" in headers:  # the signature was checked: it says what is allowed
            found: Any = _signed_identity(project_header(headers))
        elif self._is_open:
            found = None  # the headers below say it all, and are looked up once
        else:
            found = self._identify(request)
            if type(found) is not Identity:
                return self._admit_later(found, request, action, queue, target)
        client, project = headers.get(b"client-id"), project_header(headers)
        # The name of the queue matters to rights alone.
        about = found.rights and queue if found else ()
        known = self._admitted.get((found, action, client, project, about))
        if known is None or target is not None:
            identity: Any = self._identify(request) if found is None else found
            self._authorize(identity, request, action, queue, target)
        else:
            request.identity, request.project, request.client = known
            quotas = self._quotas
            if quotas is not None and quotas.limits_requests:
                quotas.check_request(request.project)
            self.in_flight.enter(request.project)
            request.counted_for = request.project
        return None

    def release(self, request: Request[Any, Any]) -> None:
        """Notes that a request is answered, if it was admitted."""
        if request.counted_for is not None:
            self.in_flight.leave(request.counted_for)
            request.counted_for = None

    async def _admit_later(
        self,
        found: Any,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        target: str | None,
    ) -> None:
        self._authorize(await found, request, action, queue, target)

    def _authorize(
        self,
        identity: Identity,
        request: Request[Any, Any],
        action: str | None,
        queue: str | None,
        target: str | None,
    ) -> None:
        headers = request.headers
        request.identity = identity
        client, project = headers.get(b"client-id"), project_header(headers)
        request.client = rules.client_id(_text(client), self._limits)
        named = identity.project or None if project is None else _text(project)
        if named is None and identity.strategy != NONE and ADMIN not in identity.roles:
            raise errors.Forbidden(why="The credential belongs to no project.")
        request.project = rules.project_id(named)
        request.target = target or ""
        request.is_foreign = identity.is_foreign_to(target or request.project)
        if target is not None and action is not None:
            self._policy.authorize(identity, action, target)
        elif action is not None:
            self._policy.authorize(identity, action, request.project, queue or "")
            if not request.is_foreign:
                if len(self._admitted) == _ADMITTED_MAX:
                    self._admitted.clear()
                asked = None if identity.strategy == NONE else identity
                key = asked, action, client, project, identity.rights and queue
                self._admitted[key] = identity, request.project, request.client
        quotas = self._quotas
        if quotas is not None and quotas.limits_requests:
            quotas.check_request(request.project)
        self.in_flight.enter(request.project)
        request.counted_for = request.project

    def forget(self) -> None:
        """Forgets who was admitted: the policy may have changed."""
        self._admitted.clear()

    def _check_signature(self, headers: dict[bytes, bytes], method: str, path: str) -> None:
        def shown(name: bytes) -> str:
            return _text(headers.get(name)) or ""

        # The same values that the handlers use.
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
    return Identity(_text(project) or "", SIGNED_URL, roles, strategy=SIGNED_URL)


def accepts_json(headers: Mapping[bytes, bytes]) -> bool:
    accept = headers.get(b"accept")
    return not accept or accept in _ACCEPTED or accepts(accept, JSON)


def accepts(accept: bytes, kind: str) -> bool:
    """Returns whether a header Accept allows a media type."""
    try:
        return quality(kind, accept.decode("latin-1")) > 0
    except ValueError:
        return False


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _split(header: str) -> list[str]:
    return [item.strip() for item in header.split(",") if item.strip()]
