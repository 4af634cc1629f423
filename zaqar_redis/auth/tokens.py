# SPDX-License-Identifier: Apache-2.0
"""Tokens of channels: who connects, and what they may subscribe to.

JSON Web Tokens with the claims of Centrifugo's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

import jwt
import msgspec

#: By the family of their keys.
_HMAC = ("HS256", "HS384", "HS512")
_RSA = ("RS256", "RS384", "RS512")
_ECDSA = ("ES256", "ES384", "ES512")
_EDDSA = ("EdDSA",)


class Invalid(Exception):
    """It is no token of ours."""


class Expired(Exception):
    """It was."""


class Settings(msgspec.Struct, frozen=True):
    #: secrets, the first of which signs now; the others did
    hmac: tuple[str | bytes, ...] = ()
    #: public keys, PEM
    rsa: str = ""
    ecdsa: str = ""
    ed25519: str = ""
    #: where keys are published
    jwks_url: str = ""
    audience: str = ""
    issuer: str = ""
    user_claim: str = "sub"
    project_claim: str = "project"


class Granted(msgspec.Struct, frozen=True):
    """A subscription that a token gives; *override* by option."""

    info: bytes = b""
    data: bytes = b""
    override: dict[str, bool] = {}


class Connection(msgspec.Struct, frozen=True):
    """*expire_at* in seconds since 1970; 0: never."""

    user: str
    #: whose channels it sees; empty: those that the service is for
    project: str = ""
    expire_at: int = 0
    info: bytes = b""
    subs: dict[str, Granted] = {}


class Subscription(msgspec.Struct, frozen=True):
    user: str
    channel: str
    client: str = ""
    expire_at: int = 0
    info: bytes = b""
    data: bytes = b""
    override: dict[str, bool] = {}


class Verifier:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys: list[tuple[Any, Sequence[str]]] = [
            *((secret, _HMAC) for secret in settings.hmac if secret),
            *(
                (key, names)
                for key, names in (
                    (settings.rsa, _RSA),
                    (settings.ecdsa, _ECDSA),
                    (settings.ed25519, _EDDSA),
                )
                if key
            ),
        ]
        self._jwks = jwt.PyJWKClient(settings.jwks_url) if settings.jwks_url else None

    async def connection(self, token: str) -> Connection:
        """Raises Invalid, Expired."""
        claims = await self._claims(token)
        if "channel" in claims:
            raise Invalid  # one for a subscription
        subs = _subs(claims)
        return Connection(
            user=str(claims.get(self._settings.user_claim, "")),
            project=str(claims.get(self._settings.project_claim, "")),
            expire_at=_expiry(claims),
            info=_payload(claims, "info"),
            subs=subs,
        )

    async def subscription(self, token: str) -> Subscription:
        """Raises Invalid, Expired."""
        claims = await self._claims(token)
        channel = claims.get("channel")
        if not isinstance(channel, str) or not channel:
            raise Invalid
        return Subscription(
            user=str(claims.get(self._settings.user_claim, "")),
            channel=channel,
            client=str(claims.get("client", "")),
            expire_at=_expiry(claims),
            info=_payload(claims, "info"),
            data=_payload(claims, "data"),
            override=_override(claims),
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        options: Any = {
            "verify_aud": bool(self._settings.audience),
            "verify_iat": False,  # as Centrifugo: a clock that is a little ahead does no harm
            "verify_sub": False,
        }
        for key, algorithms in await self._keys_for(token):
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=list(algorithms),
                    audience=self._settings.audience or None,
                    issuer=self._settings.issuer or None,
                    options=options,
                )
            except jwt.ExpiredSignatureError as error:
                raise Expired from error
            except (jwt.InvalidTokenError, ValueError, TypeError):
                continue
        raise Invalid

    async def _keys_for(self, token: str) -> Sequence[tuple[Any, Sequence[str]]]:
        if self._jwks is None:
            return self._keys
        try:
            # It may ask another server: others are served meanwhile.
            key = await asyncio.to_thread(self._jwks.get_signing_key_from_jwt, token)
        except (jwt.PyJWKClientError, jwt.InvalidTokenError) as error:
            raise Invalid from error
        return [(key.key, [key.algorithm_name])]


def _subs(claims: dict[str, Any]) -> dict[str, Granted]:
    names, given = claims.get("channels") or [], claims.get("subs") or {}
    if not isinstance(names, list) or not isinstance(given, dict):
        raise Invalid
    found = {str(name): Granted() for name in names}
    for name, grant in given.items():
        if not isinstance(grant, dict):
            raise Invalid
        found[name] = Granted(
            info=_payload(grant, "info"),
            data=_payload(grant, "data"),
            override=_override(grant),
        )
    return found


def _expiry(claims: dict[str, Any]) -> int:
    expiry = claims.get("expire_at", claims.get("exp", 0))
    if isinstance(expiry, bool) or not isinstance(expiry, (int, float)):
        raise Invalid
    return int(expiry)


def _payload(claims: dict[str, Any], name: str) -> bytes:
    packed = claims.get(f"b64{name}")
    if packed:
        try:
            return base64.b64decode(packed, validate=True)
        except (binascii.Error, TypeError) as error:
            raise Invalid from error
    given = claims.get(name)
    return b"" if given is None else msgspec.json.encode(given)


def _override(claims: dict[str, Any]) -> dict[str, bool]:
    given = claims.get("override") or {}
    try:
        return {name: bool(value["value"]) for name, value in given.items() if value}
    except (AttributeError, KeyError, TypeError) as error:
        raise Invalid from error
