# SPDX-License-Identifier: Apache-2.0
"""Tokens of an OpenID provider: which are accepted, for what, and for how long."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support import openid, servers
from tests.support.backends import Backend
from tests.support.openid import OpenIdProvider
from tests.support.tiers import in_gate
from tests.support.ways import HOT, WAYS
from zaqar_redis import conf, errors
from zaqar_redis.auth.identity import Identity
from zaqar_redis.auth.jwt_tokens import JwtSettings, JwtStrategy
from zaqar_redis.cli import service_factory

QUEUE = "/v2/queues/orders"


@pytest.fixture(params=in_gate(WAYS))
def ask(
    jwt_service: servers.RunningService, request: pytest.FixtureRequest
) -> Iterator[Callable[..., httpx.Response]]:
    """Asks over one of the two ways."""
    headers = {"Client-ID": str(uuid.uuid4())} | WAYS[request.param]
    with httpx.Client(base_url=jwt_service.url, headers=headers, timeout=30) as client:

        def send(
            token: str, method: str = "GET", path: str = f"{QUEUE}/stats", **more: Any
        ) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
            return client.request(method, path, headers=headers, **more)

        yield send


def post(ask: Callable[..., httpx.Response], token: str, **headers: str) -> int:
    messages = {"messages": [{"body": 1}]}
    return ask(token, "POST", f"{QUEUE}/messages", json=messages, headers=headers).status_code


def encoded(part: object) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def signed(header: dict[str, Any], payload: dict[str, Any], secret: bytes) -> str:
    """Returns a token by HMAC, with whatever secret."""
    text = f"{encoded(header)}.{encoded(payload)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def by_public_key(provider: OpenIdProvider) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = provider.public_key("rsa").public_bytes(serialization.Encoding.PEM, form)
    return signed({"alg": "HS256", "kid": "rsa"}, provider.payload(), pem)


def by_published_secret(provider: OpenIdProvider) -> str:
    return signed({"alg": "HS256", "kid": "shared"}, provider.payload(), openid.SECRET)


def by_own_key(provider: OpenIdProvider, **headers: Any) -> str:
    own = ec.generate_private_key(ec.SECP256R1())
    jwk = ECAlgorithm.to_jwk(own.public_key(), as_dict=True)
    known = {"kid": "first", "jwk": jwk, "jku": f"{provider.issuer}/mine"} | headers
    given = {name: each for name, each in known.items() if each is not None}
    return jwt.encode(provider.payload(), own, "ES256", given)


def without_signature(provider: OpenIdProvider, algorithm: str = "none") -> str:
    return f"{encoded({'alg': algorithm, 'kid': 'first'})}.{encoded(provider.payload())}."


def for_another_user(provider: OpenIdProvider) -> str:
    header, _, signature = provider.token().split(".")
    return f"{header}.{encoded(provider.payload(sub='eve'))}.{signature}"


def now(seconds: int) -> int:
    return int(time.time()) + seconds


REFUSED: dict[str, tuple[Callable[[OpenIdProvider], str], str]] = {
    "expired": (lambda it: it.token(exp=now(-1)), "has expired"),
    "not yet valid": (lambda it: it.token(nbf=now(60)), "not valid yet"),
    "issued later": (lambda it: it.token(iat=now(60)), "not valid yet"),
    "never expires": (lambda it: it.token(exp=None), "not valid"),
    "foreign issuer": (lambda it: it.token(iss="https://example.org"), "another issuer"),
    "issuer with a slash": (lambda it: it.token(iss=f"{it.issuer}/"), "another issuer"),
    "no issuer": (lambda it: it.token(iss=None), "not valid"),
    "foreign audience": (lambda it: it.token(aud=["account"]), "another audience"),
    "no audience": (lambda it: it.token(aud=None), "not valid"),
    "no user": (lambda it: it.token(sub=None), "no user"),
    "user is a number": (lambda it: it.token(sub=7), '"sub" of the token is not a text'),
    "project is a list": (lambda it: it.token(project=["a"]), '"project" of the token is not'),
    "project too long": (lambda it: it.token(project="p" * 257), "too long a project"),
    "algorithm none": (without_signature, "algorithm"),
    "algorithm nOnE": (lambda it: without_signature(it, "nOnE"), "algorithm"),
    "no signature": (lambda it: without_signature(it, "ES256"), "not valid"),
    "HMAC by the public key": (by_public_key, "algorithm"),
    "HMAC by a published secret": (by_published_secret, "algorithm"),
    "algorithm of another key": (lambda it: by_own_key(it, kid="rsa"), "algorithm"),
    "algorithm is a list": (
        lambda it: f"{encoded({'alg': ['ES256'], 'kid': 'first'})}.e30.e30",
        "algorithm",
    ),
    "key in the header": (by_own_key, "not valid"),
    "unknown key": (lambda it: by_own_key(it, kid="of nobody"), "not one that its issuer"),
    "no key": (lambda it: by_own_key(it, kid=None), "not valid"),
    "key is a number": (lambda it: f"{encoded({'alg': 'ES256', 'kid': 1})}.e30.e30", "not valid"),
    "claims were changed": (for_another_user, "not valid"),
    "garbage": (lambda it: "a.b.c", "not valid"),
    "only dots": (lambda it: "..", "not valid"),
    "too deep": (lambda it: f"{encoded(b'[' * 4000)}.e30.e30", "not valid"),
    "too large": (lambda it: it.token(more="m" * 8192), "more than 8192 bytes"),
    "unknown extension": (lambda it: it.token(headers={"crit": ["x"], "x": 1}), "not valid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_token_is_unauthorized(
    ask: Callable[..., httpx.Response], provider: OpenIdProvider, case: str
) -> None:
    create, why = REFUSED[case]
    refused = ask(create(provider))
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert refused.json()["title"] == "Unauthorized"
    assert why in refused.json()["description"]
    assert ask(provider.token()).status_code == 200


@pytest.mark.parametrize("given", ["Bearer", "Bearer one.two", "Bearer a.b.c.d.e", "Basic a.b.c"])
def test_credential_of_another_kind_is_not_looked_at(
    ask: Callable[..., httpx.Response], given: str
) -> None:
    refused = ask("", headers={"Authorization": given})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert refused.json()["description"] == "The request has no credential."


@pytest.mark.parametrize("key", ["first", "rsa", "edwards"])
def test_token_opens_its_project_only(
    ask: Callable[..., httpx.Response], provider: OpenIdProvider, key: str
) -> None:
    token = provider.token(key, project=f"of-{key}")
    assert post(ask, token) == 201
    assert post(ask, token, **{"X-Project-ID": f"of-{key}"}) == 201
    assert post(ask, token, **{"X-Project-ID": "other"}) == 403
    assert ask(f" {token}").status_code == 200
    assert ask(token, headers={"Authorization": f"bEaReR {token}"}).status_code == 200


@pytest.mark.parametrize(
    ("roles", "reads", "writes", "elsewhere"),
    [
        (["r"], 200, 403, 403),
        (["zaqar-member", "unknown", 7], 200, 201, 403),
        ("openid zaqar-member", 200, 201, 403),
        (["a"], 200, 201, 201),
        # Names of roles here are not values there.
        (["admin", "member"], 403, 403, 403),
        ([], 403, 403, 403),
        ({"zaqar-member": 1}, 403, 403, 403),
        (None, 403, 403, 403),
    ],
)
def test_roles_say_what_a_token_allows(
    ask: Callable[..., httpx.Response],
    provider: OpenIdProvider,
    roles: object,
    reads: int,
    writes: int,
    elsewhere: int,
) -> None:
    token = provider.token(roles=roles)
    assert ask(token).status_code == reads
    assert post(ask, token) == writes
    assert post(ask, token, **{"X-Project-ID": "other"}) == elsewhere


def test_forged_identity_headers_change_nothing(
    ask: Callable[..., httpx.Response], provider: OpenIdProvider
) -> None:
    forged = {"X-Roles": "admin", "X-User-Id": "eve", "X-Is-Admin-Project": "True"}
    assert post(ask, provider.token(roles=["r"]), **forged) == 403
    assert post(ask, "none", **forged) == 401


def _warm_token(ask: Callable[..., httpx.Response], provider: OpenIdProvider, name: str) -> str:
    """Returns a token that was accepted, and expires as soon as this machine allows."""
    for seconds in (2, 8, 25):
        expires = now(seconds)
        token = provider.token(name, exp=expires)
        answer = ask(token)
        if answer.status_code == 200:
            return token
        assert time.time() >= expires, answer.text
    raise TimeoutError("a request takes more than 25 s")


@pytest.mark.parametrize("ask", [HOT], indirect=True)
def test_new_key_is_accepted_soon_and_a_warm_token_until_it_expires(
    ask: Callable[..., httpx.Response], provider: OpenIdProvider
) -> None:
    name = str(uuid.uuid4())
    provider.add_key(name)
    token = provider.token(name)
    servers.wait_for(lambda: ask(token).status_code == 200, "the new key")
    short_lived = _warm_token(ask, provider, name)
    provider.remove_key(name)
    assert ask(token).status_code == 200
    servers.wait_for(lambda: ask(short_lived).status_code == 401, "the token to expire")


def test_unreachable_provider_is_answered_503_unless_token_is_warm(redis_server: Backend) -> None:
    provider = OpenIdProvider()
    provider.add_key("first")
    provider.start()
    provider.stop()  # its port is known now

    def status(service: servers.RunningService, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Client-ID": str(uuid.uuid4())}
        answer = httpx.get(f"{service.url}{QUEUE}/stats", headers=headers, timeout=30)
        assert (answer.status_code == 503) == ("Retry-After" in answer.headers)
        return answer.status_code

    with servers.service(redis_server.uri, options=openid.options(provider)) as service:
        token, later = provider.token(), provider.token(sub="bob")
        assert status(service, token) == 503
        provider.start()
        servers.wait_for(lambda: status(service, token) == 200, "the provider")
        provider.stop()
        provider.add_key("second")
        assert status(service, token) == 200
        assert status(service, later) == 200  # its key is known
        servers.wait_for(
            lambda: status(service, provider.token("second")) == 503, "a fetch that fails"
        )


def strategy(provider: OpenIdProvider, **settings: Any) -> JwtStrategy:
    known: dict[str, Any] = {"issuer": provider.issuer, "audience": (openid.AUDIENCE,)}
    return JwtStrategy(JwtSettings(**known | settings))


async def identify(found: JwtStrategy, token: str) -> tuple[Identity, float]:
    return await found.authenticate({b"authorization": f"Bearer {token}".encode()})


def test_claims_are_found_by_path_and_by_name(provider: OpenIdProvider) -> None:
    found = strategy(
        provider,
        user_claim="https://example.org/user.name",
        project_claim="tenant.id",
        roles_claim="resource_access.zaqar.roles",
        roles=("reader=x", "auditor=x", "admin=y"),
    )
    claims: dict[str, Any] = {
        "https://example.org/user.name": "bob",
        "tenant": {"id": "p1"},
        "resource_access": {"zaqar": {"roles": ["x"]}},
    }
    token = provider.token(sub=None, **claims)
    identity, seconds = asyncio.run(identify(found, token))
    assert (identity.user, identity.project, identity.strategy) == ("bob", "p1", "jwt")
    assert identity.roles == {"reader", "auditor"}
    assert 290 < seconds <= 300


@pytest.mark.parametrize(("exp", "low", "high"), [(20, 35, 50), (-5, 10, 25), (9000, 300, 300)])
def test_identity_is_remembered_until_its_token_expires_or_five_minutes(
    provider: OpenIdProvider, exp: int, low: float, high: float
) -> None:
    found = strategy(provider, leeway=30)
    _, seconds = asyncio.run(identify(found, provider.token(exp=now(exp), nbf=now(5))))
    assert low <= seconds <= high


async def test_many_cold_tokens_cause_one_fetch(provider: OpenIdProvider) -> None:
    before = provider.requests.get("/jwks_uri", 0)
    found = strategy(provider)
    await asyncio.gather(
        *(identify(found, provider.token(sub=f"user {number}")) for number in range(50))
    )
    assert provider.requests["/jwks_uri"] == before + 1


def test_keys_of_another_issuers_configuration_are_not_used(provider: OpenIdProvider) -> None:
    other = f"{provider.issuer}/"  # found at the same address
    with pytest.raises(errors.StoreUnavailable):
        asyncio.run(identify(strategy(provider, issuer=other), provider.token(iss=other)))
    direct = strategy(provider, issuer=other, jwks_uri=f"{provider.issuer}/jwks_uri")
    assert asyncio.run(identify(direct, provider.token(iss=other)))[0].user == "ann"


def test_algorithm_that_is_not_allowed_is_refused(provider: OpenIdProvider) -> None:
    found = strategy(provider, algorithms=("ES256",))
    assert asyncio.run(identify(found, provider.token()))[0].user == "ann"
    with pytest.raises(errors.Unauthenticated, match="algorithm"):
        asyncio.run(identify(found, provider.token("rsa")))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"issuer": "example.org"}, 'issuer: "example.org" is not'),
        ({"issuer": "file:///etc/passwd"}, "issuer: "),
        ({"issuer": "http://[::1"}, "issuer: "),
        ({"audience": ()}, "audience: "),
        ({"jwks_uri": "file:///keys"}, "jwks_uri: "),
        ({"roles": ("admin",)}, 'roles: "admin"'),
        ({"roles": ("=x",)}, 'roles: "=x"'),
    ],
)
def test_settings_that_cannot_work_are_refused(
    provider: OpenIdProvider, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"^\[auth:jwt\] ") as raised:
        strategy(provider, **settings)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[auth]\nstrategy = jwt\n", '[auth:jwt] issuer: "" is not an http or https URL'),
        ("[auth]\nstrategy = jtw\n", '[auth] strategy: there is no strategy "jtw"'),
    ],
)
def test_service_does_not_start_with_a_strategy_that_cannot_work(
    tmp_path: Path, text: str, why: str
) -> None:
    file = servers.config_file(tmp_path, text)
    assert why in service_factory.problems(conf.load([], [file]))


def test_symmetric_algorithm_is_no_value_of_the_option(tmp_path: Path) -> None:
    file = servers.config_file(tmp_path, "[auth:jwt]\nalgorithms = ES256, HS256\n")
    with pytest.raises(errors.BadConfiguration, match="HS256"):
        conf.load([], [file])
