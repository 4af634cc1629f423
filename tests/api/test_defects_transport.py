# SPDX-License-Identifier: Apache-2.0
"""Transport: guarantees that are known to be broken elsewhere.

S1 to S12 are numbers of a list of defects.  S6, a check of a pool's URI that changes the
running configuration, does not apply: there are no pools yet, and settings are frozen.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.api.client import PATCH, ZaqarTestClient, refused
from zaqar_redis import rules
from zaqar_redis.api.settings import ApiSettings


@pytest.mark.parametrize("kind", ["plain", "signing"])
@pytest.mark.parametrize("signature", ["", "x", "0" * 64])
def test_given_signature_is_always_checked(
    api: ZaqarTestClient, rich: ZaqarTestClient, kind: str, signature: str
) -> None:
    """S1: empty or not, and whether the service has a key or not."""
    client = api if kind == "plain" else rich
    client.send("q", "private")
    for headers in (
        {"URL-Signature": signature},
        {"URL-Signature": signature, "URL-Methods": "GET", "URL-Paths": "/v2/queues"},
    ):
        for path in ("/queues", "/queues/q/messages?echo=true"):
            answer = client.request("GET", path, headers=headers)
            assert answer.status_code == 404
            assert "private" not in answer.text


@pytest.mark.parametrize("name", ["EXTRA-SPEC", "X-Auth-Token", "X-Roles", "X-Identity-Status"])
def test_no_other_header_replaces_required_identity_headers(
    api: ZaqarTestClient, name: str
) -> None:
    """S1: two headers identify the client, and no third one replaces them."""
    for missing in ("Client-ID", "X-Project-ID"):
        identity = {"Client-ID": api.client, "X-Project-ID": api.project}
        del identity[missing]
        answer = api.http.get(f"{api.url}/v2/queues", headers=identity | {name: "admin"})
        refused(answer, 400, missing)
    assert api.request("GET", "/health", headers={name: "admin"}).status_code == 404


@pytest.mark.parametrize(
    ("queue", "opens"),
    [("a.b", True), ("aXb", False), ("a-b", False), ("a.bc", False), ("xa.b", False)],
)
def test_signed_path_is_not_a_pattern(rich: ZaqarTestClient, queue: str, opens: bool) -> None:
    """S5."""
    for name in ("a.b", queue):
        rich.send(name, name)
    signed = rich.request("POST", "/queues/a.b/share", {}).json()
    headers = {
        "URL-Signature": signed["signature"],
        "URL-Expires": signed["expires"],
        "URL-Methods": "GET",
        "URL-Paths": "/v2/queues/a.b/messages",
    }
    answer = rich.request("GET", f"/queues/{queue}/messages", headers=headers)
    assert answer.status_code == (200 if opens else 404)


@pytest.mark.parametrize(
    "path", ["messages-more", "messagesX", "message", "messages%2F..%2Fclaims"]
)
def test_signed_path_matches_whole_segments(rich: ZaqarTestClient, path: str) -> None:
    """S5."""
    signed = rich.request("POST", "/queues/q/share", {}).json()
    headers = {
        "URL-Signature": signed["signature"],
        "URL-Expires": signed["expires"],
        "URL-Methods": "GET",
        "URL-Paths": "/v2/queues/q/messages",
    }
    assert rich.request("GET", f"/queues/q/{path}", headers=headers).status_code == 404


def test_settings_cannot_be_changed_while_running() -> None:
    """S6."""
    settings = ApiSettings()
    with pytest.raises(AttributeError):
        settings.admin_mode = True  # type: ignore[misc]  # the object must be frozen
    with pytest.raises(AttributeError):
        settings.limits.max_wait = 0  # type: ignore[misc]  # the object must be frozen
    assert msgspec.structs.replace(settings.limits, max_wait=0) != rules.Limits()


@pytest.mark.parametrize("item", ["x", 1, None, True, ["body"], 1.5])
def test_messages_that_are_no_objects_are_refused(api: ZaqarTestClient, item: object) -> None:
    """S7."""
    refused(api.post("q", {"body": 1}, item), 400, "messages[1]")
    assert api.bodies("q") == []


@pytest.mark.parametrize("content", [b'["messages"]', b"[]", b'[["messages"]]'])
def test_arrays_are_no_messages(api: ZaqarTestClient, content: bytes) -> None:
    """S7."""
    refused(api.request("POST", "/queues/q/messages", content=content), 400, "object")


@pytest.mark.parametrize("document", [[], ["paths"], [{"paths": ["messages"]}]])
def test_arrays_are_no_share(rich: ZaqarTestClient, document: object) -> None:
    """S7."""
    refused(rich.request("POST", "/queues/q/share", document), 400, "object")


def test_filters_given_twice_are_refused(api: ZaqarTestClient) -> None:
    """S7."""
    api.create("q", colour="blue")
    refused(api.get("/queues?colour=blue&colour=red"), 400, "colour")
    answer = api.get("/queues", colour="blue,red")
    assert (answer.status_code, answer.json()["queues"]) == (200, [])


@pytest.mark.parametrize("path", [1, None, True, ["/metadata/a"], {"a": 1}])
@pytest.mark.parametrize("op", ["add", "replace", "remove"])
def test_patch_paths_that_are_no_text_are_refused(
    api: ZaqarTestClient, op: str, path: object
) -> None:
    """S7."""
    api.create("q")
    refused(api.patch("q", {"op": op, "path": path, "value": 1}), 400, '"path"')


def test_a_patch_that_is_an_object_is_refused(api: ZaqarTestClient) -> None:
    """S7."""
    api.create("q")
    answer = api.request("PATCH", "/queues/q", {"op": "add"}, headers={"Content-Type": PATCH})
    refused(answer, 400, "array")
