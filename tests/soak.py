# SPDX-License-Identifier: Apache-2.0
"""A long run at a bounded rate that shows whether a worker's memory grows.

    python -m tests.soak --minutes 10

starts a Redis and a service of one worker of its own, and stops them. With
``--url`` it uses a service that runs already, and watches the processes given
with ``--pid``. The load is mixed: small and large posts, listings, claims with
deletion, renewal and release, long polls that end empty, retried posts, requests
that are refused, queues that come and go. Half of the clients take the fast path of
a request, the others the ASGI path.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import httpx

from tests.support import servers
from tests.support.ways import WAYS

#: Queues in use: enough to fill a worker's cache of queues within a minute.
_QUEUES = 300
#: Seconds between two lines of the report.
_REPORT_INTERVAL_SECONDS = 30.0
#: Part of the run that counts as warming up.
_WARM = 0.2


class SoakClient(threading.Thread):
    """A thread with one connection that performs random operations."""

    def __init__(self, url: str, rate: float, stopping: threading.Event, way: str) -> None:
        super().__init__(daemon=True)
        self._pause = 1 / rate
        self._stopping = stopping
        self._client = httpx.Client(
            base_url=f"{url}/v2/queues",
            headers={"Client-ID": str(uuid.uuid4()), "X-Project-ID": "soak"} | WAYS[way],
            timeout=30,
        )
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        operations: list[Callable[[str], None]] = [
            self._post,
            self._post_many,
            self._retry,
            self._list,
            self._claim,
            self._claim,
            self._long_poll,
            self._pop,
            self._send_invalid,
            self._recreate_queue,
        ]
        while not self._stopping.is_set():
            start = time.monotonic()
            before = self.statuses.total()
            random.choice(operations)(f"q{random.randrange(_QUEUES)}")
            next_at = start + (self.statuses.total() - before) * self._pause
            self._stopping.wait(max(0.0, next_at - time.monotonic()))

    def _request(self, method: str, path: str, **more: object) -> httpx.Response:
        answer = self._client.request(method, path, **more)  # type: ignore[arg-type]  # by keyword, of many types
        self.statuses[answer.status_code] += 1
        return answer

    def _post(self, queue: str) -> None:
        self._request("POST", f"/{queue}/messages", json={"messages": [{"body": "x" * 150}]})

    def _post_many(self, queue: str) -> None:
        messages = [{"body": {"n": n, "text": "y" * 500}, "ttl": 60} for n in range(20)]
        self._request("POST", f"/{queue}/messages", json={"messages": messages})

    def _retry(self, queue: str) -> None:
        key = {"Idempotency-Key": str(uuid.uuid4())}
        for _ in range(2):
            document = {"messages": [{"body": key, "ttl": 60}]}
            self._request("POST", f"/{queue}/messages", json=document, headers=key)

    def _list(self, queue: str) -> None:
        self._request("GET", f"/{queue}/messages?limit=20&echo=true&include_claimed=true")
        self._request("GET", f"/{queue}/stats")

    def _claim(self, queue: str) -> None:
        claimed = self._request("POST", f"/{queue}/claims?limit=20", json={"ttl": 60})
        if claimed.status_code == 204:
            return
        claim = claimed.headers["Location"].removeprefix("/v2/queues")
        self._request("PATCH", claim, json={"ttl": 120})
        ids = ",".join(message["id"] for message in claimed.json()["messages"])
        self._request("DELETE", f"/{queue}/messages?ids={ids}")
        self._request("DELETE", claim)

    def _long_poll(self, queue: str) -> None:
        self._request("POST", f"/{queue}-empty/claims?wait=1")

    def _pop(self, queue: str) -> None:
        self._request("DELETE", f"/{queue}/messages?pop=20")

    def _send_invalid(self, queue: str) -> None:
        self._request("POST", f"/{queue}/messages", content=b'{"messages": [')
        self._request("GET", f"/{queue}/messages?limit=100000")
        self._request("GET", f"/{queue}/claims/{uuid.uuid4()}")

    def _recreate_queue(self, queue: str) -> None:
        self._request("DELETE", f"/{queue}")
        self._request("PUT", f"/{queue}", json={"_max_messages_post_size": 100_000})


def resident(process: int) -> int:
    """Returns the resident memory of the process, in KiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def soak(url: str, watched: list[int], minutes: float, rate: float, clients: int) -> bool:
    """Prints memory at intervals.  Returns False when a request failed with 5xx, or hung."""
    stopping = threading.Event()
    ways = islice(cycle(WAYS), clients)
    threads = [SoakClient(url, rate / clients, stopping, way) for way in ways]
    for client in threads:
        client.start()
    start = time.monotonic()
    samples: list[tuple[float, list[int]]] = []
    while time.monotonic() < start + minutes * 60:
        time.sleep(min(_REPORT_INTERVAL_SECONDS, minutes * 60))
        passed = time.monotonic() - start
        memory = [resident(process) for process in watched]
        samples.append((passed, memory))
        total = sum((client.statuses for client in threads), Counter[int]())
        print(f"{passed:6.0f} s  {total.total():8d} requests  RSS {memory} KiB", flush=True)
    stopping.set()
    for client in threads:
        client.join(40)
    warm = [memory for passed, memory in samples if passed > _WARM * minutes * 60]
    for process, *values in zip(watched, *warm, strict=True):
        print(f"process {process}: from {values[0]} to {values[-1]} KiB once warm")
    print(f"responses by status: {dict(total)}")
    return all(status < 500 for status in total) and all(
        not client.is_alive() for client in threads
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second, at most")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--url", help="a running service")
    parser.add_argument("--pid", type=int, action="append", default=[], help="a process to watch")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url, watched = given.url, given.pid
        if url is None:
            redis = stack.enter_context(servers.redis_server())
            service = stack.enter_context(servers.service(redis.uri))
            url, watched = service.url, service.workers()
        return 0 if soak(url, watched, given.minutes, given.rate, given.clients) else 1


if __name__ == "__main__":
    raise SystemExit(main())
