# SPDX-License-Identifier: Apache-2.0
"""Each route, with each strategy, for each role, in the own and in a foreign project."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.auth import matrix
from tests.auth.key_clients import OPTIONS, KeyOperator, key_operator
from tests.auth.matrix import Caller
from tests.support import openid, servers
from tests.support.backends import Backend
from tests.support.openid import OpenIdProvider
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth.policy import PolicyEnforcer

ROUTES = matrix.all_routes()


def test_route_that_is_not_public_has_a_rule() -> None:
    rules = set(PolicyEnforcer().rules)
    assert len(ROUTES) > 50
    for route in ROUTES:
        assert matrix.is_public(route) == (route.path in matrix.PUBLIC), route.path
        if not matrix.is_public(route):
            assert route.action in rules, route.path
            assert route.action in matrix.LEAST, route.path


class KeyCaller(Caller):
    """Callers with access keys, one for each role."""

    def __init__(self, url: str, operator: KeyOperator) -> None:
        super().__init__(url)
        self._keys = {
            role: operator.create("--role", role, project=self.project) for role in matrix.ROLES
        }

    def credential(self, role: str) -> dict[str, str]:
        return self._keys[role].bearer


@pytest.fixture(scope="module")
def key_caller(redis_server: Backend) -> Iterator[Caller]:
    with (
        servers.service(redis_server.uri, options=OPTIONS) as running,
        key_operator(redis_server.uri) as operator,
    ):
        yield KeyCaller(running.url, operator)


class JwtCaller(Caller):
    """Callers with tokens of an OpenID provider."""

    def __init__(self, url: str, provider: OpenIdProvider) -> None:
        super().__init__(url)
        self._provider = provider

    def credential(self, role: str) -> dict[str, str]:
        token = self._provider.token(project=self.project, roles=[f"zaqar-{role}"])
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def jwt_caller(redis_server: Backend, provider: OpenIdProvider) -> Iterator[Caller]:
    with servers.service(redis_server.uri, options=openid.options(provider)) as running:
        yield JwtCaller(running.url, provider)


@pytest.fixture(params=["key", "jwt"])
def caller(request: pytest.FixtureRequest) -> Caller:
    """Callers who authenticate by a strategy."""
    found: Caller = request.getfixturevalue(f"{request.param}_caller")
    return found


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "foreign"])
@pytest.mark.parametrize("role", matrix.ROLES)
def test_role_may_do_what_the_policy_says_and_nothing_else(
    caller: Caller, role: str, foreign: bool
) -> None:
    assert matrix.unexpected(caller, ROUTES, role, foreign=foreign) == []


def test_caller_without_a_credential_may_use_public_routes_alone(caller: Caller) -> None:
    with httpx.Client(base_url=caller.url, timeout=30) as http:
        attempts = [
            matrix.attempt(http, route, {"X-Project-ID": caller.project}) for route in ROUTES
        ]
    for route, status in attempts:
        assert (status == 401) != matrix.is_public(route), (route.method, route.path)


@pytest.mark.parametrize(
    "forged",
    [
        {"X-Roles": "admin", "X-Role": "admin", "X-Is-Admin-Project": "True"},
        {"X_Roles": "admin", "X_Project_Id": "p", "X_User_Id": "x"},
        {"X-Identity-Status": "Confirmed", "X-User-Id": "x", "X-Roles": "admin"},
        {"x-roles": "admin", "X-Project-Roles": "admin", "X-User-Name": "admin"},
        {"X-Service-Identity-Status": "Confirmed", "X-Service-Roles": "admin"},
    ],
)
def test_forged_identity_headers_give_nothing(caller: Caller, forged: dict[str, str]) -> None:
    names = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": caller.project}
    reader = names | forged | caller.credential("reader")
    other = reader | {"X-Project-ID": "other"}
    with httpx.Client(base_url=caller.url, timeout=30) as http:
        assert http.get("/v2/pools", headers=names | forged).status_code == 401
        assert http.get("/v2/pools", headers=reader).status_code == 403
        assert http.get("/v2/queues", headers=other).status_code == 403


def test_without_authentication_every_project_is_open_and_nothing_of_operators(
    service: servers.RunningService,
) -> None:
    project = {"X-Project-ID": str(uuid.uuid4())}
    with httpx.Client(base_url=service.url, timeout=30) as http:
        attempts = [matrix.attempt(http, route, project) for route in ROUTES if route.guard is None]
    for route, status in attempts:
        operators = ("/v2/pools", "/v2/flavors")
        for_operators = route.path.startswith(operators) or (
            not route.public and matrix.LEAST[route.action] == matrix.ROLES[-1]
        )
        is_missing = status in (404, 405)  # 405: the path has other methods
        assert is_missing == (for_operators or _names_nothing(route)), route.path


def _names_nothing(route: ApiRoute) -> bool:
    """Returns whether it is about what does not exist here."""
    if route.path.endswith(("{message}", "{claim}")):
        return route.method in ("GET", "PATCH")
    if route.path.endswith(("{subscription}", "{schedule}")):
        return route.method == "GET"  # a change needs a document that says something
    if route.path.endswith(("/replay", "/test", "/release")):
        return True
    return route.path in ("/api/{method}", "/console/{name}")
