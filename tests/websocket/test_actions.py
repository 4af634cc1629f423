# SPDX-License-Identifier: Apache-2.0
"""Every action, in both encodings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient
from tests.support.servers import RunningService
from tests.websocket.peers import ApiPeer, ApiResponse


def _post(peer: ApiPeer, *bodies: object) -> list[str]:
    messages = [{"body": body, "ttl": 300} for body in bodies]
    posted = peer.ask("message_post", queue_name="q", messages=messages)
    assert posted.status == 201
    ids: list[str] = posted.body["message_ids"]
    assert len(ids) == len(bodies)
    return ids


def test_queue_is_created_once_and_shown_as_it_was_created(peer: ApiPeer) -> None:
    created = ApiResponse(201, "Queue q created.")
    assert peer.ask("queue_create", queue_name="q", metadata={"a": 1}) == created
    assert peer.ask("queue_create", queue_name="q") == created._replace(status=204)
    assert peer.ask("queue_get", queue_name="q") == ApiResponse(200, {"a": 1})


def test_missing_queue_has_no_metadata_and_no_stats(peer: ApiPeer) -> None:
    assert peer.ask("queue_get", queue_name="q") == ApiResponse(200, {})
    counts = {"messages": {"claimed": 0, "free": 0, "total": 0}}
    assert peer.ask("queue_get_stats", queue_name="q") == ApiResponse(404, counts)


def test_queue_list_pages_by_name_and_shows_details_on_request(peer: ApiPeer) -> None:
    for name in ("a", "b", "c"):
        peer.ask("queue_create", queue_name=name, metadata={"of": name})
    first = peer.ask("queue_list", limit=2)
    assert first == ApiResponse(200, {"queues": [{"name": "a"}, {"name": "b"}]})
    second = peer.ask("queue_list", marker="b", detailed=True)
    assert second.body == {"queues": [{"name": "c", "metadata": {"of": "c"}}]}
    peer.ask("queue_delete", queue_name="a")
    assert [each["name"] for each in peer.ask("queue_list").body["queues"]] == ["b", "c"]


def test_queue_list_needs_no_body(peer: ApiPeer) -> None:
    peer.send({"action": "queue_list", "headers": peer.headers})
    response = peer.receive()
    assert response["headers"] == {"status": 200}
    assert response["request"]["body"] == {}


def test_names_without_an_effect_are_named(peer: ApiPeer) -> None:
    body = {"queue_name": "q", "metadata": {"_max_claims": 3}, "metdata": {}}
    peer.send({"action": "queue_create", "headers": peer.headers, "body": body})
    assert peer.receive()["headers"] == {"status": 201, "Ignored": ["metdata", "_max_claims"]}
    peer.send({"action": "queue_create", "headers": peer.headers, "body": body})
    assert peer.receive()["headers"] == {"status": 204, "Ignored": ["metdata", "_max_claims"]}


def test_deleted_queue_is_confirmed_by_its_name(peer: ApiPeer) -> None:
    assert peer.ask("queue_delete", queue_name="q") == ApiResponse(204, "Queue q removed.")


def test_stats_name_the_oldest_and_the_newest_message(peer: ApiPeer) -> None:
    ids = _post(peer, 1, 2, 3)
    peer.ask("claim_create", queue_name="q", limit=1)
    stats = peer.ask("queue_get_stats", queue_name="q")
    assert stats.status == 200
    counts = stats.body["messages"]
    assert (counts["claimed"], counts["free"], counts["total"]) == (1, 2, 3)
    assert [counts["oldest"]["id"], counts["newest"]["id"]] == [ids[0], ids[2]]
    assert counts["oldest"].keys() == {"id", "age", "created"}


def test_detailed_stats_are_those_of_rest(peer: ApiPeer) -> None:
    _post(peer, 1, 2)
    detailed = {"queue_name": "q", "detailed": True}
    body = peer.ask("queue_get_stats", **detailed).body
    assert body["messages"]["delayed"] == 0
    assert body["messages"]["bytes"] > 0
    assert (body["counters"]["posted"], body["counters"]["refused"]) == (2, 0)
    peer.ask("queue_delete", queue_name="q")
    missing = peer.ask("queue_get_stats", **detailed)
    assert missing == ApiResponse(404, {"messages": {"claimed": 0, "free": 0, "total": 0}})


def test_popped_message_has_its_first_claim_and_last_reason(peer: ApiPeer) -> None:
    _post(peer, 1)
    claim = peer.ask("claim_create", queue_name="q").body["claim_id"]
    peer.ask("claim_release", queue_name="q", claim_id=claim, reason="no ink")
    popped = peer.ask("message_delete_many", queue_name="q", pop=1, detailed=True)
    (shown,) = popped.body["messages"]
    assert (shown["claim_count"], shown["reason"]) == (2, "no ink")
    assert shown["first_claimed"].endswith("Z")


def test_purge_empties_what_it_names(peer: ApiPeer) -> None:
    _post(peer, 1)
    created = peer.ask("subscription_create", queue_name="q", subscriber="http://example.org/")
    assert created.status == 201
    purged = peer.ask("queue_purge", queue_name="q", resource_types=["messages"])
    assert purged == ApiResponse(204, {})
    assert peer.ask("message_list", queue_name="q", echo=True).body == {"messages": []}
    assert len(peer.ask("subscription_list", queue_name="q").body["subscriptions"]) == 1
    peer.ask("queue_purge", queue_name="q")
    assert peer.ask("subscription_list", queue_name="q").body == {"subscriptions": []}


def test_purge_over_rest_deletes_subscriptions_too(service: RunningService, peer: ApiPeer) -> None:
    peer.ask("subscription_create", queue_name="q", subscriber="http://example.org/")
    with httpx.Client() as http:
        rest = ZaqarTestClient(http, service.url, peer.project)
        assert rest.request("POST", "/queues/q/purge").status_code == 204
    assert peer.ask("subscription_list", queue_name="q").body == {"subscriptions": []}


BODIES = [None, True, 5, -1.5, "text ü 🜚", ["a", {"b": [2**63]}], {"c": {"d": None}}]


def test_messages_come_back_as_they_were_posted(peer: ApiPeer) -> None:
    ids = _post(peer, *BODIES)
    listed = peer.ask("message_list", queue_name="q", echo=True)
    assert listed.status == 200
    assert [each["body"] for each in listed.body["messages"]] == BODIES
    assert [each["id"] for each in listed.body["messages"]] == ids
    assert listed.body["messages"][0].keys() == {"id", "claim_id", "ttl", "age", "body"}
    assert listed.body["messages"][0]["ttl"] == 300
    assert listed.body["messages"][0]["claim_id"] is None


def test_message_list_hides_own_and_claimed_messages_unless_it_is_asked_for_them(
    peer: ApiPeer,
) -> None:
    ids = _post(peer, 1, 2, 3)
    claim = peer.ask("claim_create", queue_name="q", limit=1).body["claim_id"]
    assert peer.ask("message_list", queue_name="q").body == {"messages": []}
    others = peer.ask("message_list", queue_name="q", echo=True, limit=1).body["messages"]
    assert [each["id"] for each in others] == ids[1:2]
    marked = peer.ask("message_list", queue_name="q", echo=True, marker=ids[1]).body["messages"]
    assert [each["id"] for each in marked] == ids[2:]
    found = peer.ask("message_list", queue_name="q", echo=True, include_claimed=True)
    assert [each["claim_id"] for each in found.body["messages"]] == [claim, None, None]


def test_message_list_hides_delayed_messages_unless_it_is_asked_for_them(peer: ApiPeer) -> None:
    peer.ask("message_post", queue_name="q", messages=[{"body": 1, "ttl": 300, "delay": 60}])
    assert peer.ask("message_list", queue_name="q", echo=True).body == {"messages": []}
    found = peer.ask("message_list", queue_name="q", echo=True, include_delayed=True)
    assert [each["body"] for each in found.body["messages"]] == [1]


def test_messages_are_found_by_their_ids(peer: ApiPeer) -> None:
    ids = _post(peer, "a", "b")
    one = peer.ask("message_get", queue_name="q", message_id=ids[1])
    assert (one.status, one.body["messages"]["body"]) == (200, "b")
    many = peer.ask("message_get_many", queue_name="q", message_ids=[ids[1], ids[0], "none"])
    assert [each["body"] for each in many.body["messages"]] == ["b", "a"]
    assert peer.ask("message_get", queue_name="q", message_id="none").status == 404


def test_claimed_message_is_deleted_with_its_claim_only(peer: ApiPeer) -> None:
    ids = _post(peer, 1)
    claim = peer.ask("claim_create", queue_name="q").body["claim_id"]
    named = {"queue_name": "q", "message_id": ids[0]}
    assert peer.ask("message_delete", **named).status == 403
    assert peer.ask("message_delete", **named, claim_id="0" * 32).status in (400, 403)
    assert peer.ask("message_delete", **named, claim_id=claim) == ApiResponse(204, {})
    assert peer.ask("message_get", **named).status == 404


def test_messages_are_deleted_by_ids_or_popped(peer: ApiPeer) -> None:
    ids = _post(peer, 1, 2, 3)
    deleted = peer.ask("message_delete_many", queue_name="q", message_ids=ids[:1])
    assert deleted == ApiResponse(204, {})
    popped = peer.ask("message_delete_many", queue_name="q", pop=1)
    assert popped.status == 200
    assert [each["id"] for each in popped.body["messages"]] == ids[1:2]
    assert popped.body["messages"][0]["body"] == 2
    both = peer.ask("message_delete_many", queue_name="q", message_ids=ids, pop=1)
    neither = peer.ask("message_delete_many", queue_name="q")
    assert (both.status, neither.status) == (400, 400)
    assert 'Either "message_ids" or "pop"' in both.body["error"]
    assert peer.ask("queue_get_stats", queue_name="q").body["messages"]["total"] == 1


def test_claim_is_created_shown_renewed_and_released(
    peer: ApiPeer, service: RunningService
) -> None:
    ids = _post(peer, "a", "b")
    claimed = peer.ask("claim_create", queue_name="q", limit=1, ttl=100, grace=100)
    assert claimed.status == 201
    claim = claimed.body["claim_id"]
    [message] = claimed.body["messages"]
    assert (message["id"], message["claim_id"], message["body"]) == (ids[0], claim, "a")
    named = {"queue_name": "q", "claim_id": claim}
    shown = peer.ask("claim_get", **named)
    assert shown.status == 200
    assert shown.body["ttl"] == 100
    assert [each["claim_id"] for each in shown.body["messages"]] == [claim]
    with httpx.Client() as http:
        [listed] = (
            ZaqarTestClient(http, service.url, peer.project)
            .get("/queues/q/claims")
            .json()["claims"]
        )
    assert (listed["id"], listed["client_id"]) == (claim, peer.headers["Client-ID"])
    updated = ApiResponse(204, f"Claim {claim} updated.")
    assert peer.ask("claim_update", **named, ttl=200, grace=60) == updated
    assert peer.ask("claim_get", **named).body["ttl"] == 200
    some = {**named, "message_ids": [message["id"], ids[1]]}
    renewed = {"renewed": [message["id"]], "left": [ids[1]]}
    assert peer.ask("claim_update", **some, ttl=300) == ApiResponse(200, renewed)
    assert peer.ask("claim_get", **named).body["ttl"] == 300
    released = {"released": [], "left": [ids[1]]}
    only_other = {**named, "message_ids": ids[1:], "delay": 5}
    assert peer.ask("claim_release", **only_other) == ApiResponse(200, released)
    refused = peer.ask("claim_release", **named, message_ids=[])
    assert (refused.status, "message_ids" in str(refused.body)) == (400, True)
    assert peer.ask("claim_release", **named, ids=[]).status == 400
    assert peer.ask("claim_delete", **named) == ApiResponse(204, f"Claim {claim} deleted.")
    assert peer.ask("claim_get", **named).status == 404
    assert peer.ask("claim_update", **named, ttl=200).status == 404
    assert peer.ask("claim_release", **named).status == 404


def test_attributes_are_shown_on_request(peer: ApiPeer) -> None:
    attributes = {"kind": "order", "price": 9.5, "photo": {"binary": "AP8="}}
    fields = {"group": "ann", "priority": 3}
    messages = [{"body": 1, "attributes": attributes, **fields}]
    [id] = peer.ask("message_post", queue_name="q", messages=messages).body["message_ids"]
    asked: dict[str, object] = {"queue_name": "q", "with_attributes": True}
    assert (
        "attributes" not in peer.ask("message_get", queue_name="q", message_id=id).body["messages"]
    )
    single = peer.ask("message_get", message_id=id, **asked).body["messages"]
    claim = peer.ask("claim_create", **asked).body
    again = peer.ask("claim_get", claim_id=claim["claim_id"], **asked).body
    peer.ask("claim_delete", queue_name="q", claim_id=claim["claim_id"])
    many = peer.ask("message_get_many", message_ids=[id], **asked).body
    listed = peer.ask("message_list", echo=True, **asked).body
    popped = peer.ask("message_delete_many", pop=1, **asked).body
    shown = [single, *(each["messages"][0] for each in (claim, again, many, listed, popped))]
    assert [each["attributes"] for each in shown] == [attributes] * 6
    assert all(fields.items() <= each.items() for each in shown)


def test_number_of_claims_is_shown_on_request(peer: ApiPeer) -> None:
    messages = [{"body": 1}]
    [id] = peer.ask("message_post", queue_name="q", messages=messages).body["message_ids"]
    asked: dict[str, object] = {"queue_name": "q", "detailed": True}
    plain = peer.ask("claim_create", queue_name="q").body
    assert "claim_count" not in plain["messages"][0]
    peer.ask("claim_delete", queue_name="q", claim_id=plain["claim_id"])
    claim = peer.ask("claim_create", **asked).body
    again = peer.ask("claim_get", claim_id=claim["claim_id"], **asked).body
    many = peer.ask("message_get_many", message_ids=[id], **asked).body
    listed = peer.ask("message_list", echo=True, include_claimed=True, **asked).body
    single = peer.ask("message_get", message_id=id, **asked).body["messages"]
    shown = [single, *(each["messages"][0] for each in (claim, again, many, listed))]
    assert [each["claim_count"] for each in shown] == [2] * 5


def test_claim_of_nothing_has_no_id(peer: ApiPeer) -> None:
    assert peer.ask("claim_create", queue_name="q") == ApiResponse(204, {"claim_id": None})


def test_subscription_is_created_once_shown_listed_and_deleted(peer: ApiPeer) -> None:
    given = {"queue_name": "q", "subscriber": "http://example.org/", "ttl": 600}
    created = peer.ask("subscription_create", **given, options={"a": 1})
    assert created.status == 201
    assert created.body["message"] == "Subscription q created."
    named = {"queue_name": "q", "subscription_id": created.body["subscription_id"]}
    refused = ApiResponse(409, "Subscription q not created.")
    assert peer.ask("subscription_create", **given) == refused
    shown = peer.ask("subscription_get", **named)
    assert shown.status == 200
    shown.body.pop("age")
    assert shown.body == {
        "id": named["subscription_id"],
        "source": "q",
        "subscriber": "http://example.org/",
        "ttl": 600,
        "options": {"a": 1},
        "confirmed": False,
    }
    listed = peer.ask("subscription_list", queue_name="q", limit=1).body["subscriptions"]
    assert [each["id"] for each in listed] == [named["subscription_id"]]
    removed = f"Subscription {named['subscription_id']} removed."
    assert peer.ask("subscription_delete", **named) == ApiResponse(204, removed)
    assert peer.ask("subscription_get", **named).status == 404


def test_subscription_is_changed_and_confirmed(peer: ApiPeer) -> None:
    created = peer.ask("subscription_create", queue_name="q", subscriber="http://example.org/")
    assert created.body["secret"].startswith("whsec_")
    named = {"queue_name": "q", "subscription_id": created.body["subscription_id"]}
    updated = ApiResponse(204, f"Subscription {named['subscription_id']} updated.")
    assert peer.ask("subscription_update", **named, ttl=900, paused=True) == updated
    assert peer.ask("subscription_confirm", **named, confirmed=True) == updated
    shown = peer.ask("subscription_get", **named).body
    assert (shown["ttl"], shown["paused"], shown["confirmed"]) == (900, True, True)
    assert peer.ask("subscription_update", **named).status == 400
    assert peer.ask("subscription_confirm", **named, confirmed=1).status == 400
    missing = {"queue_name": "q", "subscription_id": "none"}
    assert peer.ask("subscription_update", **missing, ttl=900).status == 404


def test_subscription_of_millennia_without_options_is_taken(peer: ApiPeer) -> None:
    given: dict[str, Any] = {"queue_name": "q", "ttl": 220367260800, "options": None}
    for subscriber in (None, "http://example.org/"):
        created = peer.ask("subscription_create", **given, subscriber=subscriber)
        assert created.status == 201
        named = {"queue_name": "q", "subscription_id": created.body["subscription_id"]}
        renewed = given | {"subscriber": None, "ttl": given["ttl"] + 1}
        assert peer.ask("subscription_update", **(renewed | named)).status == 204
        assert peer.ask("subscription_get", **named).body["ttl"] == given["ttl"] + 1


def test_subscription_of_a_socket_can_be_renewed_and_else_stays(peer: ApiPeer) -> None:
    created = peer.ask("subscription_create", queue_name="q")
    assert created.body.keys() == {"subscription_id", "message"}
    named = {"queue_name": "q", "subscription_id": created.body["subscription_id"]}
    assert peer.ask("subscription_update", **named, ttl=900).status == 204
    changes: tuple[dict[str, object], ...] = (
        {"paused": True},
        {"options": {}},
        {"subscriber": "http://example.org/"},
    )
    for change in changes:
        assert peer.ask("subscription_update", **named, **change).status == 400
    assert peer.ask("subscription_get", **named).body["ttl"] == 900


def test_subscription_creates_the_queue(peer: ApiPeer) -> None:
    peer.ask("subscription_create", queue_name="q")
    assert peer.ask("queue_list").body == {"queues": [{"name": "q"}]}


@pytest.mark.parametrize(
    "given",
    [
        *({"ttl": 59}, {"subscriber": "websocket:1"}, {"subscriber": "x"}),
        *({"subscriber": "http://example.org/\n"}, {"options": []}),
    ],
)
def test_wrong_subscription_is_refused_and_not_stored(
    text_peer: ApiPeer, given: dict[str, object]
) -> None:
    assert text_peer.ask("subscription_create", queue_name="q", **given).status == 400
    assert text_peer.ask("subscription_list", queue_name="q").body == {"subscriptions": []}


def test_encodings_may_change_from_frame_to_frame(text_peer: ApiPeer) -> None:
    for binary in (False, True, False):
        text_peer.binary = binary
        assert text_peer.ask("queue_list").status == 200


def test_responses_come_in_the_order_of_the_requests(text_peer: ApiPeer) -> None:
    for number in range(50):
        action = "queue_create" if number % 3 else "nothing"
        body = {"queue_name": f"q{number}"}
        text_peer.send({"action": action, "headers": text_peer.headers, "body": body})
    answered = [text_peer.receive()["request"]["body"]["queue_name"] for _ in range(50)]
    assert answered == [f"q{number}" for number in range(50)]


def test_integer_beyond_64_bits_comes_as_json_to_a_client_of_messagepack(
    text_peer: ApiPeer,
) -> None:
    _post(text_peer, 2**70)
    body = {"queue_name": "q", "pop": 1}
    text_peer.binary = True
    text_peer.send({"action": "message_delete_many", "headers": text_peer.headers, "body": body})
    text_peer.binary = False
    assert text_peer.receive()["body"]["messages"][0]["body"] == 2**70


def test_duplicates_are_named(peer: ApiPeer) -> None:
    messages = [{"body": 1, "ttl": 300, "dedup_id": "a"}, {"body": 2, "ttl": 300}]
    first, again = (
        peer.ask("message_post", queue_name="q", messages=messages).body for _ in range(2)
    )
    assert set(first) == {"message_ids"}
    assert again["duplicates"] == [0]
    assert again["message_ids"][0] == first["message_ids"][0]
    shown = peer.ask("message_list", queue_name="q", echo=True).body["messages"]
    assert [each.get("dedup_id") for each in shown] == ["a", None, None]


@pytest.fixture
def api(service: RunningService, project: str) -> Iterator[ZaqarTestClient]:
    with httpx.Client() as http:
        yield ZaqarTestClient(http, service.url, project)


def test_schedules_are_those_of_the_rest_api(peer: ApiPeer, api: ZaqarTestClient) -> None:
    given = {"queue": "jobs", "cron": "@daily", "message": {"body": [1]}, "from": "2031-01-01"}
    created = peer.ask("schedule_create", schedule_name="a", **given)
    assert created == ApiResponse(201, api.get("/schedules/a").json())
    assert created.body["next"] == "2031-01-01T00:00:00Z"
    paused = peer.ask("schedule_create", schedule_name="a", paused=True, **given)
    assert (paused.status, paused.body["paused"]) == (200, True)
    peer.ask("schedule_create", schedule_name="b", **given)
    assert peer.ask("schedule_get", schedule_name="a") == ApiResponse(200, paused.body)
    assert peer.ask("schedule_list").body == api.get("/schedules").json()
    assert peer.ask("schedule_list", limit=1).body["schedules"] == [paused.body]
    [listed] = peer.ask("schedule_list", marker="a").body["schedules"]
    assert listed["name"] == "b"
    gone = ApiResponse(204, "Schedule a removed.")
    assert peer.ask("schedule_delete", schedule_name="a") == gone
    assert peer.ask("schedule_get", schedule_name="a").status == 404


def test_bad_schedules_are_refused_as_by_the_rest_api(peer: ApiPeer, api: ZaqarTestClient) -> None:
    given: dict[str, Any] = {"queue": "jobs", "cron": "@daily", "message": {"body": 1}}
    for changes in ({"cron": "daily"}, {"queue": "a b"}, {"until": "2020-01-01"}):
        refused = peer.ask("schedule_create", schedule_name="a", **given | changes)
        problem = api.request("PUT", "/schedules/a", given | changes).json()
        assert refused.status == 400
        assert refused.body["error"] == problem["description"]
    for unknown in ({"cron": 5}, {"crom": "@daily"}):
        refused = peer.ask("schedule_create", schedule_name="a", **{**given, **unknown})
        assert refused.body["error"] == "Schema validation failed."
    for name in ("a b", "x" * 65):
        assert peer.ask("schedule_create", schedule_name=name, **given).status == 400
    assert peer.ask("schedule_list").body["schedules"] == []
