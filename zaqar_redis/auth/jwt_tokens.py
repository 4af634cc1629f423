# SPDX-License-Identifier: Apache-2.0
"""The strategy ``jwt``: tokens of an OpenID provider, in ``Authorization: Bearer``.

RFC 7519 and RFC 6750.  Keys are those that the provider publishes (`jwks`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

import jwt
from msgspec import Meta, Struct

from zaqar_redis import errors, rules
from zaqar_redis.auth import jwks, openid
from zaqar_redis.auth.identity import Identity, with_implied
from zaqar_redis.auth.strategy import CachingStrategy, Headers, StrategyContext

GROUP = "auth:jwt"
#: Seconds for which an identity is remembered; as long as published keys are.
_KNOWN_SECONDS = 300.0
#: Bytes of a token; web servers take no longer lines of headers either.
_TOKEN_MAX = 8 * 1024
_SCHEME = b"bearer "
_INVALID = 'Bearer error="invalid_token"'
_REQUIRED = ["exp", "iss", "aud"]

#: By asymmetric keys only: a public key is no secret that could sign.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

_WHY: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "The token has expired.",
    jwt.ImmatureSignatureError: "The token is not valid yet.",
    jwt.InvalidIssuerError: "The token is of another issuer.",
    jwt.InvalidAudienceError: "The token is for another audience.",
    jwt.InvalidAlgorithmError: "The algorithm of the token is not allowed, or not its key's.",
}


class JwtSettings(Struct, frozen=True):
    issuer: Annotated[
        str, "URL of the OpenID provider: the claim iss of its tokens, letter by letter."
    ] = ""
    audience: Annotated[
        tuple[str, ...], "A token is accepted if its claim aud has one of these."
    ] = ()
    jwks_uri: Annotated[
        str,
        "URL of the provider's keys (JSON Web Key Set). Default: what the provider publishes at "
        "/.well-known/openid-configuration.",
    ] = ""
    algorithms: Annotated[
        tuple[Algorithm, ...], "Accepted algorithms of signatures. There are no symmetric ones."
    ] = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
    leeway: Annotated[
        int,
        Meta(ge=0, le=300),
        "Seconds by which the clocks of the provider and of this service may differ.",
    ] = 10
    user_claim: Annotated[
        str,
        "The claim that names the user. Dots in this and the following go to claims within "
        "claims, as in realm_access.roles.",
    ] = "sub"
    project_claim: Annotated[str, "The claim that names the project."] = "project"
    roles_claim: Annotated[
        str, "The claim with the roles or groups: a list, or a text with blanks between them."
    ] = "roles"
    roles: Annotated[
        tuple[str, ...],
        "ROLE=VALUE: who has this value in roles_claim has this role. Who has no role is refused.",
    ] = ("reader=zaqar-reader", "member=zaqar-member", "admin=zaqar-admin")


class JwtStrategy(CachingStrategy):
    challenge = "Bearer"

    def __init__(self, settings: JwtSettings) -> None:
        """Raises BadConfiguration."""
        super().__init__()
        if found := list(_problems(settings)):
            raise errors.BadConfiguration("\n".join(f"[{GROUP}] {each}" for each in found))
        self._settings = settings
        self._roles: dict[str, set[str]] = {}
        for each in settings.roles:
            role, _, value = each.partition("=")
            self._roles.setdefault(value, set()).add(role)
        self._keys = jwks.JwksClient(
            (lambda: settings.jwks_uri)
            if settings.jwks_uri
            else partial(openid.find_jwks, settings.issuer)
        )

    def credential(self, headers: Headers) -> bytes | None:
        given = headers.get(b"authorization")
        if given is None or given.count(b".") != 2 or given[: len(_SCHEME)].lower() != _SCHEME:
            return None
        return given

    async def authenticate(self, headers: Headers) -> tuple[Identity, float]:
        """Raises Forbidden, too, when the token is valid and gives no role."""
        claims = await self._claims(headers[b"authorization"][len(_SCHEME) :].strip())
        settings = self._settings
        user, project = _text(claims, settings.user_claim), _text(claims, settings.project_claim)
        if not user or len(project) > rules.PROJECT_MAX:
            raise _invalid("The token names no user, or too long a project.")
        roles = self._roles_of(claims)
        if not roles:
            raise errors.Forbidden(
                why=f'Nothing in the claim "{settings.roles_claim}" of the token is a role here.'
            )
        left = int(claims["exp"]) + settings.leeway - time.time()
        return Identity(project, user, roles, strategy="jwt"), min(left, _KNOWN_SECONDS)

    async def _claims(self, token: bytes) -> dict[str, Any]:
        settings = self._settings
        if len(token) > _TOKEN_MAX:
            raise _invalid(f"The token has more than {_TOKEN_MAX} bytes.")
        try:
            key, names = await self._keys.key_for(token)
            allowed = [name for name in names if name in settings.algorithms]
            if not allowed:
                raise jwt.InvalidAlgorithmError
            return jwt.decode(
                token,
                key,
                algorithms=allowed,
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway,
                options={"require": _REQUIRED, "verify_sub": False},  # another claim may be it
            )
        except errors.KeyNotPublished:
            raise _invalid("The key of the token is not one that its issuer publishes.") from None
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError) as error:
            raise _invalid(_WHY.get(type(error), "The token is not valid.")) from error

    def _roles_of(self, claims: dict[str, Any]) -> frozenset[str]:
        given = _claim(claims, self._settings.roles_claim)
        values = given.split() if isinstance(given, str) else given
        if not isinstance(values, list):
            return frozenset()
        found = (self._roles.get(each, ()) for each in values if isinstance(each, str))
        return with_implied(frozenset().union(*found))


def create(context: StrategyContext) -> JwtStrategy:
    """Creates the strategy.  Raises BadConfiguration."""
    return JwtStrategy(context.settings(JwtSettings))


def _problems(settings: JwtSettings) -> Iterator[str]:
    if not openid.is_url(settings.issuer):
        yield f'issuer: "{settings.issuer}" is not an http or https URL'
    if settings.jwks_uri and not openid.is_url(settings.jwks_uri):
        yield f'jwks_uri: "{settings.jwks_uri}" is not an http or https URL'
    if not settings.audience:
        yield "audience: without one, every token of the provider would be valid here"
    for each in settings.roles:
        if not all(each.partition("=")):
            yield f'roles: "{each}" is not like admin=zaqar-admin'


def _invalid(why: str) -> errors.Unauthenticated:
    return errors.Unauthenticated(why=why, challenge=_INVALID)


def _text(claims: dict[str, Any], path: str) -> str:
    """Returns an empty text when there is no such claim.  Raises Unauthenticated."""
    found = _claim(claims, path)
    if not isinstance(found, str | None):
        raise _invalid(f'The claim "{path}" of the token is not a text.')
    return found or ""


def _claim(claims: dict[str, Any], path: str) -> Any:
    """Returns a claim, or one within claims; None when there is none."""
    if path in claims:  # names of claims may be URLs
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found
