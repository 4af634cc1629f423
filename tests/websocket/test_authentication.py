# SPDX-License-Identifier: Apache-2.0
"""Who may ask for what, over a socket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.websocket import guarded_app
from tests.websocket.conftest import GuardedService
from tests.websocket.peers import ApiPeer, ApiResponse, api_peer

REFUSED = ApiResponse(403, {"error": "Not authenticated."})
FAILED = ApiResponse(401, {"error": "Authentication failed."})
WELCOME = ApiResponse(200, {"message": "Authentified."})


@pytest.fixture
def stranger(guarded: GuardedService, project: str) -> Iterator[ApiPeer]:
    """A client that has not authenticated."""
    with api_peer(guarded.running, project) as connected:
        yield connected


def _signed(
    guarded: GuardedService, token: str, project: str, queue: str, **share: Any
) -> dict[str, Any]:
    """Returns the headers of a URL that was signed over the REST API."""
    headers = {"X-Auth-Token": token, "X-Project-ID": project, "Client-ID": str(uuid.uuid4())}
    answer = httpx.post(
        f"{guarded.running.url}/v2/queues/{queue}/share", json=share, headers=headers
    )
    signed = answer.raise_for_status().json()
    return {
        "URL-Signature": signed["signature"],
        "URL-Expires": signed["expires"],
        "URL-Methods": signed["methods"],
        "URL-Paths": signed["paths"],
    }


@pytest.mark.parametrize("binary", [False, True])
def test_everything_but_authenticate_is_refused_before_it(
    guarded: GuardedService, project: str, member: str, binary: bool
) -> None:
    with api_peer(guarded.running, project, binary=binary) as peer:
        assert peer.ask("queue_list") == REFUSED
        # A credential counts in the request that authenticates only.
        assert peer.ask("queue_list", {"X-Auth-Token": member}) == REFUSED
        assert peer.ask("authenticate", {"X-Auth-Token": member}) == WELCOME
        assert peer.ask("queue_list").status == 200


def test_bearer_authenticates_too(guarded: GuardedService, stranger: ApiPeer, member: str) -> None:
    assert stranger.ask("authenticate", {"Authorization": member}) == WELCOME
    assert stranger.ask("queue_list").status == 200


def test_failed_authentication_changes_nothing_and_can_be_repeated(
    stranger: ApiPeer, member: str
) -> None:
    for _ in range(2):
        assert stranger.ask("authenticate", {"X-Auth-Token": "wrong"}) == FAILED
        assert stranger.ask("authenticate") == FAILED
        assert stranger.ask("queue_list") == REFUSED
    assert stranger.ask("authenticate", {"X-Auth-Token": member}) == WELCOME
    assert stranger.ask("authenticate", {"X-Auth-Token": "wrong"}) == FAILED
    assert stranger.ask("queue_list").status == 200


def test_foreign_project_is_refused_by_the_policy(
    guarded: GuardedService, stranger: ApiPeer, member: str
) -> None:
    stranger.ask("authenticate", {"X-Auth-Token": member})
    refused = stranger.ask("queue_list", {"X-Project-ID": "another"})
    assert refused.status == 403
    assert "another" in refused.body["error"]
    guarded.put("root", "of-the-operator", "admin")
    stranger.ask("authenticate", {"X-Auth-Token": "root"})
    assert stranger.ask("queue_list", {"X-Project-ID": "another"}).status == 200


WRITING: dict[str, dict[str, Any]] = {
    "queue_create": {},
    "queue_delete": {},
    "queue_purge": {},
    "message_post": {"messages": [{"body": 1, "ttl": 60}]},
    "message_delete": {"message_id": "x"},
    "message_delete_many": {"pop": 1},
    "claim_create": {},
    "claim_update": {"claim_id": "x"},
    "claim_delete": {"claim_id": "x"},
    "claim_release": {"claim_id": "x"},
    "subscription_create": {},
    "subscription_delete": {"subscription_id": "x"},
}


def test_reader_reads_and_does_not_write(
    guarded: GuardedService, stranger: ApiPeer, project: str
) -> None:
    guarded.put("reader", project, "reader")
    stranger.ask("authenticate", {"X-Auth-Token": "reader"})
    statuses = {
        action: stranger.ask(action, queue_name="q", **body).status
        for action, body in WRITING.items()
    }
    assert statuses == dict.fromkeys(WRITING, 403)
    assert stranger.ask("message_list", queue_name="q").status == 200
    assert stranger.ask("queue_list").body == {"queues": []}


@pytest.mark.parametrize("header", ["X-Roles", "x-roles", "X_ROLES", "X-Is-Admin", "X-User-Id"])
def test_identity_headers_in_frames_give_no_right(
    guarded: GuardedService, stranger: ApiPeer, project: str, header: str
) -> None:
    assert stranger.ask("queue_list", {header: "admin"}) == REFUSED
    guarded.put("reader", project, "reader")
    stranger.ask("authenticate", {"X-Auth-Token": "reader", header: "admin"})
    assert stranger.ask("queue_create", {header: "admin"}, queue_name="q").status == 403


def test_revoked_token_closes_an_idle_socket(
    guarded: GuardedService, stranger: ApiPeer, member: str
) -> None:
    stranger.ask("authenticate", {"X-Auth-Token": member})
    guarded.revoke(member)
    assert stranger.expect_close() == (4003, "Authentication expired.")


def test_request_with_an_expired_token_is_refused_and_closes_the_socket(
    guarded: GuardedService, stranger: ApiPeer, member: str
) -> None:
    stranger.ask("authenticate", {"X-Auth-Token": member})
    guarded.revoke(member)
    while (response := stranger.ask("queue_list")) != REFUSED:
        assert response.status == 200  # it is known for a moment
    assert stranger.expect_close() == (4003, "Authentication expired.")


def test_token_that_cannot_be_checked_gives_503_and_the_socket_stays(
    guarded: GuardedService, stranger: ApiPeer, project: str, member: str
) -> None:
    guarded.put(member, guarded_app.UNKNOWN)
    assert stranger.ask("authenticate", {"X-Auth-Token": member}).status == 503
    guarded.put(member, project, "member")
    assert stranger.ask("authenticate", {"X-Auth-Token": member}) == WELCOME


def test_signed_url_opens_its_paths_and_methods_only(
    guarded: GuardedService, stranger: ApiPeer, project: str, member: str
) -> None:
    signed = _signed(guarded, member, project, "q", paths=["messages"], methods=["GET", "POST"])
    message = [{"body": 1, "ttl": 60}]
    posted = stranger.ask("message_post", signed, queue_name="q", messages=message)
    assert posted.status == 201
    [id] = posted.body["message_ids"]
    assert stranger.ask("message_list", signed, queue_name="q").status == 200
    assert stranger.ask("message_get", signed, queue_name="q", message_id=id).status == 200
    closed: dict[str, dict[str, Any]] = {
        "message_delete": {"queue_name": "q", "message_id": id},
        "message_list": {"queue_name": "other"},
        "message_post": {"queue_name": "q/messages/x", "messages": message},
        "claim_create": {"queue_name": "q"},
        "subscription_create": {"queue_name": "q"},
        "queue_get": {"queue_name": "q"},
    }
    for action, body in closed.items():
        refused = stranger.ask(action, signed, **body)
        assert refused.status in (400, 403), action
    assert stranger.ask("queue_list", signed) == REFUSED
    assert stranger.ask("message_list", queue_name="q") == REFUSED


@pytest.mark.parametrize(
    "changes",
    [
        *({"URL-Signature": "0" * 64}, {"URL-Signature": ""}),
        *({"URL-Expires": "2100-01-01T00:00:00"}, {"URL-Methods": ["GET", "DELETE"]}),
        *({"URL-Paths": ["/v2/queues/q/messages", "/v2/queues/q/claims"]},),
        *({"URL-Paths": ["/v2/queues"]}, {"X-Project-ID": "another"}),
    ],
)
def test_signed_url_with_a_changed_part_opens_nothing(
    guarded: GuardedService, stranger: ApiPeer, project: str, member: str, changes: dict[str, Any]
) -> None:
    signed = _signed(guarded, member, project, "q")
    assert stranger.ask("message_list", signed, queue_name="q").status == 200
    assert stranger.ask("message_list", signed | changes, queue_name="q") == REFUSED


def test_signed_url_gives_no_more_than_it_says_on_an_authenticated_socket(
    guarded: GuardedService, stranger: ApiPeer, project: str, member: str
) -> None:
    stranger.ask("authenticate", {"X-Auth-Token": member})
    signed = _signed(guarded, member, project, "q")
    assert stranger.ask("claim_create", signed, queue_name="q") == REFUSED
    assert stranger.ask("claim_create", queue_name="q").status == 204


def test_subscription_by_a_signed_url_ends_with_it(
    guarded: GuardedService, stranger: ApiPeer, member: str, project: str
) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=90)).strftime("%Y-%m-%dT%H:%M:%S")
    share = {"paths": ["subscriptions"], "methods": ["POST"], "expires": until}
    signed = _signed(guarded, member, project, "q", **share)
    made = stranger.ask("subscription_create", signed, queue_name="q", ttl=3600)
    assert made.status == 201
    with api_peer(guarded.running, project) as owner:
        owner.ask("authenticate", {"X-Auth-Token": member})
        id = made.body["subscription_id"]
        found = owner.ask("subscription_get", queue_name="q", subscription_id=id)
    assert 0 < found.body["ttl"] <= 90
