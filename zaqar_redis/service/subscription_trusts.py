# SPDX-License-Identifier: Apache-2.0
"""Trusts of users, for subscribers that get a token with each message.

A subscription has the id of one in the option ``trust_id``.  If the service has made the trust, the
option ``trust_granted`` says so, and the trust ends with the subscription.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.service.subscription_options import TRUST_GRANTED

_PREFIX = "trust+"
_ID = "trust_id"


class TrustGrants(Protocol):
    """See `zaqar_redis.notify.trusts`."""

    async def grant(self, token: str | None, project: str, ttl: int, trust_id: str | None) -> str:
        """Raises BadRequest, Forbidden, Unavailable."""

    async def delete(self, trust_id: str) -> None: ...


class SubscriptionTrusts(ComposedVerbs):
    def __init__(self, grants: TrustGrants) -> None:
        self._grants = grants

    @verb
    def grant(
        self, project: str, subscriber: str, options: dict[str, Any], *, token: str | None, ttl: int
    ) -> Steps[dict[str, Any]]:
        """Returns the options with the trust that the subscriber needs.

        *token*: of the request.  *options*: see `without_granted`.  *ttl*: seconds that the
        subscription lasts.  Raises BadRequest without a token, Forbidden, Unavailable.
        """
        if not needs_trust(subscriber):
            return options
        given = options.get(_ID)
        trust: str = yield self._grants.grant(token, project, ttl, given)
        return options | {_ID: trust} | ({TRUST_GRANTED: True} if given is None else {})

    @verb
    def end(self, subscriber: str, options: Mapping[str, Any]) -> Steps[None]:
        """Deletes the trust in options that are not stored any more, if the service has made it."""
        trust = _granted(subscriber, options)
        if trust is not None:
            yield self._grants.delete(trust)


def needs_trust(subscriber: str) -> bool:
    return subscriber.startswith(_PREFIX)


def without_granted(
    options: Mapping[str, Any], subscriber: str, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns options that were given, without the trust that the service has made before.

    *subscriber*, *stored*: of the subscription until now.  Nobody can say of another trust that the
    service has made it, and so have it deleted.
    """
    granted = _granted(subscriber, stored)
    kept = {name: value for name, value in options.items() if name != TRUST_GRANTED}
    if granted is not None and kept.get(_ID) == granted:
        del kept[_ID]
    return kept


def _granted(subscriber: str, options: Mapping[str, Any]) -> str | None:
    trust = options.get(_ID)
    is_ours = needs_trust(subscriber) and options.get(TRUST_GRANTED) is True
    return trust if is_ours and isinstance(trust, str) else None
