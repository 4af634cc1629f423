# SPDX-License-Identifier: Apache-2.0
"""A client for requests to stock Zaqar and to our service alike."""

from __future__ import annotations

from typing import Any

import httpx

_HEADERS = {"Client-ID": "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10"}


class RestClient:
    """A client of one project at the v2 API of a service."""

    def __init__(self, url: str, project: str, http: httpx.Client | None = None) -> None:
        self._http = http or httpx
        self._url = f"{url}/v2"
        self._headers = _HEADERS | {"X-Project-ID": project}

    def ask(self, method: str, path: str, document: object | None = None, **query: Any) -> Any:
        answer = self._http.request(
            method,
            self._url + path,
            json=document,
            params=query or None,
            headers=self._headers,
            timeout=30,
        )
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    def post(self, queue: str, *bodies: object, **fields: int) -> list[str]:
        messages = [{"body": body, "ttl": 600, **fields} for body in bodies]
        answer = self.ask("POST", f"/queues/{queue}/messages", {"messages": messages})
        return [href.rpartition("/")[2] for href in answer["resources"]]

    def listed(self, queue: str, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(
            "GET", f"/queues/{queue}/messages", echo="true", limit=20, **query
        )["messages"]
        return [{name: each[name] for name in ("id", "body", "ttl")} for each in found]

    def claim(self, queue: str, limit: int) -> tuple[str, list[Any]]:
        answer = self.ask(
            "POST", f"/queues/{queue}/claims", {"ttl": 300, "grace": 60}, limit=limit
        )["messages"]
        (claim,) = {message["href"].partition("claim_id=")[2] for message in answer}
        return claim, [message["body"] for message in answer]

    def stats(self, queue: str) -> tuple[int, int]:
        found = self.ask("GET", f"/queues/{queue}/stats")["messages"]
        return found["free"], found["claimed"]
