# SPDX-License-Identifier: Apache-2.0
"""A client of the measured Zaqar v2 service, which fills its queues and deletes them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import math
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from zaqar_redis import errors
from zaqar_redis.benchmarks.client import HttpConnection

#: Messages in one post of the preload; stock Zaqar accepts about 4000.
_MESSAGES_PER_POST = 1000
#: Maximum number of messages in one claim.
_MESSAGES_PER_CLAIM = 20
#: Timeout of one request of the preparation; stock needs long to delete a large queue.
_REQUEST_TIMEOUT_SECONDS = 120.0
#: Seconds without a request after which a service may have closed the connection.
_KEEP_ALIVE_SECONDS = 5.0
_BODY_BYTES = 150


def local_url(url: str) -> str:
    """Returns the URL without the path ``/v2``.

    Raises BadConfiguration unless its host is this machine's loopback.
    """
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
    """Returns the URI of a Redis.  Raises BadConfiguration unless it is on this machine."""
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
            f"{host}: bench loads a service heavily, so it must be on a loopback address"
        )


def message() -> dict[str, Any]:
    """Returns a message whose body is 150 bytes of JSON, as in wrk/report.lua."""
    body = {"event": "order", "number": 12345, "note": ""}
    missing = _BODY_BYTES - len(json.dumps(body, separators=(",", ":")))
    return {"body": body | {"note": "x" * missing}, "ttl": 43200}


class BenchmarkFailed(Exception):
    """The preparation or the measurement of a workload failed."""


class MeasuredService:
    """A client with a project of its own in the service at a URL; not thread-safe."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        """*headers*: of all requests, beside or in the place of its own."""
        self.url = local_url(url)
        parts = urlsplit(self.url)
        self._address = str(parts.hostname), int(parts.port or 80)
        self.headers = {
            "Client-ID": str(uuid.uuid4()),
            "X-Project-ID": f"bench-{uuid.uuid4().hex}",
            **(headers or {}),
        }
        self._runner = asyncio.Runner()
        self._connection = HttpConnection(
            *self._address, self.headers, timeout=_REQUEST_TIMEOUT_SECONDS
        )
        self._used = 0.0
        self._queues: set[str] = set()
        self._full = _post_body(_MESSAGES_PER_POST)

    def connection(self) -> HttpConnection:
        """Returns a connection of its own, for load."""
        return HttpConnection(*self._address, self.headers)

    def close(self) -> None:
        self._connection.close()
        self._runner.close()

    def check(self) -> None:
        """Raises BadConfiguration unless a Zaqar v2 service answers."""
        try:
            status, data = self._request("GET", "/")
        except OSError as error:
            raise errors.BadConfiguration(
                f"{self.url} does not answer: {errors.reason(error)}"
            ) from error
        if status != 300 or b"/v2/" not in data:
            raise errors.BadConfiguration(f"{self.url} is not a Zaqar v2 service")

    def wait_until_idle(self) -> None:
        """Waits until the service has finished the requests of the last round.

        A synchronous worker goes on with requests whose clients have disconnected, which
        would slow down the next measurement.
        """
        self._request("GET", "/")

    def queue(self, *suffixes: str) -> str:
        """Returns the name of a new queue; with *suffixes*, of a family ``name-suffix``."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        self._queues.update([f"{name}-{suffix}" for suffix in suffixes] or [name])
        return name

    def fill(self, queue: str, count: int) -> list[str]:
        """Posts *count* messages; returns the id of the first message of each request."""
        firsts = [self._post(queue, self._full) for _ in range(count // _MESSAGES_PER_POST)]
        if count % _MESSAGES_PER_POST:
            firsts.append(self._post(queue, _post_body(count % _MESSAGES_PER_POST)))
        return firsts

    def claim_messages(self, queue: str, count: int) -> None:
        """Claims *count* messages, longer than any run."""
        for _ in range(math.ceil(count / _MESSAGES_PER_CLAIM)):
            path = f"/v2/queues/{queue}/claims?limit={_MESSAGES_PER_CLAIM}"
            self.expect(201, "POST", path, b'{"ttl":43200,"grace":60}')

    def first_ids(self, queue: str, count: int) -> list[str]:
        page = self.get(f"/v2/queues/{queue}/messages?echo=true&limit={count}")
        return [found["id"] for found in page["messages"]]

    def total(self, queue: str) -> int:
        return int(self.get(f"/v2/queues/{queue}/stats")["messages"]["total"])

    def get(self, path: str) -> Any:
        """Returns the document at a path.  Raises BenchmarkFailed when there is none."""
        return json.loads(self.expect(200, "GET", path))

    def delete_queue(self, queue: str) -> None:
        if queue in self._queues:
            self.expect(204, "DELETE", f"/v2/queues/{queue}")
            self._queues.discard(queue)

    def delete_queues(self) -> list[str]:
        """Deletes the remaining queues; returns the names of those that could not be deleted."""
        for queue in tuple(self._queues):
            with contextlib.suppress(OSError, BenchmarkFailed):
                self.delete_queue(queue)
        return sorted(self._queues)

    def _post(self, queue: str, data: bytes) -> str:
        answer = self.expect(201, "POST", f"/v2/queues/{queue}/messages", data)
        return str(json.loads(answer)["resources"][0]).rsplit("/", 1)[1]

    def expect(self, status: int, method: str, path: str, data: bytes = b"") -> bytes:
        """Returns the body of a response.  Raises BenchmarkFailed unless it has the status."""
        got, answer = self._request(method, path, data)
        if got != status:
            text = answer.decode("utf-8", "replace")
            raise BenchmarkFailed(f"{method} {self.url}{path} answered {got}: {text}")
        return answer

    def _request(self, method: str, path: str, data: bytes = b"") -> tuple[int, bytes]:
        if time.monotonic() - self._used > _KEEP_ALIVE_SECONDS:
            self._connection.close()  # the next request opens another
        answer = self._runner.run(self._connection.request(method, path, data))
        self._used = time.monotonic()
        return answer


def _post_body(count: int) -> bytes:
    return json.dumps({"messages": [message()] * count}, separators=(",", ":")).encode()
