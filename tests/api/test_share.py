# SPDX-License-Identifier: Apache-2.0
"""Pre-signed URLs: what can be signed, and what a signature allows."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused

SECRET = b"a secret for tests"  # the key of the fixture's service
ALL_METHODS = ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"]


def _share(api: ZaqarTestClient, queue: str = "q", **wanted: Any) -> dict[str, Any]:
    answer = api.request("POST", f"/queues/{queue}/share", wanted)
    assert answer.status_code == 200, answer.text
    signed: dict[str, Any] = answer.json()
    return signed


def _sign(signed: dict[str, Any]) -> dict[str, Any]:
    """Returns the document with the signature that the service would compute."""
    fields = (",".join(signed["paths"]), ",".join(signed["methods"]))
    text = r"\n".join((*fields, signed["project"], signed["expires"]))
    return signed | {"signature": hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()}


def _headers(signed: dict[str, Any]) -> dict[str, str]:
    return {
        "URL-Signature": signed["signature"],
        "URL-Expires": signed["expires"],
        "URL-Methods": ",".join(signed["methods"]),
        "URL-Paths": ",".join(signed["paths"]),
    }


def _use(
    api: ZaqarTestClient,
    signed: dict[str, Any],
    method: str = "GET",
    path: str = "/queues/q/messages",
    **changed: str,
) -> httpx.Response:
    headers = _headers(signed) | {name.replace("_", "-"): value for name, value in changed.items()}
    content = b'{"messages":[{"body":1}]}' if method in ("POST", "PUT", "PATCH") else None
    return api.request(method, path, content=content, headers=headers)


def _refused(answer: httpx.Response) -> None:
    assert answer.status_code == 404
    assert answer.json()["title"] == "404 Not Found"


def test_share_defaults(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    assert set(signed) == {"paths", "methods", "project", "expires", "signature"}
    assert signed["paths"] == ["/v2/queues/q/messages"]
    assert signed["methods"] == ["GET"]
    assert signed["project"] == rich.project
    expires = datetime.strptime(signed["expires"], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    day = expires - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < day <= timedelta(days=1)


def test_signature_is_that_of_zaqar(rich: ZaqarTestClient) -> None:
    signed = _share(rich, paths=["messages", "claims"], methods=["PUT", "GET", "GET"])
    assert signed["paths"] == ["/v2/queues/q/claims", "/v2/queues/q/messages"]
    assert signed["methods"] == ["GET", "PUT"]
    assert _sign(signed) == signed


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2090-01-31T12:00:00", "2090-01-31T12:00:00"),
        ("2090-01-31T12:00:00.123456", "2090-01-31T12:00:00"),
        ("2090-01-31T12:00:00Z", "2090-01-31T12:00:00"),
        ("2090-01-31T12:00:00+02:00", "2090-01-31T10:00:00"),
        ("2090-01-31", "2090-01-31T00:00:00"),
    ],
)
def test_expiry_is_normalised(rich: ZaqarTestClient, given: str, shown: str) -> None:
    signed = _share(rich, expires=given)
    assert signed["expires"] == shown
    assert _use(rich, signed).status_code == 200


@pytest.mark.parametrize(
    "expires",
    [
        *("", "tomorrow", "2001-01-01T00:00:00", "9999-12-31T23:59:59-10:00"),
        *("0001-01-01T00:00:00+10:00", "2090-13-01T00:00:00"),
    ],
)
def test_expiry_must_be_in_the_future(rich: ZaqarTestClient, expires: str) -> None:
    refused(rich.request("POST", "/queues/q/share", {"expires": expires}), 400, "expires")


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"colour": "blue"}, "colour"),
        ({"paths": ["stats"]}, "paths"),
        ({"paths": ["messages", "../other"]}, "paths"),
        ({"paths": []}, "paths"),
        ({"paths": "messages"}, "paths"),
        ({"paths": [1]}, "paths"),
        ({"methods": []}, "methods"),
        ({"methods": ["STEAL"]}, "methods"),
        ({"methods": ["GET,POST"]}, "methods"),
        ({"methods": "GET"}, "methods"),
        ({"methods": [None]}, "methods"),
        ({"expires": 5}, "expires"),
        ({"expires": ["x"]}, "expires"),
        ([], "object"),
        (["messages"], "object"),
        ([{"paths": ["messages"]}], "object"),
        ("x", "object"),
    ],
)
def test_invalid_share_documents_are_refused(
    rich: ZaqarTestClient, document: object, word: str
) -> None:
    refused(rich.request("POST", "/queues/q/share", document), 400, word)


def test_empty_share_request_is_refused(rich: ZaqarTestClient) -> None:
    refused(rich.request("POST", "/queues/q/share"), 400, "empty")


def test_without_a_secret_key_signing_and_signed_requests_are_refused(api: ZaqarTestClient) -> None:
    refused(api.request("POST", "/queues/q/share", {}), 400, "secret_key")
    signed = {"paths": ["/v2/queues/q/messages"], "methods": ["GET"], "project": api.project}
    signed |= {"expires": "2090-01-01T00:00:00"}
    text = r"\n".join(("/v2/queues/q/messages", "GET", api.project, "2090-01-01T00:00:00"))
    for key in (b"", b"None"):
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        _refused(_use(api, signed | {"signature": signature}))


def test_signed_requests_are_accepted(rich: ZaqarTestClient) -> None:
    (message,) = rich.send("q", "hello")
    signed = _share(rich, methods=["GET", "POST"])
    guest = rich.another_client()
    answer = _use(guest, signed)
    assert [item["body"] for item in answer.json()["messages"]] == ["hello"]
    assert _use(guest, signed, "GET", f"/queues/q/messages/{message}").status_code == 200
    assert _use(guest, signed, "GET", "/queues/q/messages?limit=1").status_code == 200
    assert _use(guest, signed, "POST").status_code == 201


def test_the_order_of_the_lists_does_not_matter(rich: ZaqarTestClient) -> None:
    signed = _share(rich, paths=["messages", "claims"], methods=["POST", "GET"])
    for name in ("paths", "methods"):
        signed[name] = signed[name][::-1]
    assert _use(rich, signed).status_code == 200


def test_unsigned_methods_are_refused(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    for method in ("POST", "DELETE"):
        _refused(_use(rich, signed, method))
    _refused(_use(rich, signed | {"methods": ["GET", "POST"]}, "POST"))


@pytest.mark.parametrize(
    "path",
    [
        *("/queues", "/queues/q", "/queues/q/stats", "/queues/q/claims/x", "/queues/qq/messages"),
        *("/queues/other/messages", "/queues/messages/messages", "/ping", "/queues/q/message"),
        *("/queues/q/messages-more", "/queues/q/messagesX"),
    ],
)
def test_unsigned_paths_are_refused(rich: ZaqarTestClient, path: str) -> None:
    _refused(_use(rich, _share(rich), "GET", path))


def test_encoded_slash_leads_to_no_other_path(rich: ZaqarTestClient) -> None:
    path = "/queues/q/messages%2F..%2Fclaims"
    assert _use(rich, _share(rich), "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("path", "opens"),
    [("/queues/q", True), ("/queues/q/stats", True), ("/queues/qq", False), ("/queues", False)],
)
def test_signed_path_allows_itself_and_paths_below(
    rich: ZaqarTestClient, path: str, opens: bool
) -> None:
    signed = _sign(_share(rich) | {"paths": ["/v2/queues/q"]})
    assert _use(rich, signed, "GET", path).status_code == (200 if opens else 404)


@pytest.mark.parametrize(
    ("queue", "opens"), [("a.b", True), *((name, False) for name in ("aXb", "a-b", "a.bc", "xa.b"))]
)
def test_signed_path_is_not_a_pattern(rich: ZaqarTestClient, queue: str, opens: bool) -> None:
    for name in ("a.b", queue):
        rich.send(name, name)
    answer = _use(rich, _share(rich, "a.b"), "GET", f"/queues/{queue}/messages")
    assert answer.status_code == (200 if opens else 404)


def test_signature_is_valid_for_one_project(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    _refused(_use(rich.another_client(f"{rich.project}-2"), signed))
    _refused(_use(rich, signed, X_Project_ID=""))


def test_request_with_any_changed_signed_field_is_refused(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    rich.send("q", 1)
    wrong = ("0" if signed["signature"][0] != "0" else "1") + signed["signature"][1:]
    for change in (
        {"URL_Signature": wrong},
        {"URL_Signature": ""},
        {"URL_Signature": signed["signature"].upper()},
        {"URL_Expires": "2090-01-01T00:00:00"},
        {"URL_Expires": ""},
        {"URL_Expires": "never"},
        {"URL_Methods": ""},
        {"URL_Methods": "GET,DELETE"},
        {"URL_Paths": ""},
        {"URL_Paths": "/v2/queues/q/messages,/v2/queues/r/messages"},
        {"URL_Paths": "/v2"},
    ):
        _refused(_use(rich, signed, **change))
    assert _use(rich, signed).status_code == 200


def test_expired_signature_is_refused(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    past = datetime.now(UTC) - timedelta(seconds=5)
    old = _sign(signed | {"expires": past.strftime("%Y-%m-%dT%H:%M:%S")})
    _refused(_use(rich, old))
    soon = datetime.now(UTC) + timedelta(seconds=60)
    assert _use(rich, _sign(old | {"expires": soon.strftime("%Y-%m-%dT%H:%M:%S")})).is_success


def test_separator_of_signed_fields_is_refused_in_a_project(rich: ZaqarTestClient) -> None:
    """The signed text joins paths, methods and project by a backslash and an n."""
    project = r"b\n2090-01-01T00:00:00"
    answer = rich.another_client(project).request("POST", "/queues/q/share", {})
    refused(answer, 400, "backslash")
    signed = _sign(_share(rich) | {"project": project})
    _refused(_use(rich.another_client(project), signed))


def test_signed_request_still_needs_client_id(rich: ZaqarTestClient) -> None:
    refused(_use(rich, _share(rich), Client_ID="short"), 400, "Client-ID")


def test_roles_header_of_a_signed_request_is_ignored(rich: ZaqarTestClient) -> None:
    signed = _share(rich)
    _refused(_use(rich, signed, "GET", "/health", X_Roles="admin"))
    _refused(_use(rich, signed, "DELETE", "/queues/q", X_Roles="admin"))


def test_any_method_may_be_signed(rich: ZaqarTestClient) -> None:
    signed = _share(rich, methods=ALL_METHODS, paths=["claims", "messages", "subscriptions"])
    rich.send("q", 1)
    answer = _use(rich, signed, "DELETE", "/queues/q/messages?pop=1")
    assert answer.status_code == 200


def test_share_of_a_topic_opens_its_messages_and_subscriptions(rich: ZaqarTestClient) -> None:
    document = {"paths": ["messages", "subscriptions"], "methods": ["GET", "POST"]}
    signed = rich.request("POST", "/topics/t/share", document).json()
    assert signed["paths"] == ["/v2/topics/t/messages", "/v2/topics/t/subscriptions"]
    assert _sign(signed) == signed
    guest = rich.another_client()
    assert _use(guest, signed, "POST", "/topics/t/messages").status_code == 201
    listed = _use(guest, signed, "GET", "/topics/t/messages").json()["messages"]
    assert [each["body"] for each in listed] == [1]
    assert _use(guest, signed, "GET", "/topics/t/subscriptions").status_code == 200
    for path in ("/topics/t", "/topics/tt/messages", "/queues/t/messages"):
        _refused(_use(guest, signed, "GET", path))


def test_claims_of_a_topic_cannot_be_shared(rich: ZaqarTestClient) -> None:
    refused(rich.request("POST", "/topics/t/share", {"paths": ["claims"]}), 400, "claims")


@pytest.mark.parametrize(
    "document",
    [
        {"subscriber": "queue:other"},
        {"subscriber": "topic:other"},
        {"subscriber": "channel:other"},
        {"subscriber": "https://example.org/", "options": {"dead_letter_queue": "other"}},
    ],
)
def test_signed_subscription_posts_to_no_other_queue(
    rich: ZaqarTestClient, document: dict[str, Any]
) -> None:
    signed = _share(rich, methods=["POST"], paths=["subscriptions"])
    path = "/queues/q/subscriptions"
    answer = rich.request("POST", path, document, headers=_headers(signed))
    refused(answer, 403, "pre-signed URL")
    outside = {"subscriber": "https://example.org/"}
    assert rich.request("POST", path, outside, headers=_headers(signed)).status_code == 201
