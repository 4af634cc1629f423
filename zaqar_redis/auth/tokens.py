# SPDX-License-Identifier: Apache-2.0
"""Tokens of channels: a client's identity, and what it may subscribe to.

JSON Web Tokens with Centrifugo's claims.  Those that an access key has signed are for its project,
those by the keys of the configuration for the project of the installation's channels.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import jwt
import msgspec
from msgspec import Meta

from zaqar_redis import errors, rules
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.access_keys import is_key_id
from zaqar_redis.auth.jwks import JwksClient
from zaqar_redis.auth.strategy import InvalidSignature

LOG = logging.getLogger(__name__)

#: Algorithms, by the type of their keys.
_HMAC = ("HS256", "HS384", "HS512")
#: Bytes of a key that HS256 is as safe with as it can be.
_HMAC_KEY_MIN = 32
_RSA = ("RS256", "RS384", "RS512")
_ECDSA = ("ES256", "ES384", "ES512")
_EDDSA = ("EdDSA",)


class InvalidToken(Exception):
    """The token is not valid for this service."""


class ExpiredToken(Exception):
    """The token has expired."""


class TokenNotYetValid(ExpiredToken):
    """The token is not valid yet; at connect the reply is the same, so the client gets another."""


class TokenSettings(msgspec.Struct, frozen=True, rename=lambda field: f"token_{field}"):
    hmac_secret_key: Annotated[
        str | bytes | None, rules.SECRET, "Key of tokens signed with HS256 etc."
    ] = None
    hmac_previous_secret_key: Annotated[
        str | None,
        rules.SECRET,
        "Previous value of token_hmac_secret_key, valid too while keys are rotated.",
    ] = None
    rsa_public_key: Annotated[str, "Key of tokens signed with RS256; PEM."] = ""
    ecdsa_public_key: Annotated[str, "Key of tokens signed with ES256; PEM."] = ""
    ed25519_public_key: Annotated[str, "Key of tokens signed with EdDSA; PEM."] = ""
    jwks_public_endpoint: Annotated[str, "URL of a JSON Web Key Set."] = ""
    audience: Annotated[str, "Required value of the claim aud."] = ""
    issuer: Annotated[str, "Required value of the claim iss."] = ""
    leeway: Annotated[
        int,
        Meta(ge=0),
        "Seconds by which nbf and iat of a token may be in the future, for signers whose clocks "
        "are ahead. A token further in the future is answered like an expired one.",
    ] = 10
    user_id_claim: Annotated[str, "The claim that names the user."] = "sub"
    project_claim: Annotated[
        str,
        "The claim that names the project of the connection; in tokens without it, the project "
        "is that of the option project, or of the access key that has signed the token.",
    ] = "project"
    any_project: Annotated[
        bool,
        "Whether the keys above sign tokens for every project. Then whoever has one can read and "
        "use the channels of all projects, and so their queues, as queue:NAME. Off: for the "
        "project of the option project only; access keys sign for others.",
    ] = False
    roles_claim: Annotated[
        str, "The claim that lists the roles of the user, for messages to a role."
    ] = "roles"


def short_keys(settings: TokenSettings) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with a key of tokens, and what to do.  RFC 7518, section 3.2."""
    remedies = {
        "hmac_secret_key": "Set a longer one, e.g. of `openssl rand -hex 32`, here and where "
        "tokens are signed; token_hmac_previous_secret_key lets tokens by the old one go on",
        "hmac_previous_secret_key": "Remove it when tokens by it have expired",
    }
    for name, remedy in remedies.items():
        key = getattr(settings, name)
        size = len(key.encode() if isinstance(key, str) else key or b"")
        if 0 < size < _HMAC_KEY_MIN:
            yield (
                f"[channels] token_{name} has {size} bytes, and HS256 wants {_HMAC_KEY_MIN} at "
                "least: a short key can be guessed from a token",
                remedy,
            )


class SubscriptionGrant(msgspec.Struct, frozen=True):
    """A subscription that a token grants; *override* by option."""

    info: bytes = b""
    data: bytes = b""
    override: dict[str, bool] = {}


class ConnectionClaims(msgspec.Struct, frozen=True):
    """*expire_at* in seconds since 1970; 0: never."""

    user: str
    #: whose channels it may use; empty: the service's default project
    project: str = ""
    expire_at: int = 0
    info: bytes = b""
    subs: dict[str, SubscriptionGrant] = {}
    roles: tuple[str, ...] = ()


class SubscriptionClaims(SubscriptionGrant, frozen=True, kw_only=True):
    user: str
    channel: str
    client: str = ""
    #: of the connection it is valid for; empty: of any
    project: str = ""
    expire_at: int = 0


class TokenVerifier:
    def __init__(
        self, settings: TokenSettings, project: str = "", access: Access | None = None
    ) -> None:
        """*project*: that of the configured keys; *access*: that of access keys, None: without."""
        self._settings = settings
        self._project_of_keys = project
        self._access = access
        self._keys: list[tuple[Any, Sequence[str]]] = [
            (key, names)
            for key, names in (
                (settings.hmac_secret_key, _HMAC),
                (settings.hmac_previous_secret_key, _HMAC),
                (settings.rsa_public_key, _RSA),
                (settings.ecdsa_public_key, _ECDSA),
                (settings.ed25519_public_key, _EDDSA),
            )
            if key
        ]
        endpoint = settings.jwks_public_endpoint
        self._jwks = JwksClient(lambda: endpoint) if endpoint else None
        self._has_logged_roles = self._has_logged_project = False

    async def connection(self, token: str) -> ConnectionClaims:
        """Returns the claims of a connection token.

        Raises InvalidToken, ExpiredToken, TokenNotYetValid, and StoreUnavailable when its key
        cannot be fetched.
        """
        claims, project = await self._verified(token)
        if "channel" in claims:
            raise InvalidToken  # one for a subscription
        subs = _subs(claims)
        return ConnectionClaims(
            user=_text(claims, self._settings.user_id_claim),
            project=project,
            expire_at=_expiry(claims),
            info=_payload(claims, "info"),
            subs=subs,
            roles=self._roles(claims.get(self._settings.roles_claim)),
        )

    def _roles(self, given: object) -> tuple[str, ...]:
        """Returns none for a claim of another shape, which may be for somebody else."""
        if isinstance(given, list) and all(isinstance(each, str) for each in given):
            return tuple(given)
        if given is not None and not self._has_logged_roles:
            self._has_logged_roles = True
            LOG.warning(
                'the claim "%s" of a token is no list of texts: its connection has no roles; '
                "[channels] token_roles_claim names another claim",
                self._settings.roles_claim,
                extra={"action": "token_roles"},
            )
        return ()

    async def subscription(self, token: str) -> SubscriptionClaims:
        """Returns the claims of a subscription token.  Raises as `connection`."""
        claims, project = await self._verified(token)
        channel = claims.get("channel")
        if not isinstance(channel, str) or not channel:
            raise InvalidToken
        return SubscriptionClaims(
            user=_text(claims, self._settings.user_id_claim),
            channel=channel,
            client=_text(claims, "client"),
            project=project,
            expire_at=_expiry(claims),
            **_granted(claims),
        )

    async def _verified(self, token: str) -> tuple[dict[str, Any], str]:
        """Returns the claims, and the project that they are for; empty: any."""
        key_id = _header(token).get("kid")
        if isinstance(key_id, str) and is_key_id(key_id):
            claims, own = await self._signed_by_access_key(token, key_id)
            is_bound = True
        else:
            claims = self._decoded(token, await self._keys_for(token))
            own, is_bound = self._project_of_keys, not self._settings.any_project
        named = _text(claims, self._settings.project_claim)
        if len(named) > rules.PROJECT_MAX:
            raise InvalidToken
        if not is_bound:
            return claims, named
        if named not in ("", own):
            self._log_project(named, own)
            raise InvalidToken
        return claims, own

    async def _signed_by_access_key(self, token: str, key_id: str) -> tuple[dict[str, Any], str]:
        """Returns the claims, and the project of the key."""
        keys = self._access.authenticator.key_verifier if self._access is not None else None
        if self._access is None or keys is None:
            raise InvalidToken
        claims: dict[str, Any] = {}

        async def check(secret: str) -> None:
            try:
                claims.update(self._decoded(token, [(secret, _HMAC)]))
            except InvalidToken as error:
                raise InvalidSignature from error

        try:
            signer = await keys.verify(key_id, check)
            self._access.policy.authorize(signer, "channels:token", signer.project)
        except (errors.Unauthenticated, errors.TooManyAttempts, errors.Forbidden) as error:
            raise InvalidToken from error
        return claims, signer.project

    def _log_project(self, named: str, own: str) -> None:
        if not self._has_logged_project:
            self._has_logged_project = True
            LOG.warning(
                "a token for the project %.256r was refused: its key signs for the project %r; "
                "sign it with an access key of that project, or set [channels] token_any_project",
                named,
                own,
                extra={"action": "token_project"},
            )

    def _decoded(self, token: str, keys: Sequence[tuple[Any, Sequence[str]]]) -> dict[str, Any]:
        options: Any = {
            "verify_aud": bool(self._settings.audience),
            "verify_iat": False,  # see _check_not_before
            "verify_nbf": False,
            "verify_sub": False,
        }
        for key, algorithms in keys:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=list(algorithms),
                    audience=self._settings.audience or None,
                    issuer=self._settings.issuer or None,
                    options=options,
                )
            except jwt.ExpiredSignatureError as error:
                raise ExpiredToken from error
            except (jwt.InvalidTokenError, ValueError, TypeError):
                continue
            self._check_not_before(claims)
            return claims
        raise InvalidToken

    def _check_not_before(self, claims: dict[str, Any]) -> None:
        """Raises TokenNotYetValid.

        Expiry has no leeway: a connection goes on for a while after it anyway.
        """
        latest = time.time() + self._settings.leeway
        if max(_seconds(claims, "nbf"), _seconds(claims, "iat")) > latest:
            raise TokenNotYetValid

    async def _keys_for(self, token: str) -> Sequence[tuple[Any, Sequence[str]]]:
        # Tokens by a published key name it; those by a configured key do not.
        if self._jwks is None or "kid" not in _header(token):
            return self._keys
        try:
            return [await self._jwks.key_for(token)]
        except jwt.InvalidTokenError as error:
            raise InvalidToken from error


def _header(token: str) -> dict[str, Any]:
    try:
        return jwt.get_unverified_header(token)
    except jwt.InvalidTokenError as error:
        raise InvalidToken from error


def _subs(claims: dict[str, Any]) -> dict[str, SubscriptionGrant]:
    names, given = claims.get("channels") or [], claims.get("subs") or {}
    if not isinstance(names, list) or not isinstance(given, dict):
        raise InvalidToken
    if not all(isinstance(name, str) for name in names):
        raise InvalidToken
    found = {name: SubscriptionGrant() for name in names}
    for name, grant in given.items():
        if not isinstance(grant, dict):
            raise InvalidToken
        found[name] = SubscriptionGrant(**_granted(grant))
    return found


def _granted(claims: dict[str, Any]) -> dict[str, Any]:
    payloads = {name: _payload(claims, name) for name in ("info", "data")}
    return {**payloads, "override": _override(claims)}


def _text(claims: dict[str, Any], name: str) -> str:
    """Returns an empty text when the claim is null or does not exist."""
    value = claims.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidToken
    return value


def _expiry(claims: dict[str, Any]) -> int:
    return int(_seconds(claims, "expire_at" if "expire_at" in claims else "exp"))


def _seconds(claims: dict[str, Any], name: str) -> float:
    """Returns the seconds since 1970; 0 when the claim does not exist."""
    found = claims.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise InvalidToken
    return found


def _payload(claims: dict[str, Any], name: str) -> bytes:
    packed = claims.get(f"b64{name}")
    if packed:
        try:
            return base64.b64decode(packed, validate=True)
        except (binascii.Error, TypeError) as error:
            raise InvalidToken from error
    given = claims.get(name)
    return b"" if given is None else msgspec.json.encode(given)


def _override(claims: dict[str, Any]) -> dict[str, bool]:
    given = claims.get("override") or {}
    try:
        return {name: bool(value["value"]) for name, value in given.items() if value}
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidToken from error
