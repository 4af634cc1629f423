# SPDX-License-Identifier: Apache-2.0
"""``Idempotency-Key``: a retried post is done once."""

from __future__ import annotations

import asyncio
import uuid

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers


def test_retry_gets_the_first_response(api: ZaqarTestClient) -> None:
    first = api.post("q", {"body": 1}, {"body": 2}, key="once")
    again = api.post("q", {"body": 1}, {"body": 2}, key="once")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert api.bodies("q") == [1, 2]


def test_response_to_a_retry_outlives_the_messages(api: ZaqarTestClient) -> None:
    first = api.post("q", {"body": 1}, key="once")
    api.pop("q", 1)
    assert api.post("q", {"body": 1}, key="once").json() == first.json()
    assert api.bodies("q") == []


def test_idempotency_key_reused_for_other_content_is_refused(api: ZaqarTestClient) -> None:
    api.post("q", {"body": 1}, key="once")
    answer = api.post("q", {"body": 2}, key="once")
    refused(answer, 422, "Idempotency-Key")
    assert api.bodies("q") == [1]
    assert api.post("q", {"body": 1}, key="once").status_code == 201


def test_idempotency_key_is_valid_in_its_project_only(api: ZaqarTestClient) -> None:
    stranger = api.another_client(f"{api.project}-2")
    api.post("q", {"body": 1}, key="once")
    assert stranger.post("q", {"body": 2}, key="once").status_code == 201
    assert (api.bodies("q"), stranger.bodies("q")) == ([1], [2])


def test_refused_post_does_not_consume_its_key(api: ZaqarTestClient) -> None:
    assert api.post("q", {"body": 1, "ttl": 1}, key="once").status_code == 400
    assert api.post("q", {"body": 1, "ttl": 60}, key="once").status_code == 201
    assert api.bodies("q") == [1]


def test_retry_to_an_encrypting_queue_is_recognised(rich: ZaqarTestClient) -> None:
    rich.create("q", _enable_encrypt_messages=True)
    first = rich.post("q", {"body": 1}, key="once")
    assert rich.post("q", {"body": 1}, key="once").json() == first.json()
    assert rich.post("q", {"body": 2}, key="once").status_code == 422
    assert rich.bodies("q") == [1]


@pytest.mark.parametrize(("length", "status"), [(1, 201), (254, 201), (255, 201), (256, 400)])
def test_length_of_an_idempotency_key_is_limited(
    api: ZaqarTestClient, length: int, status: int
) -> None:
    answer = api.post("q", {"body": 1}, key="k" * length)
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "Idempotency-Key", "255")
        assert api.bodies("q") == []


@pytest.mark.parametrize("key", ["", "a b", "a\tb", "ké", "k\x7f"])
def test_unprintable_idempotency_key_is_refused(api: ZaqarTestClient, key: str) -> None:
    url = f"{api.url}/v2/queues/q/messages"
    headers = [
        (b"Client-ID", api.client.encode()),
        (b"X-Project-ID", api.project.encode()),
        (b"Idempotency-Key", key.encode("latin-1")),
    ]
    answer = api.http.post(url, content=b'{"messages":[{"body":1}]}', headers=headers)
    # Characters that are illegal in headers are refused by the HTTP parser.
    named = "Idempotency-Key" if key != "k\x7f" else "Invalid header value char"
    refused(answer, 400, named)
    assert api.bodies("q") == []


@pytest.mark.parametrize("key", ["!", "~", '"quoted"', "a/b{c}*:d%20", str(uuid.UUID(int=1))])
def test_any_printable_text_is_an_idempotency_key(api: ZaqarTestClient, key: str) -> None:
    for _ in range(2):
        assert api.post("q", {"body": 1}, key=key).status_code == 201
    assert api.bodies("q") == [1]


async def test_concurrent_retries_post_once(api: ZaqarTestClient) -> None:
    headers = {"Client-ID": api.client, "X-Project-ID": api.project, "Idempotency-Key": "once"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        posts = (
            http.post(f"{api.url}/v2/queues/q/messages", json={"messages": [{"body": 1}]})
            for _ in range(20)
        )
        answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 19
    assert api.bodies("q") == [1]


#: A service with an idempotency window of one second.
forgetful = fixtures.service(
    {"transport": {"idempotency_window": 1, "max_idempotency_window": 100}}
)


def _wait_until_forgotten(api: ZaqarTestClient, queue: str) -> None:
    servers.wait_for(
        lambda: "Idempotency-Replayed" not in api.post(queue, {"body": 1}, key="once").headers,
        "the key to expire",
    )


def test_idempotency_key_expires_after_the_window(
    http: httpx.Client, forgetful: servers.RunningService, project: str
) -> None:
    api = ZaqarTestClient(http, forgetful.url, project)
    api.post("q", {"body": 1}, key="once")
    _wait_until_forgotten(api, "q")
    assert api.bodies("q") == [1, 1]


def test_queue_may_have_a_longer_window_than_the_service(
    http: httpx.Client, forgetful: servers.RunningService, project: str
) -> None:
    api = ZaqarTestClient(http, forgetful.url, project)
    api.create("q", _idempotency_window=100)
    api.post("q", {"body": 1}, key="once")
    api.post("r", {"body": 1}, key="once")
    _wait_until_forgotten(api, "r")
    assert api.post("q", {"body": 1}, key="once").headers["Idempotency-Replayed"] == "true"
    refused(api.create("p", _idempotency_window=101), 400, "_idempotency_window", "1 and 100")


def test_stats_count_idempotency_records_when_there_are_any(api: ZaqarTestClient) -> None:
    api.post("q", {"body": 1})
    assert set(api.get("/queues/q/stats").json()) == {"messages"}
    for key in ("a", "b", "a"):
        api.post("q", {"body": 1}, key=key)
    assert api.get("/queues/q/stats").json()["idempotency_records"] == 2


def test_queue_shows_its_idempotency_window_when_set(api: ZaqarTestClient) -> None:
    api.create("q", _idempotency_window=60)
    assert api.get("/queues/q").json()["_idempotency_window"] == 60
    assert "_idempotency_window" not in api.get("/queues/r").json()
