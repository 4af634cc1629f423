# SPDX-License-Identifier: Apache-2.0
"""Who may use the server API and the console: whoever has the API key, or a credential."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable
from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import Request
from zaqar_redis.api.origins import AllowedOrigins
from zaqar_redis.api.queries import QueryReader
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import ADMIN, API_KEY, NONE, Identity, with_implied
from zaqar_redis.auth.strategy import project_header


class ApiKeySettings(Struct, frozen=True, rename=lambda field: f"api_{field}"):
    key: Annotated[
        str | None,
        rules.SECRET,
        "Key with which backends and operators use /api and the console, for every project; they "
        "may use credentials of [auth] strategy, too. Without it, and with strategy none, both "
        "refuse all requests.",
    ] = None
    insecure: Annotated[bool, "Allow /api and the console without a key; for development only."] = (
        False
    )


class _KeyQuery(Struct, frozen=True):
    api_key: str = ""


_read_query = QueryReader(_KeyQuery).read


#: Who has the key: an administrator of every project.
_KEY_HOLDER = Identity("", "api_key", with_implied(frozenset((ADMIN,))), strategy=API_KEY)


class ApiKeyChecks:
    """Checks who calls the server API or uses the console, and whether that is allowed.

    A caller has the key, or a credential of the service's strategies.  When insecure, everybody
    counts as a caller with the key, but pages of other origins.
    """

    def __init__(
        self, settings: ApiKeySettings, origins: AllowedOrigins, access: Access, project: str
    ) -> None:
        """*project*: of calls that name none by callers that belong to none."""
        self._settings = settings
        self._origins = origins
        self._authenticator = access.authenticator
        self._policy = access.policy
        self._project = project
        #: a route that it guards
        self.route = partial(ApiRoute, public=True, checked=False, guard=self.admit)
        self._challenge = ", ".join(filter(None, ("ApiKey", self._authenticator.challenge)))

    def admit(self, request: Request[Any, Any], action: str) -> Awaitable[None] | None:
        """Sets identity and project of a request, and asks the policy: a `Guard`.

        Raises Unauthenticated, Forbidden, Unavailable and BadQueue, and so does what is awaited.
        """
        if self._settings.insecure:
            # Else any page open in the operator's browser could call the API.
            self._origins.check(request.headers)
            self._authorize(_KEY_HOLDER, request, action)
            return None
        key = _given_key(request)
        if key:
            self._check_key(key)
            self._authorize(_KEY_HOLDER, request, action)
            return None
        found = self._authenticator.identify(request)
        if type(found) is not Identity:
            return self._admit_later(found, request, action)
        self._authorize(found, request, action)
        return None

    def authorize(self, request: Request[Any, Any], action: str, resource: str | None) -> None:
        """Raises Forbidden unless who sends the request may do this in its project.

        *resource*: None: whether they may do it to any.
        """
        self._policy.authorize(request.identity, action, request.project, resource)

    def allowed(self, request: Request[Any, Any]) -> list[str]:
        """Returns the rules by which who sends the request may act on something in its project."""

        def is_allowed(action: str) -> bool:
            try:
                self.authorize(request, action, None)
            except errors.Forbidden:
                return False
            return True

        return sorted(name for name in self._policy.rules if ":" in name and is_allowed(name))

    def _check_key(self, given: str) -> None:
        key = self._settings.key
        if not key or not hmac.compare_digest(given.encode(), key.encode()):
            raise self._unauthenticated("The API key is not valid.")

    async def _admit_later(self, found: Any, request: Request[Any, Any], action: str) -> None:
        self._authorize(await found, request, action)

    def _authorize(self, identity: Identity, request: Request[Any, Any], action: str) -> None:
        if identity.strategy == NONE:
            raise self._unauthenticated("The request has neither an API key nor a credential.")
        named = project_header(request.headers) or b""
        project = named.decode("latin-1") or identity.project or self._project
        request.identity = identity
        request.project = rules.project_id(project)
        request.is_foreign = identity.is_foreign_to(request.project)
        self._policy.authorize(identity, action, request.project, None)

    def _unauthenticated(self, why: str) -> errors.Unauthenticated:
        return errors.Unauthenticated(why=why, challenge=self._challenge)


def _given_key(request: Request[Any, Any]) -> str:
    kind, _, given = (request.header(b"authorization") or "").partition(" ")
    return (
        request.header(b"x-api-key")
        or (given.strip() if kind.lower() == "apikey" else "")
        or (_read_query(request.query_string).api_key if request.query_string else "")
    )
