# SPDX-License-Identifier: Apache-2.0
"""Tickets: with one, the web console subscribes to one channel, as nobody.

JSON Web Tokens like those of others, with a key and an audience of their own.  They are good
for connecting within a minute; the connection then stays.
"""

from __future__ import annotations

import hmac
from typing import Any

import jwt

from zaqar_redis.auth import tokens

#: Who takes them; also the name of their key.
_AUDIENCE = "zaqar-redis-console"
_ALGORITHM = "HS256"
#: Seconds: enough for a slow network and for clocks of nodes that differ a little.
_LIFE = 60
#: Whatever the namespace says: what keeps a history tells what was missed, and who is in the
#: channel does not see who looks on.
_OVERRIDE = {
    "force_recovery": {"value": True},
    "force_positioning": {"value": True},
    "presence": {"value": False},
    "join_leave": {"value": False},
    "force_push_join_leave": {"value": False},
}


def secret(api_key: str) -> bytes:
    """The key of tickets where backends show *api_key*: all nodes have the same."""
    return hmac.digest(api_key.encode(), _AUDIENCE.encode(), "sha256")


def issue(secret: bytes, project: str, channel: str, now: float) -> str:
    """*now* in seconds since 1970."""
    claims: dict[str, Any] = {
        "sub": "",
        "aud": _AUDIENCE,
        "exp": int(now) + _LIFE,
        "expire_at": 0,  # of the connection: never
        "project": project,
        "info": {"name": "console"},
        "subs": {channel: {"override": _OVERRIDE}},
    }
    return jwt.encode(claims, secret, algorithm=_ALGORITHM, headers={"kid": _AUDIENCE})


class Verifier(tokens.Verifier):
    """Takes tickets beside the tokens that *settings* tell of; without a *secret*, none."""

    def __init__(self, settings: tokens.Settings, secret: bytes = b"") -> None:
        super().__init__(settings)
        self._tickets = tokens.Verifier(
            tokens.Settings(hmac=(secret,) if secret else (), audience=_AUDIENCE)
        )

    async def connection(self, token: str) -> tokens.Connection:
        chosen = self._tickets.connection if _is_ticket(token) else super().connection
        return await chosen(token)


def _is_ticket(token: str) -> bool:
    try:
        return jwt.get_unverified_header(token).get("kid") == _AUDIENCE
    except jwt.InvalidTokenError:
        return False
