# SPDX-License-Identifier: Apache-2.0
"""Clients that post, claim and delete at a bounded rate, and record every response.

The records are compared with the content of the queue at the end.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support import servers

#: After this long a request counts as hanging, whatever happens to the store or to a worker.
_HANGS = 60.0
#: Pause of every client between two requests: the load stays bounded.
_PAUSE = 0.004
_PAGE = 1000

#: Options with which `held` can read a queue in few requests.
OPTIONS: dict[str, dict[str, object]] = {"transport": {"max_messages_per_page": _PAGE}}


def headers(project: str) -> dict[str, str]:
    return {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}


@dataclass
class MessageAudit:
    """The messages that violate a guarantee."""

    lost: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)
    #: deleted, but still in the queue
    undead: set[str] = field(default_factory=set)
    #: never posted
    strange: set[str] = field(default_factory=set)


class QueueLoad:
    """Three kinds of clients on one queue, as a context manager."""

    def __init__(
        self,
        service: servers.RunningService,
        project: str,
        *,
        keyed: int = 2,
        plain: int = 2,
        takers: int = 2,
    ) -> None:
        self.project = project
        self.messages = f"{service.url}/v2/queues/busy/messages"
        self.claims = f"{service.url}/v2/queues/busy/claims"
        #: bodies by their known state
        self.posted: set[str] = set()
        self.unsure: set[str] = set()
        self.deleted: set[str] = set()
        self.perhaps_deleted: set[str] = set()
        self.statuses: Counter[int] = Counter()
        self.broken = 0
        self.wrong: list[str] = []
        self._service = service
        self._stopping = threading.Event()
        self._giving_up = False
        self._lock = threading.Lock()
        work = [self._post_keyed] * keyed + [self._post_plain] * plain + [self._take] * takers
        self._threads = [threading.Thread(target=self._run, args=(step,)) for step in work]

    def __enter__(self) -> QueueLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._giving_up = self._giving_up or kind is not None
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def give_up(self) -> None:
        """Stops; keyed posts that were not acknowledged count as unsure."""
        self._giving_up = True
        self.stop()

    def wait_for_more(self, count: int = 100) -> None:
        """Waits until *count* more posts and count / 20 more deletions were acknowledged."""
        posted, deleted = len(self.posted) + count, len(self.deleted) + count // 20
        servers.wait_for(
            lambda: len(self.posted) >= posted and len(self.deleted) >= deleted, "the load to go on"
        )

    def check(self, service: servers.RunningService | None = None) -> None:
        """Asserts that acknowledged messages exist exactly once, and deleted ones do not."""
        assert self.wrong == [], self.wrong[:5]
        assert self.audit(service) == MessageAudit()

    def audit(self, service: servers.RunningService | None = None) -> MessageAudit:
        """Compares the content of the queue with what was acknowledged."""
        found = Counter(held(service or self._service, self.project, "busy"))
        present = set(found)
        return MessageAudit(
            lost=self.posted - self.deleted - self.perhaps_deleted - present,
            doubled={text for text, times in found.items() if times > 1},
            undead=present & self.deleted,
            strange=present - self.posted - self.unsure,
        )

    def _run(self, step: Callable[[httpx.Client], None]) -> None:
        with httpx.Client(headers=headers(self.project), timeout=_HANGS) as client:
            while not self._stopping.is_set():
                try:
                    step(client)
                except Exception as error:  # a thread must not die unnoticed
                    self.wrong.append(repr(error))
                    raise
                time.sleep(_PAUSE)

    def _post_keyed(self, client: httpx.Client) -> None:
        """Posts with an idempotency key, and retries until it is acknowledged."""
        text = str(uuid.uuid4())
        while self._post(client, text, {"Idempotency-Key": text}) is None:
            if self._giving_up:
                self.unsure.add(text)
                return
            time.sleep(5 * _PAUSE)
        self.posted.add(text)

    def _post_plain(self, client: httpx.Client) -> None:
        """Posts once: without an acknowledgement the message may exist or not."""
        text = str(uuid.uuid4())
        known = self._post(client, text, {}) is not None
        (self.posted if known else self.unsure).add(text)

    def _post(self, client: httpx.Client, text: str, more: dict[str, str]) -> httpx.Response | None:
        document = {"messages": [{"body": text}]}
        return self.ask(client, "POST", self.messages, 201, json=document, headers=more)

    def _take(self, client: httpx.Client) -> None:
        """Claims three messages, deletes the first, releases the others."""
        claimed = self.ask(client, "POST", f"{self.claims}?limit=3", 201, 204)
        if claimed is None or claimed.status_code == 204:
            return
        first = claimed.json()["messages"][0]
        url = self._service.url + first["href"]
        self.perhaps_deleted.add(first["body"])
        if self.ask(client, "DELETE", url, 204) is not None:
            self.deleted.add(first["body"])
        self.ask(client, "DELETE", self._service.url + claimed.headers["Location"], 204)

    def ask(
        self, client: httpx.Client, method: str, url: str, *good: int, **more: Any
    ) -> httpx.Response | None:
        """Returns a successful response; None if the client should retry."""
        try:
            answer = client.request(method, url, **more)
        except httpx.TransportError as error:
            if isinstance(error, httpx.TimeoutException):
                self.wrong.append(f"{method} {url} hangs")
            with self._lock:
                self.broken += 1
            return None
        with self._lock:
            self.statuses[answer.status_code] += 1
        if answer.status_code in good:
            return answer
        if answer.status_code != 503:
            self.wrong.append(f"{method} {url}: {answer.status_code} {answer.text}")
        elif int(answer.headers.get("Retry-After", 0)) < 1:
            self.wrong.append(f"{method} {url}: 503 without Retry-After")
        return None


def held(service: servers.RunningService, project: str, queue: str) -> list[Any]:
    """Returns the bodies of all messages in the queue, claimed ones too, in order."""
    bodies: list[Any] = []
    url = f"/v2/queues/{queue}/messages?limit={_PAGE}&echo=true&include_claimed=true"
    with httpx.Client(base_url=service.url, headers=headers(project), timeout=_HANGS) as client:
        while True:
            page = client.get(url).raise_for_status().json()
            if not page["messages"]:
                return bodies
            bodies += [message["body"] for message in page["messages"]]
            url = page["links"][0]["href"]
