# SPDX-License-Identifier: Apache-2.0
"""The channels' server API with tokens: who may call what, in which project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.auth.conftest import API_KEY
from tests.support import servers
from tests.support.openid import OpenIdProvider
from tests.support.tiers import in_gate
from tests.support.ways import WAYS
from zaqar_redis.service.channels import METHODS

#: Documents that the methods accept, but "rpc", which none of them is.
DOCUMENTS: dict[str, dict[str, Any]] = {
    "publish": {"channel": "news", "data": 1},
    "broadcast": {"channels": ["news", "more"], "data": 1},
    "subscribe": {"user": "ann", "channel": "news"},
    "unsubscribe": {"user": "ann", "channel": "news"},
    "disconnect": {"user": "ann"},
    "refresh": {"user": "ann"},
    "presence": {"channel": "news"},
    "presence_stats": {"channel": "news"},
    "history": {"channel": "news"},
    "history_remove": {"channel": "news"},
    "channels": {},
    "info": {},
    "send": {"route": "user", "target": "x", "type": "t", "payload": 1},
    "topic_subscribe": {"client": "x", "topic": "x"},
    "topic_unsubscribe": {"client": "x"},
    "topic_subscribers": {"topic": "x"},
    "rpc": {"method": "x"},
    "batch": {"commands": []},
}
READING = {
    *("presence", "presence_stats", "history", "channels", "info", "batch"),
    "topic_subscribers",
}
ADMINISTRATION = {
    *("subscribe", "unsubscribe", "disconnect", "refresh"),
    *("topic_subscribe", "topic_unsubscribe"),
}
ROLES = {"reader": "r", "member": "zaqar-member", "admin": "a"}


def is_allowed(role: str, method: str) -> bool:
    if method in ADMINISTRATION:
        return role == "admin"
    return role != "reader" or method in READING


@pytest.fixture(params=in_gate(WAYS))
def call(
    jwt_service: servers.RunningService, request: pytest.FixtureRequest
) -> Iterator[Callable[..., httpx.Response]]:
    """Calls a method over one of the two ways; keywords are headers."""
    headers = WAYS[request.param]
    with httpx.Client(base_url=jwt_service.url, headers=headers, timeout=30) as client:

        def send(method: str, document: Any, **headers: str) -> httpx.Response:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.post(f"/api/{method}" if method else "/api", json=document, headers=given)

        yield send


def bearer(provider: OpenIdProvider, role: str, **claims: Any) -> str:
    return f"Bearer {provider.token(roles=[ROLES[role]], **claims)}"


@pytest.mark.parametrize("role", ROLES)
def test_role_says_which_methods_may_be_called(
    call: Callable[..., httpx.Response], provider: OpenIdProvider, role: str, project: str
) -> None:
    assert set(DOCUMENTS) == set(METHODS)
    token = bearer(provider, role, project=project)
    for method, document in DOCUMENTS.items():
        direct = call(method, document, Authorization=token)
        legacy = call("", {"method": method, "params": document}, Authorization=token)
        if is_allowed(role, method):
            assert direct.status_code == legacy.status_code == 200
            refused = method == "rpc"  # there are none
            assert [each.json().get("error", {}).get("code") for each in (direct, legacy)] == (
                [108, 108] if refused else [None, None]
            )
        else:
            assert direct.status_code == legacy.status_code == 403
            assert direct.json()["title"] == legacy.json()["title"] == "Not authorized"


@pytest.mark.parametrize("parallel", [False, True])
def test_commands_of_a_batch_are_checked_one_by_one(
    call: Callable[..., httpx.Response], provider: OpenIdProvider, project: str, parallel: bool
) -> None:
    commands = [{method: document} for method, document in DOCUMENTS.items() if method != "batch"]
    document = {"commands": commands, "parallel": parallel}
    token = bearer(provider, "reader", project=project)
    replies = call("batch", document, Authorization=token).json()["replies"]
    refused = {
        method
        for command, reply in zip(commands, replies, strict=True)
        for method in command
        if reply.get("error", {}).get("code") == 103
    }
    assert refused == set(METHODS) - READING
    found = call("history", {"channel": "news"}, Authorization=token)
    assert found.json()["result"]["publications"] == []


def test_token_belongs_to_its_project(
    call: Callable[..., httpx.Response], provider: OpenIdProvider, project: str
) -> None:
    member = bearer(provider, "member", project=project)
    published = DOCUMENTS["publish"]
    assert call("publish", published, Authorization=member).json()["result"]["offset"] == 1
    for name in ("X-Project-ID", "X-Tenant-ID", "X-Tenant"):
        assert call("history", {}, Authorization=member, **{name: "default"}).status_code == 403
    for who in (bearer(provider, "admin"), f"apikey {API_KEY}"):
        shown = call("history", {"channel": "news"}, Authorization=who, X_Project_ID=project)
        assert shown.json()["result"]["offset"] == 1


def test_token_without_a_project_opens_none_but_to_an_administrator(
    call: Callable[..., httpx.Response], provider: OpenIdProvider, project: str
) -> None:
    for headers in ({}, {"X-Project-ID": project}):
        for role, status in (("member", 403), ("admin", 200)):
            token = bearer(provider, role, project=None)
            assert call("info", {}, Authorization=token, **headers).status_code == status


def test_caller_without_a_valid_credential_is_unauthorized(
    call: Callable[..., httpx.Response], provider: OpenIdProvider
) -> None:
    for headers in (
        {},
        {"X-API-Key": "wrong"},
        {"X-API-Key": "wrong", "Authorization": bearer(provider, "admin")},
        {"Authorization": f"Bearer {API_KEY}"},
        {"Authorization": f"{bearer(provider, 'admin')}x"},
        {"X-Roles": "admin"},
    ):
        refused = call("info", {}, **headers)
        assert refused.status_code == 401
        assert "WWW-Authenticate" in refused.headers


def test_queue_as_a_channel_takes_messages_of_writers_only(
    call: Callable[..., httpx.Response], provider: OpenIdProvider, project: str
) -> None:
    document = {"channel": "queue:orders", "data": {"n": 1}}
    assert (
        call(
            "publish", document, Authorization=bearer(provider, "reader", project=project)
        ).status_code
        == 403
    )
    posted = call("publish", document, Authorization=bearer(provider, "member", project=project))
    assert posted.json()["result"]["offset"] == 1
