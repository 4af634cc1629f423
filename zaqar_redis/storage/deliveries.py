# SPDX-License-Identifier: Apache-2.0
"""The contract of a store that records what is to be delivered to the subscribers of its queues.

A post to a queue with subscriptions is entered for delivery in the same step.  A notifier takes
the queue for a while (a lease), so that one at a time delivers its messages, reads the entries and
the pending deliveries that are due, and settles what is done.  What it had not settled when it
died is delivered by the next: at least once.

Errors and times are those of `zaqar_redis.storage.contract`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from zaqar_redis.records import Message, Record


class EnteredMessage(Record, frozen=True):
    """A message, and as it is stored."""

    message: Message
    envelope: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.envelope)


class DeliveryEntry(Record, frozen=True):
    """The messages of one post, or a part of a large one, in order."""

    id: bytes
    epoch: str
    messages: Sequence[EnteredMessage]
    #: bytes
    size: int


class PendingDelivery(Record, frozen=True):
    """A delivery of one message, or of a notice, to one subscription."""

    subscription: str
    #: of a message: its rank, as 16 digits; else any name
    key: str
    #: of the message or the notice, ms
    expires: int
    epoch: str = ""
    #: None: it is a notice
    stored: EnteredMessage | None = None
    #: a JSON object that is delivered as it is
    notice: bytes = b""
    #: attempts that were made
    attempts: int = 0
    #: ms; None: it waits until its subscription goes on
    due: int | None = None
    status: int = 0
    error: str = ""
    #: it was given up before, and is tried again
    replayed: bool = False

    @property
    def id(self) -> str:
        return f"{self.subscription} {self.key}"

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.notice) if self.stored is None else self.stored.size


class DeliveryCount(Record, frozen=True):
    """What has happened to deliveries to a subscription, to be added to its state."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0
    #: of the last attempt that failed; empty: none did, and what has failed has expired
    error: str = ""
    status: int = 0


class DeliveryState(Record, frozen=True):
    """How deliveries to a subscription go."""

    delivered: int = 0
    #: given up
    failed: int = 0
    retried: int = 0
    #: that wait, or are tried again
    pending: int = 0
    #: the last failure: when (ms; 0: there was none), what, and the status of the answer or 0
    failed_at: int = 0
    error: str = ""
    status: int = 0
    #: since when every attempt has failed (ms); 0: the last one has not
    failing_since: int = 0


class SettledDeliveries(Record, frozen=True):
    """What a notifier has done."""

    #: ids of entries whose messages are all delivered, or stored as pending
    entries: Sequence[bytes] = ()
    #: ids of pending deliveries that were made
    made: Sequence[str] = ()
    #: to be stored
    pending: Sequence[PendingDelivery] = ()
    #: to be stored, for a replay
    failed: Sequence[PendingDelivery] = ()
    #: subscription -> when what waits for it is due (ms); None: nothing waits any more
    holds: Sequence[tuple[str, int | None]] = ()
    #: by subscription
    counts: Sequence[tuple[str, DeliveryCount]] = ()


class DeliveryLease(Record, frozen=True):
    """What a notifier has a queue by."""

    #: its own
    token: str
    #: after which another may have the queue
    ms: int


class DeliveryReads(Record, frozen=True):
    """What a step reads, at most."""

    #: behind this entry, which was read last
    after: bytes
    limit: int = 0
    #: of pending deliveries that are due
    due_limit: int = 0


class DeliveryStep(Record, frozen=True):
    """What is to be done next."""

    #: the store's time
    now: int
    #: changes with the subscriptions; 0: there are none
    version: int
    entries: Sequence[DeliveryEntry]
    #: pending deliveries that are due
    due: Sequence[PendingDelivery]
    #: subscriptions whose waiting deliveries are due
    holds: Sequence[str]
    #: when the next pending delivery is due; None: there is none
    next_due: int | None


#: Called with project and queue.
DeliveryListener = Callable[[str, str], None]


class Deliveries(Protocol):
    """Entries for delivery, and pending deliveries, for notifiers.

    What is read of a queue is read again, by whoever takes it then, until it is settled.
    """

    def watch(self, listener: DeliveryListener) -> Awaitable[None]:
        """Calls *listener* with queues when something is due; hints may be lost."""

    def due(self, late_ms: int = 0, *, turn: float = 0) -> AsyncIterator[tuple[str, str]]:
        """Yields project and queue of those with deliveries that are due.

        With *late_ms*: that have been due for so long, and no notifier has taken them.  *turn*:
        none, if another process has asked with one within so many seconds.
        """

    def take(self, project: str, queue: str, lease: DeliveryLease) -> Awaitable[bool]:
        """Takes the deliveries of a queue; returns False when another notifier has them."""

    def step(
        self,
        project: str,
        queue: str,
        lease: DeliveryLease,
        settled: SettledDeliveries,
        reads: DeliveryReads,
    ) -> Awaitable[DeliveryStep | None]:
        """Keeps the lease, settles what is done and reads what is to be done next, in one step.

        Returns None when the lease was lost, and nothing changed.
        """

    def waiting(self, project: str, queue: str, after: str, limit: int) -> Awaitable[Sequence[str]]:
        """Returns subscriptions with pending deliveries that were not given up, behind an id.

        What waits for them without a time is due from now on.
        """

    def backlog(
        self, project: str, queue: str, subscription: str, after: str, limit: int
    ) -> Awaitable[Sequence[PendingDelivery]]:
        """Returns what waits for a subscription, or is tried again, in order, behind an id."""

    def release(self, project: str, queue: str, lease: DeliveryLease) -> Awaitable[None]:
        """Gives the deliveries of a queue back.  Idempotent."""

    def made(self, project: str, queue: str, ids: Sequence[str]) -> Awaitable[int]:
        """Settles up to a thousand pending deliveries that were made after a release.

        Returns how many of them were still to be made.
        """


class SubscriptionDeliveries(Protocol):
    """The deliveries to single subscriptions, for those who own them."""

    def send_notice(
        self, project: str, queue: str, subscription: str, notice: bytes, ttl: int
    ) -> Awaitable[bool]:
        """Has a JSON object delivered, within *ttl* s; False: there is no such subscription."""

    def replay(self, project: str, queue: str, subscription: str) -> Awaitable[int]:
        """Has deliveries tried again that were given up; returns how many."""

    def enqueue_messages(
        self, project: str, queue: str, subscription: str, messages: Sequence[Message]
    ) -> Awaitable[int]:
        """Has stored messages of the queue delivered once more, in one step; returns how many.

        They are as `Messages.list` returns them.  Not counted: those that wait to be delivered.
        """

    def states(
        self, project: str, queue: str, subscriptions: Sequence[str]
    ) -> Awaitable[Sequence[DeliveryState]]:
        """Returns the state of each."""
