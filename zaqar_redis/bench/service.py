# SPDX-License-Identifier: Apache-2.0
"""A Zaqar v2 service under measurement: filling its queues and cleaning them up."""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from zaqar_redis import errors

#: One post of the preload; stock Zaqar cannot take more than about 4000 at a time.
_FILL = 1000
#: The most that one claim may take.
_CLAIM = 20
#: Seconds for one request of the preparation; stock needs long to delete a large queue.
_PATIENCE = 120.0
#: Seconds without a request after which a service may have closed the connection.
_IDLE = 5.0
_BODY_BYTES = 150


def local_url(url: str) -> str:
    """The URL, without the path ``/v2``.  Raises BadConfiguration unless it is of this machine."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError as error:
        raise errors.BadConfiguration(f"{url}: {error}") from error
    if parts.scheme != "http" or not parts.hostname or parts.path.rstrip("/") not in ("", "/v2"):
        raise errors.BadConfiguration(f"{url}: it must be http://127.0.0.1:PORT")
    refuse_remote(parts.hostname)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"http://{host}:{port}"


def local_store(uri: str) -> str:
    """The URI of a Redis.  Raises BadConfiguration unless it is of this machine."""
    parts = urlsplit(uri)
    if parts.scheme not in ("redis", "unix"):
        raise errors.BadConfiguration(f"{parts.scheme}://…: it must be redis:// or unix://")
    if parts.scheme == "redis":
        refuse_remote(parts.hostname or "localhost")
    return uri


def refuse_remote(host: str) -> None:
    """Raises BadConfiguration unless *host* is this machine's loopback."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise errors.BadConfiguration(
            f"{host}: bench makes heavy load and only does so on this machine's loopback addresses"
        )


def message() -> dict[str, Any]:
    """A message whose body is 150 bytes of JSON, as in wrk/report.lua."""
    body = {"event": "order", "number": 12345, "note": ""}
    missing = _BODY_BYTES - len(json.dumps(body, separators=(",", ":")))
    return {"body": body | {"note": "x" * missing}, "ttl": 43200}


class Failed(Exception):
    """The service did not do what the preparation of a workload needs."""


class Service:
    """One project of our own in the service behind a URL; not for several threads."""

    def __init__(self, url: str) -> None:
        self.url = local_url(url)
        parts = urlsplit(self.url)
        self.host, self.port = str(parts.hostname), int(parts.port or 80)
        self.headers = {
            "Client-ID": str(uuid.uuid4()),
            "X-Project-ID": f"bench-{uuid.uuid4().hex}",
        }
        self._connection = http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE)
        self._used = 0.0
        self._made: set[str] = set()
        self._full = _posting(_FILL)

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        """Raises BadConfiguration unless a Zaqar v2 service answers."""
        try:
            status, _, data = self._request("GET", "/")
        except (OSError, http.client.HTTPException) as error:
            raise errors.BadConfiguration(
                f"{self.url} does not answer: {errors.reason(error)}"
            ) from error
        if status != 300 or b"/v2/" not in data:
            raise errors.BadConfiguration(f"{self.url} does not speak Zaqar v2")

    def settle(self) -> None:
        """Wait until the service is done with what an ended round still left it to do.

        A synchronous worker goes on with requests whose clients are gone, and would
        do so at the cost of whoever is measured next.
        """
        self._request("GET", "/")

    def queue(self, *suffixes: str) -> str:
        """The name of a new queue; with *suffixes*, of a family ``name-suffix``."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        self._made.update([f"{name}-{suffix}" for suffix in suffixes] or [name])
        return name

    def fill(self, queue: str, count: int) -> list[str]:
        """Post *count* messages; ids of the first of every request."""
        firsts = [self._post(queue, self._full) for _ in range(count // _FILL)]
        if count % _FILL:
            firsts.append(self._post(queue, _posting(count % _FILL)))
        return firsts

    def hold(self, queue: str, count: int) -> None:
        """Claim *count* messages for long."""
        for _ in range(math.ceil(count / _CLAIM)):
            path = f"/v2/queues/{queue}/claims?limit={_CLAIM}"
            self._expect(201, "POST", path, b'{"ttl":43200,"grace":60}')

    def first_ids(self, queue: str, count: int) -> list[str]:
        _, data = self._expect(200, "GET", f"/v2/queues/{queue}/messages?echo=true&limit={count}")
        return [found["id"] for found in json.loads(data)["messages"]]

    def total(self, queue: str) -> int:
        _, data = self._expect(200, "GET", f"/v2/queues/{queue}/stats")
        return int(json.loads(data)["messages"]["total"])

    def drop(self, queue: str) -> None:
        if queue in self._made:
            self._expect(204, "DELETE", f"/v2/queues/{queue}")
            self._made.discard(queue)

    def drop_all(self) -> list[str]:
        """Delete what is left of our queues; names of those that would not go."""
        for queue in tuple(self._made):
            try:
                self.drop(queue)
            except (OSError, http.client.HTTPException, Failed):
                self._connection.close()
        return sorted(self._made)

    def _post(self, queue: str, data: bytes) -> str:
        _, answer = self._expect(201, "POST", f"/v2/queues/{queue}/messages", data)
        return str(json.loads(answer)["resources"][0]).rsplit("/", 1)[1]

    def _expect(
        self, status: int, method: str, path: str, data: bytes | None = None
    ) -> tuple[http.client.HTTPMessage, bytes]:
        got, headers, answer = self._request(method, path, data)
        if got != status:
            text = answer.decode("utf-8", "replace")
            raise Failed(f"{method} {self.url}{path} answered {got}: {text}")
        return headers, answer

    def _request(
        self, method: str, path: str, data: bytes | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        if time.monotonic() - self._used > _IDLE:
            self._connection.close()  # the next request opens another
        headers = self.headers | ({"Content-Type": "application/json"} if data else {})
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        answer = response.status, response.headers, response.read()
        self._used = time.monotonic()
        return answer


def _posting(count: int) -> bytes:
    return json.dumps({"messages": [message()] * count}, separators=(",", ":")).encode()
