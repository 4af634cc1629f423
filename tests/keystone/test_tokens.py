# SPDX-License-Identifier: Apache-2.0
"""Who may do what with a token of Keystone, and what gives nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.keystone.conftest import TokenClient
from tests.support import servers
from tests.support.keystone import RunningKeystone

#: A name in the place of what the test fills in.
_OF_ADMINISTRATORS = [
    ("GET", "/pools"),
    ("GET", "/pools/east"),
    ("PUT", "/pools/east"),
    ("PATCH", "/pools/east"),
    ("DELETE", "/pools/east"),
    ("PUT", "/flavors/fast"),
    ("PATCH", "/flavors/fast"),
    ("DELETE", "/flavors/fast"),
    ("GET", "/health"),
    ("PUT", "/rebalance"),
]
_WRITES = [
    ("PUT", "/queues/{queue}"),
    ("PATCH", "/queues/{queue}"),
    ("DELETE", "/queues/{queue}"),
    ("POST", "/queues/{queue}/purge"),
    ("POST", "/queues/{queue}/share"),
    ("POST", "/queues/{queue}/messages"),
    ("DELETE", "/queues/{queue}/messages?pop=1"),
    ("POST", "/queues/{queue}/claims"),
]


def test_a_token_has_the_project_and_the_roles_that_keystone_says(
    api: TokenClient, keystone: RunningKeystone, queue: str
) -> None:
    member, reader = keystone.token("member"), keystone.token("reader")
    (href,) = api.post(queue, member).json()["resources"]
    own = [("X-Project-ID", keystone.projects["blue"])]
    for headers in ([], own):
        found = api.request("GET", href.removeprefix("/v2"), reader, headers=headers)
        assert (found.status_code, found.json()["body"]) == (200, "posted")


def test_another_project_is_refused(api: TokenClient, keystone: RunningKeystone) -> None:
    headers = [("X-Project-ID", keystone.projects["red"])]
    refused = api.listed(keystone.token("member"), headers=headers)
    assert (refused.status_code, refused.json()["title"]) == (403, "Not authorized")
    assert keystone.projects["red"] in refused.json()["description"]
    assert api.listed(keystone.token("operator"), headers=headers).status_code == 200


def test_a_message_of_another_project_is_not_found(
    api: TokenClient, keystone: RunningKeystone, queue: str
) -> None:
    (href,) = api.post(queue, keystone.token("member")).json()["resources"]
    token = keystone.token("stranger")
    assert api.request("GET", href.removeprefix("/v2"), token).status_code == 404
    assert queue not in api.listed(token).text


@pytest.mark.parametrize(("method", "path"), _OF_ADMINISTRATORS)
def test_calls_of_administrators_are_refused_to_members(
    hot: TokenClient, keystone: RunningKeystone, tokens: dict[str, str], method: str, path: str
) -> None:
    assert hot.request(method, path, tokens["member"], {}).status_code == 403
    assert hot.request(method, path, tokens["operator"], {}).status_code != 403


@pytest.mark.parametrize(("method", "path"), _WRITES)
def test_readers_cannot_write(
    api: TokenClient, tokens: dict[str, str], queue: str, method: str, path: str
) -> None:
    refused = api.request(method, path.format(queue=queue), tokens["reader"], {})
    assert (refused.status_code, refused.json()["title"]) == (403, "Not authorized")
    assert queue not in api.listed(tokens["reader"]).text


@pytest.fixture(scope="module")
def tokens(keystone: RunningKeystone) -> dict[str, str]:
    """A token of each user."""
    return {user: keystone.token(user) for user in ("reader", "member", "operator", "stranger")}


def _assert_unauthenticated(response: httpx.Response, keystone: RunningKeystone) -> None:
    assert (response.status_code, response.json()["title"]) == (401, "Unauthorized")
    assert response.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'


@pytest.mark.parametrize(
    "token",
    [None, "", "garbage", b"\xff\xe9", "a b", "g" * 8001, "a" * 7000, "../v3/users", "%00", "é"],
)
def test_without_a_valid_token_a_request_is_unauthenticated(
    api: TokenClient, keystone: RunningKeystone, token: str | bytes | None
) -> None:
    _assert_unauthenticated(api.listed(token), keystone)


def test_a_changed_token_is_unauthenticated(
    api: TokenClient, keystone: RunningKeystone, tokens: dict[str, str]
) -> None:
    token = tokens["member"]
    middle = len(token) // 2
    changed = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
    _assert_unauthenticated(api.listed(changed), keystone)


def test_a_token_in_another_place_is_unauthenticated(
    api: TokenClient, keystone: RunningKeystone, tokens: dict[str, str]
) -> None:
    for name in ("X-Storage-Token", "X-Service-Token", "X-Subject-Token", "X_Auth_Token"):
        _assert_unauthenticated(api.listed(headers=[(name, tokens["operator"])]), keystone)


#: Every spelling that WSGI and CGI take for one header.
_SPELLINGS = ("X-{}", "x-{}", "X_{}", "HTTP_X_{}", "Http-X-{}", "X.{}")
_FORGED = {
    "Identity-Status": "Confirmed",
    "Service-Identity-Status": "Confirmed",
    "Roles": "admin,member",
    "Role": "admin",
    "User-Id": "somebody",
    "User": "somebody",
    "Is-Admin-Project": "True",
    "Service-Roles": "service,admin",
    "Domain-Id": "default",
}


@pytest.mark.parametrize("spelling", _SPELLINGS)
def test_forged_identity_headers_give_nothing(
    api: TokenClient, keystone: RunningKeystone, tokens: dict[str, str], queue: str, spelling: str
) -> None:
    forged = [(spelling.format(name), value) for name, value in _FORGED.items()] * 2
    forged += [("OpenStack-System-Scope", "all")]
    _assert_unauthenticated(api.listed(headers=forged), keystone)
    _assert_unauthenticated(api.listed("garbage", headers=forged), keystone)
    assert api.listed(tokens["reader"], headers=forged).status_code == 200
    assert api.post(queue, tokens["reader"], headers=forged).status_code == 403
    assert api.request("GET", "/pools", tokens["member"], headers=forged).status_code == 403


@pytest.mark.parametrize("name", ["X-Project-ID", "x-project-id", "X-Tenant-Id", "X-Tenant"])
def test_a_project_that_is_named_twice_gives_nothing(
    api: TokenClient, keystone: RunningKeystone, tokens: dict[str, str], queue: str, name: str
) -> None:
    api.post(queue, tokens["member"])
    own, other = keystone.projects["red"], keystone.projects["blue"]
    for first, last in ((own, other), (other, own)):
        headers = [(name, first), (name, last)]
        assert queue not in api.listed(tokens["stranger"], headers=headers).text


@pytest.mark.parametrize(
    "scope", ["unscoped", {"domain": {"id": "default"}}, {"system": {"all": True}}]
)
def test_a_token_without_a_project_is_refused(
    api: TokenClient, keystone: RunningKeystone, scope: object
) -> None:
    keystone.grant("member", "member", "/domains/default")
    keystone.grant("reader", "member", "/system")
    refused = api.listed(keystone.token("member", scope=scope))
    assert refused.status_code == 403
    assert "not scoped to a project" in refused.json()["description"]


def test_an_administrator_of_the_system_names_the_project(
    api: TokenClient, keystone: RunningKeystone
) -> None:
    token = keystone.token("operator", scope={"system": {"all": True}})
    assert api.listed(token).json()["title"] == "Project-Id Missing"
    for project in ("blue", "red"):
        headers = [("X-Project-ID", keystone.projects[project])]
        assert api.listed(token, headers=headers).status_code == 200


def test_a_token_of_an_application_credential_is_accepted(
    api: TokenClient, keystone: RunningKeystone, queue: str
) -> None:
    credential = keystone.create_application_credential("member", roles=[{"name": "reader"}])
    token = keystone.token_of_application(credential)
    assert api.listed(token).status_code == 200
    assert api.post(queue, token).status_code == 403


def test_an_application_credential_with_access_rules_is_refused(
    api: TokenClient, keystone: RunningKeystone
) -> None:
    rules = [{"method": "GET", "path": "/**", "service": "messaging"}]
    credential = keystone.create_application_credential("member", access_rules=rules)
    refused = api.listed(keystone.token_of_application(credential))
    assert refused.status_code == 403
    assert "access rules" in refused.json()["description"]


def _short_lived(keystone: RunningKeystone) -> str:
    """Returns a token that expires as soon as this machine allows, but is valid yet."""
    for seconds in (2, 8, 25):
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        try:
            credential = keystone.create_application_credential(
                "member", expires_at=f"{soon:%FT%T}"
            )
            return keystone.token_of_application(credential)
        except httpx.HTTPStatusError as refused:
            # On a busy machine that is past already.
            if refused.response.status_code not in (400, 401):
                raise
    raise TimeoutError("Keystone takes more than 25 s")


def test_an_expired_token_is_accepted_only_with_the_token_of_a_service(
    hot: TokenClient, keystone: RunningKeystone, tokens: dict[str, str]
) -> None:
    token = _short_lived(keystone)
    servers.wait_for(lambda: hot.listed(token).status_code == 401, "the token to expire")
    _assert_unauthenticated(hot.listed(token), keystone)
    of_service = keystone.token("zaqar")
    for service_token, status in ((of_service, 200), (tokens["operator"], 401), ("garbage", 401)):
        headers = [("X-Service-Token", service_token)]
        assert hot.listed(token, headers=headers).status_code == status
