# SPDX-License-Identifier: Apache-2.0
"""Tickets: with one, the web console subscribes to one channel anonymously.

JSON Web Tokens like those of other clients, with a key and an audience of their own.  A ticket
expires after a minute; a connection made with it after five, unless another ticket renews it: so
the console's user needs a valid credential all the time.
"""

from __future__ import annotations

import hmac
from typing import Any

import jwt

from zaqar_redis.auth import tokens
from zaqar_redis.auth.access import Access

#: The audience of tickets; also the id of their key.
_AUDIENCE = "zaqar-redis-console"
_ALGORITHM = "HS256"
#: Seconds: enough for a slow network and for small clock differences between nodes.
_TTL = 60
#: Seconds of a connection: browsers let the timers of hidden pages run once a minute only.
_CONNECTION_TTL = 300
#: Overrides of the namespace: the console recovers missed publications where there is a
#: history, and clients in the channel do not see it.
_OVERRIDE = {
    "force_recovery": {"value": True},
    "force_positioning": {"value": True},
    "presence": {"value": False},
    "join_leave": {"value": False},
    "force_push_join_leave": {"value": False},
}


def secret(api_key: str) -> bytes:
    """Returns the key of tickets, derived from the server API's key: the same on all nodes."""
    return hmac.digest(api_key.encode(), _AUDIENCE.encode(), "sha256")


def issue(secret: bytes, project: str, channel: str, now: float) -> str:
    """Returns a ticket; *now* in seconds since 1970."""
    claims: dict[str, Any] = {
        "sub": "",
        "aud": _AUDIENCE,
        "exp": int(now) + _TTL,
        "expire_at": int(now) + _CONNECTION_TTL,
        "project": project,
        "info": {"name": "console"},
        "subs": {channel: {"override": _OVERRIDE}},
    }
    return jwt.encode(claims, secret, algorithm=_ALGORITHM, headers={"kid": _AUDIENCE})


class TicketVerifier(tokens.TokenVerifier):
    """A verifier of tokens by *settings*, and of tickets; without a *secret*, of no tickets."""

    def __init__(
        self, settings: tokens.TokenSettings, project: str, access: Access, secret: bytes = b""
    ) -> None:
        super().__init__(settings, project, access)
        self._tickets = tokens.TokenVerifier(
            tokens.TokenSettings(hmac_secret_key=secret, audience=_AUDIENCE, any_project=True)
        )

    async def connection(self, token: str) -> tokens.ConnectionClaims:
        chosen = self._tickets.connection if _is_ticket(token) else super().connection
        return await chosen(token)


def _is_ticket(token: str) -> bool:
    try:
        return jwt.get_unverified_header(token).get("kid") == _AUDIENCE
    except jwt.InvalidTokenError:
        return False
