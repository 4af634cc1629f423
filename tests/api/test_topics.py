# SPDX-License-Identifier: Apache-2.0
"""Topics: create, show, change, list, publish, history, stats, purge."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import PATCH, ZaqarTestClient, refused

DEFAULTS = {
    "_max_messages_post_size": 262144,
    "_default_message_ttl": 3600,
    "_default_message_delay": 0,
}


def publish(api: ZaqarTestClient, topic: str, *bodies: Any, **fields: Any) -> list[str]:
    """Publishes messages; returns their paths."""
    messages = [{"body": body} | fields for body in bodies]
    answer = api.request("POST", f"/topics/{topic}/messages", {"messages": messages})
    assert answer.status_code == 201, answer.text
    paths: list[str] = answer.json()["resources"]
    return paths


def history(api: ZaqarTestClient, topic: str, **params: Any) -> list[Any]:
    answer = api.get(f"/topics/{topic}/messages", **params)
    assert answer.status_code == 200, answer.text
    return [message["body"] for message in answer.json()["messages"]]


def test_topic_is_created_shown_changed_and_deleted(api: ZaqarTestClient) -> None:
    created = api.request("PUT", "/topics/t", {"colour": "blue"})
    assert (created.status_code, created.headers["Location"]) == (201, "/v2/topics/t")
    assert api.request("PUT", "/topics/t", {"colour": "red"}).status_code == 204
    assert api.get("/topics/t").json() == DEFAULTS | {"colour": "blue"}
    change = [{"op": "replace", "path": "/metadata/colour", "value": "green"}]
    changed = api.request("PATCH", "/topics/t", change, headers={"Content-Type": PATCH})
    assert (changed.status_code, changed.json()) == (200, DEFAULTS | {"colour": "green"})
    for _ in range(2):
        assert api.request("DELETE", "/topics/t").status_code == 204
    assert api.get("/topics/t").json() == DEFAULTS
    missing = api.request("PATCH", "/topics/t", change, headers={"Content-Type": PATCH})
    refused(missing, 404, "topic t")


def test_topics_are_listed_apart_from_queues(api: ZaqarTestClient) -> None:
    for name in ("b", "top", "a"):
        api.request("PUT", f"/topics/{name}", {"n": name})
    api.create("b")
    first = api.get("/topics", limit=2, detailed="true").json()
    assert first["topics"] == [
        {"name": name, "href": f"/v2/topics/{name}", "metadata": DEFAULTS | {"n": name}}
        for name in "ab"
    ]
    rest = api.follow(first["links"][0]["href"]).json()
    assert [topic["name"] for topic in rest["topics"]] == ["top"]
    assert api.follow(rest["links"][0]["href"]).json() == {"topics": [], "links": []}
    named = api.get("/topics", name="op").json()["topics"]
    assert named == [{"name": "top", "href": "/v2/topics/top"}]
    assert [topic["name"] for topic in api.get("/topics", n="b").json()["topics"]] == ["b"]
    queues = api.get("/queues", with_count="true").json()
    assert ([queue["name"] for queue in queues["queues"]], queues["count"]) == (["b"], 1)
    assert api.get("/queues", marker="topic:").json()["queues"] == []


def test_publishing_creates_the_topic(api: ZaqarTestClient) -> None:
    answer = api.request("POST", "/topics/t/messages", {"messages": [{"body": 1, "ttl": 60}]})
    [path] = answer.json()["resources"]
    assert path.startswith("/v2/topics/t/messages/")
    assert [topic["name"] for topic in api.get("/topics").json()["topics"]] == ["t"]
    located = api.follow(answer.headers["Location"]).json()["messages"]
    assert located == [api.follow(path).json()]
    assert (located[0]["href"], located[0]["body"], located[0]["ttl"]) == (path, 1, 60)
    assert api.get("/queues/t/messages", echo="true").json()["messages"] == []


def test_publishing_with_the_same_idempotency_key_publishes_once(api: ZaqarTestClient) -> None:
    document = {"messages": [{"body": 1}]}
    first, again = (
        api.request("POST", "/topics/t/messages", document, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    )
    assert first.json() == again.json()
    assert history(api, "t") == [1]


def test_history_is_read_in_both_directions_whoever_published(
    api: ZaqarTestClient, other: ZaqarTestClient
) -> None:
    publish(api, "t", *range(3))
    publish(other, "t", *range(3, 5))
    assert history(api, "t") == [0, 1, 2, 3, 4]
    page = api.get("/topics/t/messages", limit=3, reverse="true").json()
    assert [message["body"] for message in page["messages"]] == [4, 3, 2]
    rest = api.follow(page["links"][0]["href"]).json()
    assert [message["body"] for message in rest["messages"]] == [1, 0]
    assert history(api, "t", reverse="true", wait=20, limit=1) == [4]
    page = api.get("/topics/t/messages", limit=3).json()
    rest = api.follow(page["links"][0]["href"]).json()
    assert [message["body"] for message in rest["messages"]] == [3, 4]


def test_message_of_a_topic_is_deleted(api: ZaqarTestClient) -> None:
    paths = publish(api, "t", *"abc")
    assert api.request("DELETE", paths[1].removeprefix("/v2")).status_code == 204
    assert history(api, "t") == ["a", "c"]
    refused(api.follow(paths[1]), 404, "topic t")
    refused(api.get("/topics/t/messages", ids=paths[1].rpartition("/")[2]), 404, "topic t")


def test_history_is_bounded_by_metadata(api: ZaqarTestClient) -> None:
    api.request("PUT", "/topics/t", {"_history_size": 2})
    publish(api, "t", *range(5))
    assert history(api, "t") == [3, 4]
    remove = [{"op": "remove", "path": "/metadata/_history_size"}]
    api.request("PATCH", "/topics/t", remove, headers={"Content-Type": PATCH})
    publish(api, "t", *range(5, 8))
    assert history(api, "t") == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("size", [0, -1, 1_000_001, "2", 1.5, True])
def test_bad_history_size_is_refused(api: ZaqarTestClient, size: object) -> None:
    refused(api.request("PUT", "/topics/t", {"_history_size": size}), 400, "_history_size")
    assert api.get("/topics").json()["topics"] == []
    assert api.create("q", _history_size=size).status_code == 201  # any metadata, as in Zaqar


def test_stats_and_purge_of_a_topic(api: ZaqarTestClient) -> None:
    paths = publish(api, "t", *"abc")
    stats = api.get("/topics/t/stats").json()["messages"]
    assert (stats["free"], stats["claimed"], stats["total"]) == (3, 0, 3)
    assert (stats["oldest"]["href"], stats["newest"]["href"]) == (paths[0], paths[2])
    assert api.request("POST", "/topics/t/purge").status_code == 204
    assert api.get("/topics/t/stats").json() == {"messages": {"free": 0, "claimed": 0, "total": 0}}
    assert [topic["name"] for topic in api.get("/topics").json()["topics"]] == ["t"]


@pytest.mark.parametrize("name", ["a" * 65, "a:b", "topic:t", "ü"])
def test_bad_name_is_refused(api: ZaqarTestClient, name: str) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("GET", "/messages"), ("GET", "/stats")):
        answer = api.request(method, f"/topics/{name}{path}")
        refused(answer, 400, "Topic names")
        assert answer.json()["title"] == "Invalid topic identification"
    refused(api.request("POST", f"/topics/{name}/messages", {}), 400, "Topic names")


@pytest.mark.parametrize("path", ["messages", "messages/{}", "stats", "claims", "peek"])
def test_topic_is_not_reached_as_a_queue(api: ZaqarTestClient, path: str) -> None:
    publish(api, "t", 1)
    assert api.get(f"/queues/topic:t/{path}").status_code == 400


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "claims"), ("GET", "claims"), ("GET", "peek"), ("POST", "move")]
)
def test_topics_have_no_claims(api: ZaqarTestClient, method: str, path: str) -> None:
    assert api.request(method, f"/topics/t/{path}", {}).status_code == 404


def test_messages_of_a_topic_are_not_popped(api: ZaqarTestClient) -> None:
    publish(api, "t", 1)
    assert api.request("DELETE", "/topics/t/messages", pop=1).status_code == 405
    assert history(api, "t") == [1]


def test_topics_of_projects_are_apart(api: ZaqarTestClient, project: str) -> None:
    publish(api, "t", 1)
    foreign = api.another_client(f"{project}2")
    assert history(foreign, "t") == []
    assert foreign.get("/topics").json()["topics"] == []
