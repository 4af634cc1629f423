# SPDX-License-Identifier: Apache-2.0
"""Tokens of channels: who connects, and what they may subscribe to.

JSON Web Tokens with the claims of Centrifugo's.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Sequence
from typing import Any

import jwt
import msgspec

from zaqar_redis import rules
from zaqar_redis.auth.published import PublishedKeys

#: By the family of their keys.
_HMAC = ("HS256", "HS384", "HS512")
_RSA = ("RS256", "RS384", "RS512")
_ECDSA = ("ES256", "ES384", "ES512")
_EDDSA = ("EdDSA",)


class Invalid(Exception):
    """It is no token of ours."""


class Expired(Exception):
    """It was."""


class NotYetValid(Expired):
    """It will be: who connects with it is told the same, to come back with another one."""


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
    #: seconds by which the clock of who signs may be ahead of ours
    leeway: int = 10
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
    #: of the connection that it is for; empty: of any
    project: str = ""
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
        self._published = PublishedKeys(settings.jwks_url) if settings.jwks_url else None

    async def connection(self, token: str) -> Connection:
        """Raises Invalid, Expired, NotYetValid, and StoreUnavailable: its key is not to be had."""
        claims = await self._claims(token)
        if "channel" in claims:
            raise Invalid  # one for a subscription
        subs = _subs(claims)
        return Connection(
            user=_text(claims, self._settings.user_claim),
            project=self._project(claims),
            expire_at=_expiry(claims),
            info=_payload(claims, "info"),
            subs=subs,
        )

    async def subscription(self, token: str) -> Subscription:
        """Raises as `connection`."""
        claims = await self._claims(token)
        channel = claims.get("channel")
        if not isinstance(channel, str) or not channel:
            raise Invalid
        return Subscription(
            user=_text(claims, self._settings.user_claim),
            channel=channel,
            client=_text(claims, "client"),
            project=self._project(claims),
            expire_at=_expiry(claims),
            info=_payload(claims, "info"),
            data=_payload(claims, "data"),
            override=_override(claims),
        )

    def _project(self, claims: dict[str, Any]) -> str:
        project = _text(claims, self._settings.project_claim)
        if len(project) > rules.PROJECT_MAX:
            raise Invalid
        return project

    async def _claims(self, token: str) -> dict[str, Any]:
        options: Any = {
            "verify_aud": bool(self._settings.audience),
            "verify_iat": False,  # see _check_beginning
            "verify_nbf": False,
            "verify_sub": False,
        }
        for key, algorithms in await self._keys_for(token):
            try:
                claims = jwt.decode(
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
            self._check_beginning(claims)
            return claims
        raise Invalid

    def _check_beginning(self, claims: dict[str, Any]) -> None:
        """The end has no leeway: a connection lives on for a while behind it anyway."""
        latest = time.time() + self._settings.leeway
        if max(_seconds(claims, "nbf"), _seconds(claims, "iat")) > latest:
            raise NotYetValid

    async def _keys_for(self, token: str) -> Sequence[tuple[Any, Sequence[str]]]:
        try:
            # Those who publish several keys say which one it is; the others have no name.
            if self._published is None or "kid" not in jwt.get_unverified_header(token):
                return self._keys
            return [await self._published.key_for(token)]
        except jwt.InvalidTokenError as error:
            raise Invalid from error


def _subs(claims: dict[str, Any]) -> dict[str, Granted]:
    names, given = claims.get("channels") or [], claims.get("subs") or {}
    if not isinstance(names, list) or not isinstance(given, dict):
        raise Invalid
    if not all(isinstance(name, str) for name in names):
        raise Invalid
    found = {name: Granted() for name in names}
    for name, grant in given.items():
        if not isinstance(grant, dict):
            raise Invalid
        found[name] = Granted(
            info=_payload(grant, "info"),
            data=_payload(grant, "data"),
            override=_override(grant),
        )
    return found


def _text(claims: dict[str, Any], name: str) -> str:
    """Null is nothing, as when it is not there."""
    found = claims.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Invalid
    return found


def _expiry(claims: dict[str, Any]) -> int:
    return int(_seconds(claims, "expire_at" if "expire_at" in claims else "exp"))


def _seconds(claims: dict[str, Any], name: str) -> float:
    """Since 1970; 0: it is not there."""
    found = claims.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise Invalid
    return found


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
