# SPDX-License-Identifier: Apache-2.0
"""The contract of an engine of channels.

One protocol per resource.  A channel's key contains its project.  A publication travels as
bytes that only nodes understand.  Every coroutine may raise `errors.StoreUnavailable` or
`errors.Overloaded`.

A publication of a channel with history has a stream position: *offset* grows by one with
each, within one *epoch*; another epoch means that the history was lost.  Delivery between
nodes is at most once, and in order: a receiver that knows the position of the last
publication it received detects every gap.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Position(NamedTuple):
    offset: int
    epoch: str


#: Of a channel without history.
NO_POSITION = Position(0, "")
#: Milliseconds for which the idempotency key of a publication is stored.
DEDUP_WINDOW_MS = 300_000


def new_epoch() -> str:
    # It is no secret, and each publication needs one: os.urandom would be a system call.
    return f"{random.getrandbits(32):08x}"


@dataclass(frozen=True)
class HistoryOptions:
    """Size and lifetime of a channel's history."""

    #: publications
    size: int
    #: seconds for which publications are stored after the last one
    ttl: int
    #: seconds for which offset and epoch are stored after the last use
    meta_ttl: int


@dataclass(frozen=True)
class Dedup:
    """Conditions under which a publication is a duplicate, and not sent."""

    #: one with this idempotency key was sent in the last five minutes; empty: no key
    key: str = ""
    #: one of this version or a later one was sent; 0: no version
    version: int = 0
    #: versions are compared within this epoch only
    version_epoch: str = ""


class Published(NamedTuple):
    """The result of a publish: *new* is False for a duplicate, which was not sent; then the
    position is that of the original, or the current one."""

    position: Position
    new: bool


@dataclass(frozen=True)
class HistoryFilter:
    """Which publications of the history are requested."""

    #: only those after it, or with *reverse* before it; None: from the end where reading begins
    position: Position | None = None
    #: at most; None: all
    limit: int | None = None
    reverse: bool = False


class HistoryEntry(NamedTuple):
    offset: int
    payload: bytes


class History(Protocol):
    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        """Sends to every subscribed node; with *history_options*, appends to the history first.

        Both are one atomic step: no node receives offset n + 1 before n.
        """

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        """Returns the publications, and the current position; creates a missing epoch."""

    async def forget_key(self, channel: str, key: str) -> None:
        """Forgets the idempotency key of a publication that was not sent.  Idempotent."""

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        """Replaces *epoch*, if it is current, by a new one: the stored history went back.

        The publications and their offsets stay.  Idempotent.
        """

    async def remove_history(self, channel: str) -> None:
        """Deletes the publications; offset and epoch stay.  Idempotent."""


class PresenceStats(NamedTuple):
    clients: int
    users: int


class Presence(Protocol):
    """The clients in a channel.  Entries expire after *ttl* seconds unless renewed."""

    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        """Adds a client, or renews its entry.  Idempotent."""

    async def remove(self, channel: str, client: str, user: str) -> None:
        """Removes a client.  Idempotent."""

    async def clients(self, channel: str) -> dict[str, bytes]:
        """Returns the info of each client, by client id."""

    async def stats(self, channel: str) -> PresenceStats: ...


class Topics(Protocol):
    """Which connections, of all nodes, are subscribed to which topics of the routing service.

    A topic's key contains its project; a connection is known by its client's id.  The
    subscriptions of a node last as long as its lease.
    """

    async def subscribe(self, topic: str, client: str, node: str, ttl: float) -> bool:
        """Idempotent; *node*: of the connection, which makes all changes for it in order.

        Returns False when the node had no lease: now it has one, for *ttl* seconds, but its other
        subscriptions may have been removed.
        """

    async def unsubscribe(self, topic: str, client: str, node: str) -> None:
        """Idempotent."""

    async def subscribers(self, topic: str) -> set[str]:
        """Returns the clients that are subscribed to a topic."""

    async def topics(self, client: str) -> set[str]:
        """Returns the topics that a client is subscribed to."""

    async def renew(self, node: str, ttl: float) -> bool:
        """Renews a node's lease for *ttl* seconds.

        Returns False when it had ended, so that the node's subscriptions may have been removed;
        then it begins anew.
        """

    async def expire(self) -> None:
        """Removes the subscriptions of nodes whose lease has ended."""

    async def forget(self, node: str) -> None:
        """Removes the lease and the subscriptions of a node.  Idempotent."""


class EventHandler(Protocol):
    """A node, as engines see it.  Its methods are called in the order of the events."""

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None: ...

    def on_join(self, channel: str, info: bytes) -> None: ...

    def on_leave(self, channel: str, info: bytes) -> None: ...

    def on_control(self, payload: bytes) -> int:
        """Returns to how many connections a message was delivered."""

    def on_missed(self, channel: str) -> None:
        """Handles publications of a channel that were stored, but did not get as far as the bus."""

    def on_gap(self) -> None:
        """Handles a gap: publications of any channel may have been missed."""


class Events(Protocol):
    """Events that a node sends to others, and to itself, over a bus.

    Subscribing and unsubscribing take effect in the order of the calls, also while earlier
    ones are still awaited.
    """

    @property
    def live(self) -> bool:
        """Whether events pass at the moment, as far as this node knows."""

    async def subscribe(self, channel: str) -> None:
        """Receives what is sent from now on."""

    async def unsubscribe(self, channel: str) -> None: ...

    async def publish_join(self, channel: str, info: bytes) -> None: ...

    async def publish_leave(self, channel: str, info: bytes) -> None: ...

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        """Sends to one node, or to all, including this one.  Returns how many receive it."""

    async def publish_routing(self, payload: bytes) -> None:
        """Sends a message of the routing service to all nodes.  Raises Unavailable."""

    def route(self, payload: bytes) -> int | None:
        """Sends a message of the routing service to all nodes soon, and never raises.

        Returns to how many connections it was delivered, on a bus within this process; else
        None.
        """


class Engine(Protocol):
    @property
    def history(self) -> History: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def events(self) -> Events: ...

    async def start(self, node: str, handler: EventHandler) -> None:
        """Connects, and receives control messages.  Does not fail without the store."""

    async def ping(self) -> None:
        """Raises StoreUnavailable when a store does not answer."""

    async def close(self) -> None: ...
