# SPDX-License-Identifier: Apache-2.0
"""A queue of stock's as chunks that our own stores import.

Messages get the ranks 1, 2, … in stock's order.  Expired records are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zaqar_redis.keyspace import envelope
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import NewMessage, Queue
from zaqar_redis.service.subscriptions import SOCKET
from zaqar_redis.zaqar_import import layout
from zaqar_redis.zaqar_import.layout import InvalidStockData, Values
from zaqar_redis.zaqar_import.source import StockStore

T = TypeVar("T")
StockPage = list[tuple[bytes, Values]]
#: Called with how many more messages were read.
ImportProgress = Callable[[int], object]

#: Kinds of `layout.FIELDS`.
MESSAGES, CLAIMS, SUBSCRIPTIONS = "messages", "claims", "subscriptions"
#: Stands for a claim that was released: only its count is of use.
_NO_CLAIM = "0" * 32


@dataclass(slots=True)
class ImportTally:
    """Counts of the records read, by kind (`MESSAGES`, …) and outcome."""

    copied: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    #: by kind and reason
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: messages that stock encrypted
    encrypted: int = 0


@dataclass(slots=True)
class QueueReader:
    """Reads one queue, once."""

    _source: StockStore
    _project: str
    _queue: Queue
    #: seconds
    _now: int
    _on_progress: ImportProgress
    tally: ImportTally = field(default_factory=ImportTally)
    _rank: int = 0
    #: claim -> ranks that it holds
    _ranks_by_claim: dict[str, list[int]] = field(default_factory=dict)
    _subscribers: set[str] = field(default_factory=set)

    async def read(self) -> AsyncIterator[TransferChunk]:
        """Yields all chunks, in the order in which they are to be imported."""
        where = self._project, self._queue.name
        async for page in self._source.records(MESSAGES, *where):
            before = self._rank
            if chunk := self._messages(page):
                yield chunk
                self._on_progress(self._rank - before)
        async for page in self._source.records(CLAIMS, *where):
            yield TransferChunk(kind=CLAIMS, items=self._claims(page))
        async for page in self._source.records(SUBSCRIPTIONS, *where):
            yield TransferChunk(kind=SUBSCRIPTIONS, items=self._subscriptions(page))
        delivers = any(not each.startswith(SOCKET) for each in self._subscribers)
        yield TransferChunk(kind="queue", items=[self._queue, "", delivers], after=self._rank)

    def _messages(self, page: StockPage) -> TransferChunk | None:
        before, items = self._rank, list[Any]()
        for message in self._alive(MESSAGES, page, lambda _, values: layout.message(values)):
            self._rank += 1
            self.tally.encrypted += message.encrypted
            items += self._index_entry(message)
        if not items:
            return None
        return TransferChunk(
            kind="index", items=items, after=before, next_cursor=f"index:{self._rank}"
        )

    def _index_entry(self, message: layout.StockMessage) -> tuple[Any, ...]:
        """Returns rank, expiry, end of the claim, end of the delay, hold (claim id and count) and
        envelope; times in milliseconds, empty when there is none.
        """
        held = bool(message.claim) and message.claim_ends > self._now
        delayed = message.delay_ends > self._now
        hold = ""
        if held:
            self._ranks_by_claim.setdefault(message.claim, []).append(self._rank)
        if held or message.claim_count:
            hold = f"{message.claim or _NO_CLAIM}{message.claim_count}"
        return (
            self._rank,
            message.expires * 1000,
            message.claim_ends * 1000 if held else "",
            message.delay_ends * 1000 if delayed else "",
            hold,
            _enveloped(message),
        )

    def _claims(self, page: StockPage) -> list[Any]:
        items: list[Any] = []
        for claim in self._alive(CLAIMS, page, layout.claim):
            ranks = self._ranks_by_claim.get(claim.id, ())
            record = " ".join(map(str, (claim.ttl, *ranks)))
            items += (claim.id, claim.expires * 1000, record)
        return items

    def _subscriptions(self, page: StockPage) -> list[Any]:
        items: list[Any] = []
        for each in self._alive(SUBSCRIPTIONS, page, self._subscription):
            head = f"{each.ttl} {int(each.confirmed)}".encode()
            record = b"\n".join((head, each.options, each.subscriber.encode()))
            items += (each.id, each.expires * 1000, record)
        return items

    def _subscription(self, id: bytes, values: Values) -> layout.StockSubscription:
        """Raises InvalidStockData."""
        found = layout.subscription(id, values)
        # Stock checks whether a subscriber exists and then writes it: two may pass.
        if found.subscriber in self._subscribers:
            raise InvalidStockData("the subscriber has another subscription")
        if found.expires > self._now:
            self._subscribers.add(found.subscriber)
        return found

    def _alive(self, kind: str, page: StockPage, read: Callable[[bytes, Values], T]) -> Iterable[T]:
        """Yields the records of a page that are valid and not expired; counts the others."""
        for id, values in page:
            if not any(value is not None for value in values):
                self.tally.expired[kind] += 1  # by Redis; stock leaves the id behind
                continue
            try:
                found: Any = read(id, values)
            except InvalidStockData as why:
                self.tally.left_out[kind, str(why)] += 1
                continue
            if found.expires <= self._now:
                self.tally.expired[kind] += 1
                continue
            self.tally.copied[kind] += 1
            yield found


def _enveloped(message: layout.StockMessage) -> bytes:
    created, expires = message.created * 1000, message.expires * 1000
    delay = min(max(0, message.delay_ends - message.created), layout.LONGEST)
    front = envelope.front(created, expires, message.ttl, delay)
    new_message = NewMessage(
        body=message.body, checksum=message.checksum, encrypted=message.encrypted
    )
    return front + envelope.tail(new_message, envelope.client_bytes(message.client))
