# SPDX-License-Identifier: Apache-2.0
"""A thin client of the v2 API: identities go into headers, responses are returned as they are."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

PATCH = "application/openstack-messaging-v2.0-json-patch"
NOTHING = object()

Ids = list[str]
Bodies = list[Any]


class ZaqarTestClient:
    """A client of one project."""

    def __init__(
        self, http: httpx.Client, url: str, project: str, client: str | None = None
    ) -> None:
        self.http = http
        self.url = url
        self.project = project
        self.client = client or str(uuid.uuid4())

    def another_client(self, project: str | None = None) -> ZaqarTestClient:
        """Returns another client, of the same project or of the given one."""
        return ZaqarTestClient(self.http, self.url, project or self.project)

    def request(
        self,
        method: str,
        path: str,
        document: object = NOTHING,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> httpx.Response:
        """Sends a request; *path* is below ``/v2``, *params* that are None are left out."""
        given: dict[str, Any] = {"json": document} if document is not NOTHING else {}
        if content is not None:
            given["content"] = content
        query = {name: value for name, value in params.items() if value is not None}
        if query:
            given["params"] = query
        sent = {"Client-ID": self.client, "X-Project-ID": self.project} | (headers or {})
        # As bytes, so that the project may have any characters.
        given["headers"] = [(name.encode(), value.encode()) for name, value in sent.items()]
        return self.http.request(method, f"{self.url}/v2{path}", **given)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.request("GET", path, **params)

    def follow(self, href: str) -> httpx.Response:
        """Sends a GET for the target of a link or a Location."""
        return self.get(href.removeprefix("/v2"))

    def create(self, queue: str, /, **metadata: Any) -> httpx.Response:
        return self.request("PUT", f"/queues/{queue}", metadata)

    def patch(self, queue: str, *changes: object) -> httpx.Response:
        return self.request(
            "PATCH", f"/queues/{queue}", list(changes), headers={"Content-Type": PATCH}
        )

    def post(self, queue: str, *messages: object, key: str | None = None) -> httpx.Response:
        """Posts message documents as they are; *key* is the Idempotency-Key."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.request(
            "POST", f"/queues/{queue}/messages", {"messages": list(messages)}, headers=headers
        )

    def send(self, queue: str, *bodies: object, **fields: Any) -> Ids:
        """Posts bodies; returns the ids."""
        answer = self.post(queue, *({"body": body} | fields for body in bodies))
        assert answer.status_code == 201, answer.text
        return [href.rsplit("/", 1)[1] for href in answer.json()["resources"]]

    def list(self, queue: str, **params: Any) -> httpx.Response:
        """Lists messages, with the client's own."""
        return self.get(f"/queues/{queue}/messages", **({"echo": True} | params))

    def bodies(self, queue: str, **params: Any) -> Bodies:
        answer = self.list(queue, **params)
        assert answer.status_code == 200, answer.text
        return [message["body"] for message in answer.json()["messages"]]

    def claim(self, queue: str, limit: int | None = None, **lease: Any) -> httpx.Response:
        document = lease if lease else NOTHING
        return self.request("POST", f"/queues/{queue}/claims", document, limit=limit)

    def hold(self, queue: str, limit: int | None = None, **lease: Any) -> tuple[str, Bodies]:
        """Claims messages; returns the id of the claim and its messages."""
        answer = self.claim(queue, limit, **lease)
        assert answer.status_code == 201, answer.text
        return answer.headers["Location"].rsplit("/", 1)[1], answer.json()["messages"]

    def claimed(self, queue: str, claim: str) -> httpx.Response:
        return self.get(f"/queues/{queue}/claims/{claim}")

    def renew(self, queue: str, claim: str, **lease: Any) -> httpx.Response:
        return self.request("PATCH", f"/queues/{queue}/claims/{claim}", lease)

    def release(self, queue: str, claim: str) -> httpx.Response:
        return self.request("DELETE", f"/queues/{queue}/claims/{claim}")

    def release_some(self, queue: str, claim: str, **document: Any) -> httpx.Response:
        path = f"/queues/{queue}/claims/{claim}/release"
        return self.request("POST", path, document or NOTHING)

    def message(self, queue: str, message: str) -> httpx.Response:
        return self.get(f"/queues/{queue}/messages/{message}")

    def delete(self, queue: str, message: str, claim: str | None = None) -> httpx.Response:
        return self.request("DELETE", f"/queues/{queue}/messages/{message}", claim_id=claim)

    def delete_many(self, queue: str, *ids: str, **params: Any) -> httpx.Response:
        return self.request(
            "DELETE", f"/queues/{queue}/messages", ids=",".join(ids) or None, **params
        )

    def pop(self, queue: str, number: int) -> httpx.Response:
        return self.request("DELETE", f"/queues/{queue}/messages", pop=number)

    def stats(self, queue: str) -> dict[str, Any]:
        answer = self.get(f"/queues/{queue}/stats")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["messages"]
        return found

    def counts(self, queue: str) -> tuple[int, int, int]:
        """Returns the counts of free, claimed and all messages."""
        found = self.stats(queue)
        return found["free"], found["claimed"], found["total"]


def refused(answer: httpx.Response, status: int, *words: str) -> None:
    """Asserts that the response is an error document of this status that contains all *words*."""
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert set(document) == {"title", "description"}, document
    for word in words:
        assert word in document["description"], document
