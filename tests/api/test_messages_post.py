# SPDX-License-Identifier: Apache-2.0
"""Posting messages: order, ids, limits, delays, checksums, encryption."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support.backends import Backend


def test_post_messages(api: ZaqarTestClient) -> None:
    answer = api.post("q", {"body": "a"}, {"body": "b", "ttl": 60})
    assert answer.status_code == 201
    first, second = answer.json()["resources"]
    assert set(answer.json()) == {"resources"}
    for href in (first, second):
        prefix, _, message = href.rpartition("/")
        assert prefix == "/v2/queues/q/messages"
        uuid.UUID(message)
    ids = f"{first.rpartition('/')[2]},{second.rpartition('/')[2]}"
    assert answer.headers["Location"] == f"/v2/queues/q/messages?ids={ids}"
    found = api.follow(answer.headers["Location"]).json()["messages"]
    assert [(item["href"], item["body"], item["ttl"]) for item in found] == [
        (first, "a", 3600),
        (second, "b", 60),
    ]


BODIES: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "",
    "text",
    "ünï©ode \u2028 \U0001f600 \x00",
    [],
    {},
    {"a": [1, {"b": None}]},
    2**63 - 1,
    10**25,
]


def test_any_json_value_is_accepted_as_a_body(api: ZaqarTestClient) -> None:
    ids = api.send("q", *BODIES)
    assert api.bodies("q", limit=20) == BODIES
    for message, body in zip(ids, BODIES, strict=True):
        assert api.message("q", message).json()["body"] == body
    assert [item["body"] for item in api.pop("q", 20).json()["messages"]] == BODIES


def test_bodies_are_returned_byte_for_byte(api: ZaqarTestClient) -> None:
    text = b'{ "b" : 1.10, "a":1e2,"a" : "\\u00e4\xc3\xa4" }'
    api.request("POST", "/queues/q/messages", content=b'{"messages":[{"body":' + text + b"}]}")
    assert text in api.list("q").content


def test_unknown_fields_of_a_message_are_ignored(api: ZaqarTestClient) -> None:
    content = {"messages": [{"body": 1, "colour": "blue", "id": "x"}], "more": 1}
    assert api.request("POST", "/queues/q/messages", content).status_code == 201
    (item,) = api.list("q").json()["messages"]
    assert set(item) == {"id", "href", "ttl", "age", "body"}


def test_null_ttl_and_delay_mean_the_default(api: ZaqarTestClient) -> None:
    assert api.post("q", {"body": 1, "ttl": None, "delay": None}).status_code == 201
    assert api.list("q").json()["messages"][0]["ttl"] == 3600


@pytest.mark.parametrize("ttl", [60, 61, 1209599, 1209600])
def test_ttl_within_its_range(api: ZaqarTestClient, ttl: int) -> None:
    api.send("q", 1, ttl=ttl)
    assert api.list("q").json()["messages"][0]["ttl"] == ttl


@pytest.mark.parametrize("ttl", [59, 0, -1, 1209601, 2**31, 2**63, 10**40])
def test_ttl_out_of_its_range(api: ZaqarTestClient, ttl: int) -> None:
    answer = api.post("q", {"body": 0}, {"body": 1, "ttl": ttl})
    assert answer.status_code == 400
    assert "ttl" in answer.text
    assert api.bodies("q") == []


@pytest.mark.parametrize(
    "wrong",
    [{"ttl": 1}, {"delay": 901}, {"attributes": {"": 1}}, {"attributes": {"_group": "a"}}],
)
def test_refused_message_of_several_is_named(
    api: ZaqarTestClient, wrong: dict[str, object]
) -> None:
    answer = api.post("q", {"body": 1}, {"body": 2} | wrong, {"body": 3})
    refused(answer, 400, *wrong, "at `$.messages[1]`")
    assert "$" not in api.post("q", {"body": 2} | wrong).text
    assert api.list("q").json()["messages"] == []


@pytest.mark.parametrize("delay", [0, 1, 899, 900])
def test_delay_within_its_range(api: ZaqarTestClient, delay: int) -> None:
    assert api.post("q", {"body": 1, "delay": delay}).status_code == 201


@pytest.mark.parametrize("delay", [-1, 901, 2**63, 10**40])
def test_delay_out_of_its_range(api: ZaqarTestClient, delay: int) -> None:
    answer = api.post("q", {"body": 1, "delay": delay})
    assert answer.status_code == 400
    assert "delay" in answer.text


def _in(**time: float) -> str:
    return (datetime.now(UTC) + timedelta(**time)).isoformat()


def test_scheduled_message_is_delayed_until_its_time(api: ZaqarTestClient) -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    api.send("q", "zoned", deliver_at=datetime.now(there).replace(microsecond=0).isoformat())
    api.send("q", "past", deliver_at="1969-07-20T20:17:40")
    api.send("q", "later", ttl=60, deliver_at=_in(days=365))
    assert api.bodies("q") == ["zoned", "past"]
    later = api.list("q", include_delayed=True).json()["messages"][2]
    assert 0 <= later["ttl"] - 365 * 86400 - 60 <= 1
    assert api.request("DELETE", f"/queues/q/messages/{later['id']}").status_code == 204
    assert api.bodies("q", include_delayed=True) == ["zoned", "past"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"deliver_at": "tomorrow"}, ["deliver_at", "ISO 8601", "messages[1]"]),
        ({"deliver_at": _in(days=367)}, ["deliver_at", "366 days", "messages[1]"]),
        ({"deliver_at": "9999-12-31T23:59:59-23:00"}, ["deliver_at", "366 days", "messages[1]"]),
        ({"deliver_at": 1}, ["deliver_at"]),
        ({"deliver_at": _in(days=1), "delay": 0}, ["deliver_at", "delay", "messages[1]"]),
    ],
)
def test_wrong_schedule_is_refused_and_named(
    api: ZaqarTestClient, wrong: dict[str, object], named: list[str]
) -> None:
    answer = api.post("q", {"body": 1}, {"body": 2, **wrong})
    assert answer.status_code == 400
    assert all(name in answer.json()["description"] for name in named)
    assert api.bodies("q") == []


def _sized(size: int) -> bytes:
    frame = b'{"messages":[{"body":""}]}'
    return frame.replace(b'""', b'"' + b"x" * (size - len(frame)) + b'"')


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("size", "status"), [(262143, 201), (262144, 201), (262145, 400), (300 * 1024, 400)]
)
def test_size_of_a_request(api: ZaqarTestClient, size: int, status: int, chunked: bool) -> None:
    content = _sized(size)
    assert len(content) == size
    if chunked:
        pieces = (content[at : at + 50_000] for at in range(0, size, 50_000))
        answer = api.http.post(
            f"{api.url}/v2/queues/q/messages",
            content=pieces,
            headers={"Client-ID": api.client, "X-Project-ID": api.project},
        )
    else:
        answer = api.request("POST", "/queues/q/messages", content=content)
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "Messages", "262144 bytes")
    assert api.stats("q")["total"] == (1 if status == 201 else 0)


def test_many_messages_in_one_request(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(5000))
    assert len(set(ids)) == 5000
    assert api.counts("q") == (5000, 0, 5000)
    assert api.bodies("q", marker=ids[4989]) == list(range(4990, 5000))
    assert api.message("q", ids[2500]).json()["body"] == 2500


def test_delay_overrides_the_default_of_the_queue(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_delay=600)
    api.post("q", {"body": "later"}, {"body": "now", "delay": 0}, {"body": "own", "delay": 900})
    assert api.bodies("q") == ["now"]
    assert api.bodies("q", include_delayed=True) == ["later", "now", "own"]
    assert api.counts("q") == (3, 0, 3)
    _, messages = api.hold("q", 10)
    assert [message["body"] for message in messages] == ["now"]
    assert api.pop("q", 10).json() == {"messages": []}


def test_delay_applies_in_a_queue_without_default(api: ZaqarTestClient) -> None:
    api.send("q", 1, delay=600)
    assert api.bodies("q") == []
    assert api.bodies("q", include_delayed=True) == [1]
    assert api.claim("q").status_code == 204


def test_a_delayed_message_can_be_read_and_deleted(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_delay=600)
    (message,) = api.send("q", 1)
    assert api.message("q", message).json()["body"] == 1
    assert api.delete("q", message).status_code == 204
    assert api.bodies("q", include_delayed=True) == []


@pytest.mark.parametrize("body", BODIES)
def test_checksum(rich: ZaqarTestClient, body: object) -> None:
    (message,) = rich.send("q", body)
    expected = f"MD5:{hashlib.md5(json.dumps(body).encode()).hexdigest()}"
    assert rich.message("q", message).json()["checksum"] == expected
    assert rich.list("q").json()["messages"][0]["checksum"] == expected
    claim, (held,) = rich.hold("q")
    assert held["checksum"] == expected
    rich.release("q", claim)
    assert rich.pop("q", 1).json()["messages"][0]["checksum"] == expected


def test_checksum_does_not_depend_on_how_the_body_was_written(rich: ZaqarTestClient) -> None:
    for text in (b'{"a":1,"b":[2]}', b'{ "a" : 1, "b" : [ 2 ] }'):
        rich.request("POST", "/queues/q/messages", content=b'{"messages":[{"body":%s}]}' % text)
    sums = {item["checksum"] for item in rich.list("q").json()["messages"]}
    assert len(sums) == 1


@pytest.mark.parametrize("text", [b"9" * 5000, b"[" * 1500 + b"]" * 1500])
def test_bodies_too_large_or_deep_for_a_checksum_are_refused(
    rich: ZaqarTestClient, text: bytes
) -> None:
    content = b'{"messages":[{"body":%s}]}' % text
    answer = rich.request("POST", "/queues/q/messages", content=content)
    refused(answer, 400, "Request body")
    assert rich.bodies("q") == []


def test_messages_have_no_checksum_by_default(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    assert "checksum" not in api.list("q").json()["messages"][0]


SECRET = {"secret": "attack at dawn"}


def test_encrypted_bodies_are_decrypted_by_every_read(
    rich: ZaqarTestClient, redis_server: Backend
) -> None:
    rich.create("q", _enable_encrypt_messages=True)
    ids = rich.send("q", SECRET, SECRET)
    with redis_server.client() as client:
        (bodies,) = client.scan_iter(f"*{rich.project}*:bodies", count=10_000)
        stored = b"".join(client.hvals(bodies))
    assert b"attack" not in stored
    assert rich.bodies("q") == [SECRET, SECRET]
    assert rich.message("q", ids[0]).json()["body"] == SECRET
    found = rich.get("/queues/q/messages", ids=",".join(ids)).json()["messages"]
    assert [item["body"] for item in found] == [SECRET, SECRET]
    claim, (held,) = rich.hold("q", 1)
    assert held["body"] == SECRET
    assert rich.claimed("q", claim).json()["messages"][0]["body"] == SECRET
    assert rich.pop("q", 1).json()["messages"][0]["body"] == SECRET


def test_encryption_begins_and_ends_with_the_attribute(rich: ZaqarTestClient) -> None:
    rich.send("q", "plain")
    change = {"op": "add", "path": "/metadata/_enable_encrypt_messages", "value": True}
    assert rich.patch("q", change).status_code == 200
    rich.send("q", "encrypted")
    assert rich.patch("q", change | {"value": False}).status_code == 200
    rich.send("q", "plain again")
    assert rich.bodies("q") == ["plain", "encrypted", "plain again"]


def test_encryption_without_configured_key_is_refused(api: ZaqarTestClient) -> None:
    refused(api.create("q", _enable_encrypt_messages=True), 400, "message_encryption_key")


def test_encrypted_message_without_configured_key_names_the_option(
    api: ZaqarTestClient, rich: ZaqarTestClient
) -> None:
    rich.create("q", _enable_encrypt_messages=True)
    rich.send("q", SECRET)
    refused(api.list("q"), 500, "message_encryption_key")
    refused(api.post("q", {"body": SECRET}), 500, "message_encryption_key")
    assert rich.bodies("q") == [SECRET]


@pytest.mark.parametrize(("number", "named"), [(19, True), (20, True), (21, False), (2000, False)])
def test_location_names_the_ids_up_to_the_limit_of_one_request(
    api: ZaqarTestClient, number: int, named: bool
) -> None:
    location = api.post("q", *[{"body": 1}] * number).headers["Location"]
    assert ("?ids=" in location) is named
    answer = api.follow(location)
    assert answer.status_code == 200
    if named:
        assert len(answer.json()["messages"]) == number
