# SPDX-License-Identifier: Apache-2.0
"""Quotas over HTTP: requests for them, and what they refuse."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers
from tests.support.servers import RunningService

UNLIMITED = {"requests": -1, "queues": -1, "messages": -1, "bytes": -1, "sockets": -1}


running = fixtures.service({"DEFAULT": {"admin_mode": True}}, workers=2)


@pytest.fixture
def limited(running: RunningService, http: httpx.Client, project: str) -> Iterator[ZaqarTestClient]:
    """A client of a project whose quotas the test sets."""
    client = ZaqarTestClient(http, running.url, project)
    yield client
    operator(client).request("DELETE", f"/quotas/{project}")


def operator(client: ZaqarTestClient) -> ZaqarTestClient:
    return client.another_client(f"operator-{uuid.uuid4()}")


def set_quota(client: ZaqarTestClient, **limits: int) -> None:
    answer = operator(client).request("PUT", f"/quotas/{client.project}", limits)
    assert answer.status_code == 200, answer.text


def shown(client: ZaqarTestClient) -> dict[str, Any]:
    answer = operator(client).get(f"/quotas/{client.project}")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def wait_until_refused(client: ZaqarTestClient, method: str, path: str) -> httpx.Response:
    """Sends requests until one is refused, when the worker knows the quota; returns its answer."""
    answers: list[httpx.Response] = []

    def is_refused() -> bool:
        answers.append(client.request(method, path))
        return answers[-1].status_code in (403, 429)

    servers.wait_for(is_refused, "a request to be refused")
    return answers[-1]


def test_quota_is_set_shown_replaced_and_removed(limited: ZaqarTestClient) -> None:
    project = limited.project
    assert shown(limited) == UNLIMITED | {
        "project": project,
        "href": f"/v2/quotas/{project}",
        "usage": {"queues": 0, "messages": 0, "bytes": 0, "sockets": 0},
    }
    set_quota(limited, requests=1000, queues=5)
    set_quota(limited, messages=7, bytes=-1)
    found = shown(limited)
    assert {name: found[name] for name in UNLIMITED} == UNLIMITED | {"messages": 7}
    for _ in range(2):
        assert operator(limited).request("DELETE", f"/quotas/{project}").status_code == 204
    assert shown(limited)["messages"] == -1


def test_usage_is_shown(limited: ZaqarTestClient) -> None:
    limited.send("q", "x" * 1000, "y" * 1000)
    limited.create("other")
    usage = shown(limited)["usage"]
    assert (usage["queues"], usage["messages"], usage["sockets"]) == (2, 2, 0)
    assert 2000 < usage["bytes"] < 2400


def test_quotas_are_listed_in_pages(limited: ZaqarTestClient) -> None:
    admin = operator(limited)
    for name in ("b", "c"):
        path = f"/quotas/{limited.project}-{name}"
        assert admin.request("PUT", path, {"queues": 1}).status_code == 200
    set_quota(limited, queues=2)
    first = admin.get("/quotas", marker=limited.project[:-1], limit=2).json()
    names = [quota["project"] for quota in first["quotas"]]
    assert names == [limited.project, f"{limited.project}-b"]
    assert [quota["queues"] for quota in first["quotas"]] == [2, 1]
    second = admin.follow(first["links"][0]["href"]).json()
    assert second["quotas"][0]["project"] == f"{limited.project}-c"
    refused(admin.get("/quotas", limit=0), 400, "limit")


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"queues": -2}, "queues"),
        ({"queues": "5"}, "queues"),
        ({"bytes": 2**63}, "bytes"),
        ({"requests": 1.5}, "requests"),
        ([], "object"),
    ],
)
def test_invalid_quota_is_refused(limited: ZaqarTestClient, document: object, word: str) -> None:
    answer = operator(limited).request("PUT", f"/quotas/{limited.project}", document)
    refused(answer, 400, word)
    assert shown(limited)["queues"] == -1


def test_quota_of_an_invalid_project_is_refused(limited: ZaqarTestClient) -> None:
    admin = operator(limited)
    refused(admin.request("PUT", f"/quotas/{'x' * 257}", {}), 400, "256")
    refused(admin.request("PUT", "/quotas/%C3%A4", {}), 400, "ASCII")


def test_request_beyond_the_rate_gets_429_and_changes_nothing(limited: ZaqarTestClient) -> None:
    set_quota(limited, requests=0)
    answer = wait_until_refused(limited, "GET", "/queues/q")
    refused(answer, 429, "requests", limited.project, "is 0")
    assert answer.json()["title"] == "Too many requests"
    assert int(answer.headers["Retry-After"]) >= 1
    refused(limited.create("q"), 429, "requests")
    refused(limited.post("q", {"body": 1}), 429, "requests")
    assert shown(limited)["usage"]["queues"] == 0
    assert limited.http.get(f"{limited.url}/v2/ping").status_code == 204
    assert operator(limited).get("/queues/q").status_code == 200


def test_two_workers_share_the_rate(running: RunningService, project: str) -> None:
    rate = 8
    with contextlib.ExitStack() as stack:
        # Each has one connection, to one of the workers.
        https = [stack.enter_context(httpx.Client(verify=False, timeout=60)) for _ in range(6)]
        clients = [ZaqarTestClient(http, running.url, project) for http in https]
        set_quota(clients[0], requests=rate)
        for client in clients:
            wait_until_refused(client, "GET", "/queues/q")
        began = time.monotonic()
        for client in clients:  # what was saved up meanwhile is used up, too
            wait_until_refused(client, "GET", "/queues/q")
        codes = [client.get("/queues/q").status_code for _ in range(200) for client in clients]
        seconds = time.monotonic() - began
    assert codes.count(200) <= rate * seconds * 1.3 + 2
    assert codes.count(429) == len(codes) - codes.count(200) > 0


def test_project_sees_its_own_quota_and_no_other(api: ZaqarTestClient) -> None:
    own = api.get(f"/quotas/{api.project}")
    assert (own.status_code, own.json()["queues"]) == (200, -1)
    refused(api.get("/quotas/another"), 403, "another")
    for method in ("PUT", "DELETE"):
        answer = api.request(method, f"/quotas/{api.project}", {"queues": 1})
        refused(answer, 405, f"{method} /v2/quotas/{api.project}", "operators", "--admin")
    assert api.get("/quotas").status_code == 404


#: A service with a small quota for every project.
small_service = fixtures.service(
    {
        "DEFAULT": {"admin_mode": True},
        "quota": {"queues": 2, "messages": 3},
    }
)


#: One that can encrypt.
with_key = fixtures.service({"transport": {"message_encryption_key": "a key for tests"}})


@pytest.fixture
def small(http: httpx.Client, small_service: RunningService, project: str) -> ZaqarTestClient:
    return ZaqarTestClient(http, small_service.url, project)


def test_post_beyond_the_quota_of_messages_stores_nothing(small: ZaqarTestClient) -> None:
    small.send("q", 1, 2)
    answer = small.post("q", {"body": 3}, {"body": 4})
    refused(answer, 403, '"messages"', small.project, "is 3", "2 are used", "add 2")
    assert answer.json()["title"] == "Quota exceeded"
    assert answer.headers["retry-after"] == "10"
    assert "retry-after" not in small.post("q", *[{"body": 3}] * 4).headers  # it can never fit
    assert small.counts("q") == (2, 0, 2)
    small.send("q", 3)
    refused(small.post("q", {"body": 4}), 403, "messages")
    small.another_client(f"{small.project}-other").send("q", 1, 2, 3)


def test_post_that_cannot_be_encrypted_uses_no_quota(
    small: ZaqarTestClient, http: httpx.Client, with_key: RunningService
) -> None:
    ZaqarTestClient(http, with_key.url, small.project).create("q", _enable_encrypt_messages=True)
    for _ in range(4):
        refused(small.post("q", {"body": 1}), 500, "message_encryption_key")
    small.send("plain", 1, 2, 3)


def test_repeated_post_uses_the_quota_once(small: ZaqarTestClient) -> None:
    for _ in range(3):
        assert small.post("q", {"body": 1}, key="k").status_code == 201
    small.send("q", 2, 3)


def test_queue_beyond_the_quota_is_not_created(small: ZaqarTestClient) -> None:
    small.create("a")
    small.send("b", 1)
    refused(small.create("c"), 403, '"queues"', small.project, "is 2")
    refused(small.post("c", {"body": 1}), 403, "queues")
    listed = [queue["name"] for queue in small.get("/queues").json()["queues"]]
    assert listed == ["a", "b"]
    assert small.create("a").status_code == 204


def test_subscription_to_a_queue_beyond_the_quota_is_not_created(small: ZaqarTestClient) -> None:
    def subscribe(queue: str) -> httpx.Response:
        document = {"subscriber": "mailto:a@example.org"}
        return small.request("POST", f"/queues/{queue}/subscriptions", document)

    assert [subscribe(queue).status_code for queue in "ab"] == [201, 201]
    refused(subscribe("c"), 403, '"queues"', small.project, "is 2")
    assert small.get("/queues/c/subscriptions").json()["subscriptions"] == []
    assert subscribe("a").status_code == 201


def test_quota_without_a_limit_has_that_of_the_options(small: ZaqarTestClient) -> None:
    assert (shown(small)["queues"], shown(small)["messages"]) == (2, 3)
    set_quota(small, queues=-1)
    assert (shown(small)["queues"], shown(small)["messages"]) == (-1, 3)


def test_changed_quota_of_messages_holds_for_the_next_posts(small: ZaqarTestClient) -> None:
    small.send("q", 1, 2, 3)
    set_quota(small, messages=4)
    servers.wait_for(lambda: small.post("q", {"body": 4}).status_code == 201, "a larger quota")
    refused(small.post("q", {"body": 5}), 403, "messages", "4 are used")
