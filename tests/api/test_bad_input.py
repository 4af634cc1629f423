# SPDX-License-Identifier: Apache-2.0
"""Bad input gets a 4xx that names the problem, and changes nothing."""

from __future__ import annotations

import uuid

import pytest

from tests.api.client import PATCH, ZaqarTestClient, refused

#: Every endpoint that accepts a document, with a valid document.
ENDPOINTS = {
    "create": ("PUT", "/queues/q", b"{}"),
    "patch": ("PATCH", "/queues/q", b"[]"),
    "purge": ("POST", "/queues/q/purge", b'{"resource_types":[]}'),
    "share": ("POST", "/queues/q/share", b"{}"),
    "post": ("POST", "/queues/q/messages", b'{"messages":[{"body":1}]}'),
    "claim": ("POST", "/queues/q/claims", b"{}"),
    "renew": ("PATCH", "/queues/q/claims/0123456789abcdef0123456789abcdef", b'{"ttl":60}'),
}

MALFORMED = {
    "cut": b'{"messages":[{"body":1}',
    "text": b"hello",
    "two": b"{} {}",
    "comma": b'{"a":1,}',
    "quotes": b"{'a':1}",
    "nan": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "zero": b'{"a":007}',
    "bom": b"\xef\xbb\xbf{}",
    "utf-8": b'{"a":"\xff\xfe"}',
    "utf-16": '{"a":1}'.encode("utf-16"),
    "control": b'{"a":"\x01"}',
    "escape": b'{"a":"\\x41"}',
    "surrogate": b'{"a":"\\ud800"}',
    "nul": b"\x00",
    "deep": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep and cut": b"[" * 60_000,
    "number": b"5",
    "string": b'"x"',
    "null": b"null",
    "true": b"true",
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_malformed_json_is_refused_by_every_endpoint(
    rich: ZaqarTestClient, endpoint: str, content: bytes
) -> None:
    method, path, _ = ENDPOINTS[endpoint]
    headers = {"Content-Type": PATCH} if endpoint == "patch" else {}
    answer = rich.request(method, path, content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["title"] == "Invalid request body"
    assert answer.json()["description"]
    assert rich.get("/queues").json()["queues"] == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_documents_of_300_kilobytes_are_refused(rich: ZaqarTestClient, endpoint: str) -> None:
    method, path, document = ENDPOINTS[endpoint]
    headers = {"Content-Type": PATCH} if endpoint == "patch" else {}
    content = document + b" " * (300 * 1024)
    refused(rich.request(method, path, content=content, headers=headers), 400, "bytes")
    chunks = (content[at : at + 30_000] for at in range(0, len(content), 30_000))
    answer = rich.http.request(
        method,
        f"{rich.url}/v2{path}",
        content=chunks,
        headers=headers | {"Client-ID": rich.client, "X-Project-ID": rich.project},
    )
    refused(answer, 400, "bytes")
    assert rich.get("/queues").json()["queues"] == []


@pytest.mark.parametrize(
    ("body", "half"),
    [
        (rb'"\ud800"', r"\ud800"),
        (rb'"a long text behind \uDBFF it"', r"\uDBFF"),
        (rb'"\ud83d\ud83d\ude00"', r"\ud83d"),
        (rb'{"\\\ud800": 1}', r"\ud800"),
    ],
)
def test_half_of_a_surrogate_pair_is_named(api: ZaqarTestClient, body: bytes, half: str) -> None:
    answer = api.request("POST", "/queues/q/messages", content=b'{"messages":[{"body":%s}]}' % body)
    refused(answer, 400, f"could not be parsed: {half} is half of a surrogate pair")


def test_escaped_backslash_is_no_surrogate(api: ZaqarTestClient) -> None:
    content = rb'{"messages":[{"body":"\\ud800"}]}'
    answer = api.request("POST", "/queues/q/messages", content=content)
    assert answer.status_code == 201, answer.text
    answer = api.request("POST", "/queues/q/messages", content=content[:-2])
    refused(answer, 400, "truncated")


WRONG: list[tuple[bytes, str]] = [
    (b"{}", "messages"),
    (b'{"messages": []}', "messages"),
    (b'{"messages": null}', "messages"),
    (b'{"messages": {}}', "messages"),
    (b'{"messages": "x"}', "messages"),
    (b'{"messages": ["x"]}', "messages"),
    *(
        (b'{"messages": [{"body": 1}, %s]}' % item, "messages[1]")
        for item in (b'"x"', b"1", b"null", b"true", b'["body"]', b"1.5")
    ),
    (b'{"messages": [{}]}', "body"),
    (b'{"messages": [{"ttl": 60}]}', "body"),
    (b'{"messages": [{"body": 1, "ttl": "60"}]}', "ttl"),
    (b'{"messages": [{"body": 1, "ttl": 60.5}]}', "ttl"),
    (b'{"messages": [{"body": 1, "ttl": 1e400}]}', "ttl"),
    (b'{"messages": [{"body": 1, "ttl": true}]}', "ttl"),
    (b'{"messages": [{"body": 1, "ttl": [60]}]}', "ttl"),
    (b'{"messages": [{"body": 1, "ttl": ' + b"9" * 5000 + b"}]}", "ttl"),
    (b'{"messages": [{"body": 1, "delay": "0"}]}', "delay"),
    (b'{"messages": [{"body": 1, "delay": {}}]}', "delay"),
    (b'{"messages": [{"body": 1}, {"body": 2, "ttl": -1}]}', "ttl"),
    (b"[]", "object"),
    (b'["messages"]', "object"),
    (b'[["messages"]]', "object"),
    (b'[{"body": 1, "ttl": 60}]', "object"),
]


@pytest.mark.parametrize(("content", "word"), WRONG)
def test_malformed_messages_are_refused(api: ZaqarTestClient, content: bytes, word: str) -> None:
    refused(api.request("POST", "/queues/q/messages", content=content), 400, word)
    assert api.get("/queues").json()["queues"] == []


def test_empty_post_is_refused(api: ZaqarTestClient) -> None:
    refused(api.request("POST", "/queues/q/messages", content=b""), 400, "empty")


@pytest.mark.parametrize("number", [b"9" * 400, b"9" * 5000, b"-" + b"9" * 30, b"1e999"])
def test_huge_numbers_never_cause_a_5xx(rich: ZaqarTestClient, number: bytes) -> None:
    for endpoint, content in (
        ("create", b'{"a":%s}' % number),
        ("create", b'{"_default_message_ttl":%s}' % number),
        ("patch", b'[{"op":"add","path":"/metadata/a","value":%s}]' % number),
        ("post", b'{"messages":[{"body":%s}]}' % number),
        ("claim", b'{"ttl":%s}' % number),
    ):
        method, path, _ = ENDPOINTS[endpoint]
        headers = {"Content-Type": PATCH} if endpoint == "patch" else {}
        answer = rich.request(method, path, content=content, headers=headers)
        assert answer.status_code < 500, (endpoint, answer.text)
        assert rich.list("q").status_code == 200
        assert rich.get("/queues", detailed=True).status_code == 200
        assert rich.get("/queues/q").status_code == 200


@pytest.mark.parametrize(
    "depth", [100, 500, 900, 950, 960, 965, 966, 967, 968, 969, 970, 980, 1100]
)
@pytest.mark.parametrize("endpoint", ["create", "patch", "post"])
def test_document_of_any_nesting_depth_is_readable_or_refused(
    rich: ZaqarTestClient, endpoint: str, depth: int
) -> None:
    nest = b"[" * depth + b"]" * depth
    rich.create("r")
    path, content, headers = {
        "create": ("/queues/q", b'{"a":%s}' % nest, {}),
        "patch": (
            "/queues/r",
            b'[{"op":"add","path":"/metadata/a","value":%s}]' % nest,
            {"Content-Type": PATCH},
        ),
        "post": ("/queues/q/messages", b'{"messages":[{"body":%s}]}' % nest, {}),
    }[endpoint]
    answer = rich.request(ENDPOINTS[endpoint][0], path, content=content, headers=headers)
    assert answer.status_code in (200, 201, 400), answer.text
    if answer.status_code == 400:
        assert "nested" in answer.text
    for read in ("/queues?detailed=true", "/queues?a=1", "/queues/q", "/queues/r"):
        assert rich.get(read).status_code == 200
    assert rich.list("q").status_code == 200
    assert rich.claim("q").status_code in (201, 204)


def _forged(api: ZaqarTestClient) -> dict[str, str]:
    """Returns ids that the project's queue ``q`` never issued, or that are outdated."""
    stranger = api.another_client(f"{api.project}-2")
    api.send("q", "earlier")
    (earlier,) = api.send("q", "earlier")
    api.request("DELETE", "/queues/q")
    (mine,) = api.send("q", "mine")
    epoch, rank = mine[:18], int(mine[24:], 16)
    return {
        "another project's": stranger.send("q", "theirs")[0],
        "another queue's": api.send("r", "other")[0],
        "an earlier epoch's": earlier,
        "random": str(uuid.uuid4()),
        "nil": str(uuid.UUID(int=0)),
        "rank to come": f"{epoch}-{0:04x}-{rank + 1:012x}",
        "rank zero": f"{epoch}-{0:04x}-{0:012x}",
        "highest rank": f"{epoch}-ffff-ffffffffffff",
        "upper case": mine.upper() if mine.upper() != mine else str(uuid.uuid4()),
        "no dashes": mine.replace("-", ""),
        "braces": f"{{{mine}}}",
        "a key": f"zr:queues:{api.project}",
        "a pattern": "*",
        "blank": "%20",
        "newline": mine + "%0A",
    }


def test_forged_message_ids_match_nothing(api: ZaqarTestClient) -> None:
    forged = _forged(api)
    stranger = api.another_client(f"{api.project}-2")
    for name, message in forged.items():
        refused(api.message("q", message), 404)
        refused(api.get(f"/queues/q/messages?ids={message}"), 404)
        assert api.delete("q", message).status_code == 204, name
        assert api.request("DELETE", f"/queues/q/messages?ids={message}").status_code == 204
        listing = api.get(f"/queues/q/messages?echo=true&marker={message}")
        assert listing.status_code == 200, name
        if name not in ("blank", "rank zero"):
            assert listing.json()["messages"] == [], name
    assert api.bodies("q") == ["mine"]
    assert api.bodies("r") == ["other"]
    assert stranger.bodies("q") == ["theirs"]


def test_forged_claim_ids_match_nothing(api: ZaqarTestClient) -> None:
    stranger = api.another_client(f"{api.project}-2")
    claims = []
    for who, queue in ((stranger, "q"), (api, "r"), (api, "q")):
        who.send(queue, 1)
        claims.append(who.hold(queue)[0])
    earlier = claims.pop()
    api.request("DELETE", "/queues/q")
    (message,) = api.send("q", "mine")
    claim, _ = api.hold("q")
    for forged in (
        *claims,
        earlier,
        uuid.uuid4().hex,
        claim[:-1],
        claim + "0",
        "*",
        "%20",
        "-" * 4,
    ):
        refused(api.claimed("q", forged), 404, "Claim")
        refused(api.renew("q", forged, ttl=60), 404, "Claim")
        assert api.release("q", forged).status_code == 204
        refused(
            api.request("DELETE", f"/queues/q/messages/{message}?claim_id={forged}"), 400, "claim"
        )
    assert api.counts("q") == api.counts("r") == stranger.counts("q") == (0, 1, 1)


@pytest.mark.parametrize(
    "query",
    ["ids=,", "ids=,,,", "ids=%00", "pop=1&pop=x", "pop=1e1", "pop=", "limit=%FF", "marker=%FF"],
)
def test_malformed_queries_never_cause_a_5xx_or_a_deletion(
    api: ZaqarTestClient, query: str
) -> None:
    api.send("q", 1)
    for method in ("GET", "DELETE"):
        assert api.request(method, f"/queues/q/messages?{query}").status_code < 500
    assert api.get(f"/queues?{query}").status_code < 500
    assert api.bodies("q") == [1]
