# SPDX-License-Identifier: Apache-2.0
"""Clients of queues: producers with and without idempotency keys, and consumers."""

from __future__ import annotations

import abc
import random
import uuid
from collections.abc import Awaitable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.chaos.client_process import ClientContext
from benchmarks.chaos.history import Act, ActOutcome
from zaqar_redis.benchmarks.client import HttpConnection

#: Seconds of one request: more than the service waits for its store.
_REQUEST_SECONDS = 10.0
#: Seconds before something is sent again.
_RETRY_SECONDS = 0.1
#: Statuses after which a post is sent again: 0: there was no answer.
_REPEATED = (0, 503)
#: Seconds; longer than any run.
_MESSAGE_TTL = 86_400
#: Seconds, of claims; the least that the service allows.
_CLAIM_TTL = 60
#: Messages of a post, and of a claim, at most.
_POST_MESSAGES, _CLAIM_MESSAGES = 3, 5
#: How often a deletion is tried.
_DELETE_ATTEMPTS = 5
#: Of each queue: claims of one could not meet.
_CONSUMERS = 2


def clients(context: ClientContext) -> Sequence[Awaitable[None]]:
    """Runs two producers and two consumers for each queue."""
    found: list[Awaitable[None]] = []
    for queue in context.spec.places:
        found += [
            Producer(context, queue, has_keys=True).run(),
            Producer(context, queue, has_keys=False).run(),
            *(Consumer(context, queue, number).run() for number in range(_CONSUMERS)),
        ]
    return found


class ChaosQueueClient(abc.ABC):
    """A client of one queue, with a connection of its own."""

    def __init__(self, context: ClientContext, queue: str, name: str) -> None:
        spec = context.spec
        self._context = context
        self._name = f"{spec.name}/{name}"
        self._record = context.recorder(name)
        self._queue = queue
        self._path = f"/v2/queues/{queue}"
        headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": spec.project}
        self._connection = HttpConnection("127.0.0.1", spec.port, headers, _REQUEST_SECONDS)
        self._random = random.Random(f"{spec.seed} {self._name}")

    async def run(self) -> None:
        while not self._context.is_over:
            await self._step()
            rate = self._context.spec.rate
            await self._context.rest(self._random.uniform(0.5, 1.5) / rate)
        self._connection.close()
        self._record.close()

    @abc.abstractmethod
    async def _step(self) -> None:
        """Does one act, and what belongs to it."""

    async def _ask(
        self, act: Act, method: str, path: str, document: object = None, headers: str = ""
    ) -> Any:
        """Sends a request once, and notes the outcome in the act; returns the document."""
        body = msgspec.json.encode(document) if document is not None else b""
        try:
            act.status, answer = await self._connection.request(method, path, body, headers)
        except OSError:
            act.status, act.outcome = 0, ActOutcome.UNKNOWN
            return None
        if act.status >= 300:
            # 500 and above: it may have been done, except where the store is full.
            is_sure = act.status < 500 or act.status == 507
            act.outcome = ActOutcome.REFUSED if is_sure else ActOutcome.UNKNOWN
            return None
        act.outcome = ActOutcome.OK
        return msgspec.json.decode(answer) if answer else None

    def _end(self, act: Act) -> None:
        self._record.end(act, act.outcome, act.status)


class Producer(ChaosQueueClient):
    """Posts numbered messages; with keys it repeats what was not answered until it is."""

    def __init__(self, context: ClientContext, queue: str, *, has_keys: bool) -> None:
        super().__init__(context, queue, f"{queue}-{'keyed' if has_keys else 'plain'}")
        self._has_keys = has_keys
        self._next = 0

    async def _step(self) -> None:
        count = self._random.randint(1, _POST_MESSAGES)
        bodies = [f"{self._name} {self._next + each}" for each in range(count)]
        self._next += count
        act = self._record.begin("post", self._queue, bodies)
        document = {"messages": [{"body": body, "ttl": _MESSAGE_TTL} for body in bodies]}
        key = f"Idempotency-Key: {bodies[0].replace(' ', '-')}\r\n" if self._has_keys else ""
        while True:
            found = await self._ask(act, "POST", f"{self._path}/messages", document, key)
            is_over = act.is_ok or not self._has_keys or self._context.is_over
            if is_over or act.status not in _REPEATED:
                break
            act.attempts += 1
            await self._context.rest(_RETRY_SECONDS)
        if act.is_ok:
            act.ids = [href.rsplit("/", 1)[1] for href in found["resources"]]
        elif act.attempts > 1:
            act.outcome = ActOutcome.UNKNOWN  # an attempt before the last may have been done
        self._end(act)


class Consumer(ChaosQueueClient):
    """Claims messages; deletes most of them, releases and renews some claims."""

    def __init__(self, context: ClientContext, queue: str, number: int) -> None:
        super().__init__(context, queue, f"{queue}-consumer-{number}")

    async def _step(self) -> None:
        limit = self._random.randint(1, _CLAIM_MESSAGES)
        act = self._record.begin("claim", self._queue, ttl=_CLAIM_TTL)
        found = await self._ask(
            act, "POST", f"{self._path}/claims?limit={limit}", {"ttl": _CLAIM_TTL, "grace": 60}
        )
        if found:
            hrefs = [urlsplit(each["href"]) for each in found["messages"]]
            act.ids = [href.path.rsplit("/", 1)[1] for href in hrefs]
            act.bodies = [each["body"] for each in found["messages"]]
            act.claim = parse_qs(hrefs[0].query)["claim_id"][0]
        self._end(act)
        if found:
            await self._work(act)

    async def _work(self, held: Act) -> None:
        fate = self._random.random()
        if fate < 0.15:
            await self._change("release", held, "DELETE")
            return
        if fate < 0.3:
            await self._change("renew", held, "PATCH", {"ttl": _CLAIM_TTL, "grace": 60})
        for body, message in zip(held.bodies, held.ids, strict=True):
            await self._delete(held, body, message)

    async def _change(self, kind: str, held: Act, method: str, document: object = None) -> None:
        act = self._record.begin(kind, self._queue, claim=held.claim, ttl=held.ttl)
        await self._ask(act, method, f"{self._path}/claims/{held.claim}", document)
        self._end(act)

    async def _delete(self, held: Act, body: str, message: str) -> None:
        path = f"{self._path}/messages/{message}?claim_id={held.claim}"
        for _ in range(_DELETE_ATTEMPTS):
            act = self._record.begin("delete", self._queue, [body], ids=[message], claim=held.claim)
            await self._ask(act, "DELETE", path)
            self._end(act)
            if act.outcome is not ActOutcome.UNKNOWN or self._context.is_over:
                return
            await self._context.rest(_RETRY_SECONDS)
