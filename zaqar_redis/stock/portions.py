# SPDX-License-Identifier: Apache-2.0
"""A queue of stock's as portions that our own stores take in.

Messages get the ranks 1, 2, … in stock's order.  What has expired is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Draft, Portion, Queue
from zaqar_redis.stock import layout
from zaqar_redis.stock.layout import Unreadable, Values
from zaqar_redis.stock.source import Source

T = TypeVar("T")
Page = list[tuple[bytes, Values]]

#: Stands for a claim that was released: only its count is of use.
_NOBODY = "0" * 32

MESSAGES, CLAIMS, SUBSCRIPTIONS = "messages", "claims", "subscriptions"


@dataclass(slots=True)
class Tally:
    """How many of each kind (`MESSAGES`, …) were read, and what became of them."""

    copied: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    #: by kind and reason
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: messages that stock encrypted
    sealed: int = 0


class Portions:
    """Reads one queue, once."""

    def __init__(self, source: Source, project: str, queue: Queue, now: int) -> None:
        self.tally = Tally()
        self._source = source
        self._project = project
        self._queue = queue
        self._now = now
        self._rank = 0
        #: claim -> ranks that it holds
        self._held: dict[str, list[int]] = {}
        self._subscribers: set[str] = set()

    async def read(self) -> AsyncIterator[Portion]:
        """All of them, in the order in which they are to be taken in."""
        where = self._project, self._queue.name
        async for page in self._source.messages(*where):
            if portion := self._messages(page):
                yield portion
        async for page in self._source.claims(*where):
            yield Portion(kind=CLAIMS, items=self._claims(page))
        async for page in self._source.subscriptions(*where):
            yield Portion(kind=SUBSCRIPTIONS, items=self._subscriptions(page))
        yield Portion(kind="queue", items=[self._queue], after=self._rank)

    def _messages(self, page: Page) -> Portion | None:
        before, items = self._rank, list[Any]()
        for message in self._alive(MESSAGES, page, lambda _, values: layout.message(values)):
            self._rank += 1
            self.tally.sealed += message.sealed
            items += self._placed(message)
        if not items:
            return None
        return Portion(kind="index", items=items, after=before, following=f"index:{self._rank}")

    def _placed(self, message: layout.Message) -> tuple[Any, ...]:
        """Rank, expiry, end of the hold, end of the delay, hold, envelope."""
        held = bool(message.claim) and message.claim_ends > self._now
        delayed = message.due > self._now
        hold = ""
        if held:
            self._held.setdefault(message.claim, []).append(self._rank)
        if held or message.claim_count:
            hold = f"{message.claim or _NOBODY}{message.claim_count}"
        return (
            self._rank,
            message.expires * 1000,
            message.claim_ends * 1000 if held else "",
            message.due * 1000 if delayed else "",
            hold,
            _enveloped(message),
        )

    def _claims(self, page: Page) -> list[Any]:
        items: list[Any] = []
        for claim in self._alive(CLAIMS, page, layout.claim):
            ranks = self._held.get(claim.id, ())
            record = " ".join(map(str, (claim.ttl, *ranks)))
            items += (claim.id, claim.expires * 1000, record)
        return items

    def _subscriptions(self, page: Page) -> list[Any]:
        items: list[Any] = []
        for each in self._alive(SUBSCRIPTIONS, page, self._subscription):
            head = f"{each.ttl} {int(each.confirmed)}".encode()
            record = b"\n".join((head, each.options, each.subscriber.encode()))
            items += (each.id, each.expires * 1000, record)
        return items

    def _subscription(self, id: bytes, values: Values) -> layout.Subscription:
        """Raises Unreadable."""
        found = layout.subscription(id, values)
        # Stock looks whether a subscriber is there and then writes it: two may pass.
        if found.subscriber in self._subscribers:
            raise Unreadable("the subscriber has another subscription")
        if found.expires > self._now:
            self._subscribers.add(found.subscriber)
        return found

    def _alive(self, kind: str, page: Page, read: Callable[[bytes, Values], T]) -> Iterable[T]:
        """Those of a page that can be read and have not expired; the others are counted."""
        for id, values in page:
            if not any(value is not None for value in values):
                self.tally.expired[kind] += 1  # by Redis; stock leaves the id behind
                continue
            try:
                found: Any = read(id, values)
            except Unreadable as why:
                self.tally.left_out[kind, str(why)] += 1
                continue
            if found.expires <= self._now:
                self.tally.expired[kind] += 1
                continue
            self.tally.copied[kind] += 1
            yield found


def _enveloped(message: layout.Message) -> bytes:
    created, expires = message.created * 1000, message.expires * 1000
    delay = min(max(0, message.due - message.created), layout.LONGEST)
    front = envelope.front(created, expires, message.ttl, delay)
    draft = Draft(body=message.body, checksum=message.checksum, sealed=message.sealed)
    return front + envelope.tail(draft, envelope.client_bytes(message.client))
