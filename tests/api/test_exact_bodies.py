# SPDX-License-Identifier: Apache-2.0
"""Bodies that are no JSON: text and bytes, which come back to the byte."""

from __future__ import annotations

import base64
import random
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused

OCTETS = "application/octet-stream"
BODIES = {
    "every-byte": bytes(range(256)),
    "invalid-utf-8": b"caf\xe9 \xc3\x28 \xed\xa0\x80 \xf8",
    "lone-cr-and-lf": b"a\rb\nc\r\n\n\r",
    "empty": b"",
    "nul": b"\x00",
    "controls": b"a\x01\x1f\x7fb",
    "four-byte-characters": "\U0001f600 \U0010ffff\uffff\u2028".encode(),
    "quotes-and-backslashes": b'"\\ \\u0041 \\n "',
    "looks-like-json": b'{"messages": [{"body": 1, "ttl": 60}]}',
    "looks-like-base64": b"AAECAw==",
    "spaces": b"  \t ",
    "bom": b"\xef\xbb\xbfx",
    "large-text": "ü".encode() * 90_000,
    "large-bytes": random.Random(1).randbytes(190_000),
}
each_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)


def post_raw(
    api: ZaqarTestClient, body: bytes, kind: str = "text/plain", **query: Any
) -> httpx.Response:
    headers = {"Content-Type": kind} if kind else {}
    return api.request("POST", "/queues/q/messages", content=body, headers=headers, **query)


def sent(api: ZaqarTestClient, body: bytes, kind: str = "text/plain", **query: Any) -> str:
    answer = post_raw(api, body, kind, **query)
    assert answer.status_code == 201, answer.text
    (href,) = answer.json()["resources"]
    return str(href).removeprefix("/v2")


def raw(api: ZaqarTestClient, href: str, accept: str = OCTETS) -> httpx.Response:
    return api.request("GET", href, headers={"Accept": accept})


def body_of(message: dict[str, Any]) -> bytes:
    """Returns what was posted, as a client learns it from a document."""
    assert isinstance(message["body"], str)
    if "body_encoding" in message:
        assert message["body_encoding"] == "base64"
        return base64.b64decode(message["body"], validate=True)
    return message["body"].encode()


@each_body
def test_raw_body_comes_back_to_the_byte_everywhere(api: ZaqarTestClient, body: bytes) -> None:
    href = sent(api, body, "application/x.some+thing; v=1")
    (listed,) = api.list("q").json()["messages"]
    shown = [listed, api.get(href).json(), *api.get("/queues/q/peek").json()["messages"]]
    claim, claimed = api.hold("q")
    api.release("q", claim)
    shown += [*claimed, *api.pop("q", 1).json()["messages"]]
    assert [body_of(each) == body for each in shown] == [True] * 5
    assert {each["content_type"] for each in shown} == {"application/x.some+thing; v=1"}


@each_body
def test_raw_body_is_answered_alone_with_its_type(api: ZaqarTestClient, body: bytes) -> None:
    href = sent(api, body, "text/html;charset=latin-1")
    for accept in (OCTETS, "text/html", "text/*", "application/octet-stream;q=0.1"):
        answer = raw(api, href, accept)
        assert (answer.status_code, answer.content == body) == (200, True)
        assert answer.headers["Content-Type"] == "text/html;charset=latin-1"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Disposition"] == "attachment"
        assert len(answer.headers.get_list("Content-Type")) == 1


@each_body
def test_body_of_a_document_comes_back_alone(api: ZaqarTestClient, body: bytes) -> None:
    encoded = {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    api.post("q", {"content_type": "a/b", **encoded}, {"body": 1})
    listed = api.list("q").json()["messages"]
    assert body_of(listed[0]) == body
    assert not {"content_type", "body_encoding"} & listed[1].keys()
    assert raw(api, listed[0]["href"].removeprefix("/v2")).content == body


@each_body
def test_raw_body_survives_encryption_and_the_way_to_the_dead_letters(
    rich: ZaqarTestClient, body: bytes
) -> None:
    api = rich
    api.create("dead")
    created = api.create(
        "q", _enable_encrypt_messages=True, _max_claim_count=1, _dead_letter_queue="dead"
    )
    assert created.status_code == 201
    href = sent(api, body, "a/b", group="g")
    assert raw(api, href).content == body
    claim, _ = api.hold("q")
    api.release("q", claim)
    assert api.claim("q").status_code == 204
    (letter,) = api.list("dead").json()["messages"]
    assert (body_of(letter) == body, letter["content_type"], letter["group"]) == (True, "a/b", "g")


def test_fields_of_a_raw_message_are_parameters(api: ZaqarTestClient) -> None:
    api.create("q", _dedup_window=60)
    fields: dict[str, Any] = {"ttl": 77, "group": "a b", "priority": 3, "dedup_id": "x&y"}
    href = sent(api, b"text", "text/plain", **fields, delay=0)
    shown = api.get(href).json()
    assert {name: shown.get(name) for name in fields} == fields
    again = post_raw(api, b"other", **fields).json()
    assert again == {"resources": [f"/v2{href}"], "duplicates": [0]}
    late = sent(api, b"late", delay=60)
    assert [each["href"] for each in api.list("q").json()["messages"]] == [f"/v2{href}"]
    assert raw(api, late).content == b"late"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"ttl": "x"}, "ttl"),
        ({"ttl": 1}, '"ttl" must be between 60 and'),
        ({"ttl": 10**30}, "ttl"),
        ({"delay": 901}, '"delay" must be between 0 and'),
        ({"delay": 1, "deliver_at": "2999-01-01"}, "deliver_at"),
        ({"deliver_at": "soon"}, "deliver_at"),
        ({"group": "x" * 129}, '"group" must be 1 to 128'),
        ({"group": "a\nb"}, '"group"'),
        ({"priority": 32}, '"priority"'),
        ({"dedup_id": "\t"}, '"dedup_id"'),
    ],
)
def test_wrong_parameter_of_a_raw_message_is_refused_and_named(
    api: ZaqarTestClient, query: dict[str, Any], why: str
) -> None:
    answer = post_raw(api, b"text", **query)
    refused(answer, 400, why)
    assert "$" not in answer.text  # there is no document
    assert api.get("/queues").json()["queues"] == []


def test_parameter_without_effect_is_named(api: ZaqarTestClient) -> None:
    assert post_raw(api, b"text", tll=60, ttl=60).headers["Ignored"] == '"tll"'
    document = b'{"messages": [{"body": 1}]}'
    ignored = post_raw(api, document, "application/json", ttl="x")
    assert (ignored.status_code, ignored.headers["Ignored"]) == (201, '"ttl"')


@pytest.mark.parametrize(
    "kind",
    [
        *("", "text", "application/json", "Application/JSON; charset=utf-8", "application/json;"),
        "application/vnd.openstack.messaging-v2+json",
        "application/openstack-messaging-v2.0-json-patch",
        "application/x-www-form-urlencoded; charset=utf-8",
    ],
)
def test_document_is_one_by_the_types_that_clients_send(api: ZaqarTestClient, kind: str) -> None:
    answer = post_raw(api, b'{"messages": [{"body": {"n": 1}}, {"body": 2}]}', kind)
    assert (answer.status_code, api.bodies("q")) == (201, [{"n": 1}, 2])
    refused(post_raw(api, b"text", kind), 400, "could not be parsed")


def test_form_is_refused_as_by_stock(api: ZaqarTestClient) -> None:
    refused(post_raw(api, b"a=b", "application/x-www-form-urlencoded"), 400, "")


WRONG_TYPES = [
    "/",
    "a/",
    "a b/c",
    "a/b; c",
    "a/b;c=",
    "text/plain\u00a0",
    "ä/b",
    "a/" + "b" * 127,
]


@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_wrong_content_type_is_refused_and_named(api: ZaqarTestClient, kind: str) -> None:
    refused(post_raw(api, b"text", kind), 400, '"content_type" must be a media type')
    refused(api.post("q", {"body": "x", "content_type": kind}), 400, '"content_type"')
    assert api.get("/queues").json()["queues"] == []


def test_content_type_of_a_document_has_no_line_end(api: ZaqarTestClient) -> None:
    refused(api.post("q", {"body": "x", "content_type": "a/b\r\nx: y"}), 400, '"content_type"')
    refused(api.post("q", {"body": "x", "content_type": "a/b\n"}), 400, '"content_type"')


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"body": 1, "content_type": "a/b"}, '"body" must be a string'),
        ({"body": {"a": 1}, "content_type": "a/b"}, '"body" must be a string'),
        ({"body": 1, "content_type": "a/b", "body_encoding": "base64"}, '"body" must be base64'),
        ({"body": "AA", "content_type": "a/b", "body_encoding": "base64"}, '"body" must be base64'),
        ({"body": "A-_=", "content_type": "a/b", "body_encoding": "base64"}, "base64"),
        ({"body": "AA==\n", "content_type": "a/b", "body_encoding": "base64"}, "base64"),
        ({"body": "ü===", "content_type": "a/b", "body_encoding": "base64"}, "base64"),
        ({"body": "AA==", "body_encoding": "base64"}, '"body_encoding" needs a "content_type"'),
        ({"body": "x", "content_type": "a/b", "body_encoding": "hex"}, '"body_encoding" must be'),
        ({"body": "x", "content_type": "a/b", "body_encoding": ""}, '"body_encoding" must be'),
        ({"body": "x", "content_type": 5}, "content_type"),
        ({"body": "x", "content_type": ""}, '"content_type"'),
        ({"body": "x", "attributes": {"_content_type": "a/b"}}, "content_type"),
        ({"body": "x", "attributes": {"_body_encoding": "base64"}}, "body_encoding"),
    ],
)
def test_wrong_exact_body_of_a_document_is_refused_and_named(
    api: ZaqarTestClient, message: dict[str, Any], why: str
) -> None:
    refused(api.post("q", {"body": 1}, message), 400, why)
    assert api.get("/queues").json()["queues"] == []


def test_lone_surrogate_is_no_text(api: ZaqarTestClient) -> None:
    document = rb'{"messages": [{"body": "\ud800", "content_type": "a/b"}]}'
    assert post_raw(api, document, "application/json").status_code == 400


def test_json_stays_json_for_who_accepts_it(api: ZaqarTestClient) -> None:
    href = sent(api, b"text")
    for accept in ("", "*/*", "application/json", "text/plain, */*;q=0.1", "application/*"):
        assert raw(api, href, accept).json()["body"] == "text"
    for accept in ("text/html", "image/*", "nonsense"):
        kinds = ("application/json", "text/plain", "application/octet-stream")
        refused(raw(api, href, accept), 406, *kinds)
    for path in ("/queues/q/messages", "/queues/q/claims/1", "/queues/q"):
        assert raw(api, path).status_code == 406


def test_body_posted_as_json_is_answered_as_the_json_it_was(api: ZaqarTestClient) -> None:
    document = b'{"messages": [{"body":  {"a" :1.50, "a": "\\u0041"} }]}'
    href = post_raw(api, document, "application/json").json()["resources"][0]
    answer = raw(api, href.removeprefix("/v2"))
    assert answer.content == b'{"a" :1.50, "a": "\\u0041"}'
    assert answer.headers["Content-Type"] == "application/json"
    assert raw(api, href.removeprefix("/v2"), "text/plain").status_code == 406


def test_raw_body_counts_as_its_document_for_the_size(api: ZaqarTestClient) -> None:
    api.create("q", _max_messages_post_size=200)
    sent(api, b"x" * 140)
    refused(post_raw(api, b"\xff" * 140), 400, "200 bytes")
    refused(post_raw(api, b"\xff" * 200_000), 400, "262144")
    refused(post_raw(api, b"x" * 262_145), 400, "262144")


def test_raw_post_is_repeated_by_its_key_only_as_it_was(api: ZaqarTestClient) -> None:
    def post(body: bytes, kind: str, **query: Any) -> httpx.Response:
        headers = {"Content-Type": kind, "Idempotency-Key": "k"}
        return api.request("POST", "/queues/q/messages", content=body, headers=headers, **query)

    first = post(b"x", "a/b", ttl=60)
    assert post(b"x", "a/b", ttl=60).json() == first.json()
    changed = [post(b"y", "a/b", ttl=60), post(b"x", "a/c", ttl=60), post(b"x", "a/b", ttl=61)]
    assert [each.status_code for each in changed] == [422] * 3


def test_topic_has_raw_bodies(api: ZaqarTestClient) -> None:
    body, headers = bytes(range(256)), {"Content-Type": "a/b"}
    posted = api.request("POST", "/topics/t/messages", content=body, headers=headers)
    href = posted.json()["resources"][0].removeprefix("/v2")
    assert (raw(api, href).content, raw(api, href).headers["Content-Type"]) == (body, "a/b")
    assert body_of(api.get(href).json()) == body


def test_schedule_has_an_exact_body(api: ZaqarTestClient) -> None:
    message = {"body": "AAE=", "content_type": "a/b", "body_encoding": "base64"}
    schedule = {"queue": "q", "cron": "@daily", "message": message}
    assert api.request("PUT", "/schedules/s", schedule).json()["message"] == message
    refused(
        api.request("PUT", "/schedules/s", schedule | {"message": message | {"body": "?"}}),
        400,
        "base64",
    )
