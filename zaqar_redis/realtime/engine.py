# SPDX-License-Identifier: Apache-2.0
"""What an engine of channels promises.

One protocol per noun.  Channels are keyed by texts that are whole already, project and
all.  A publication travels as bytes that only nodes understand.  Every method that is
awaited may raise `errors.StoreUnavailable` or `errors.Overloaded`.

A publication of a channel that keeps history has a position: *offset* grows by one with
each, within one *epoch*; another epoch means that the history was lost.  Delivery between
nodes is at most once, and in order: whoever knows the position of the last one it saw
finds every hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Position(NamedTuple):
    offset: int
    epoch: str


#: Of a channel that keeps nothing.
NOWHERE = Position(0, "")


@dataclass(frozen=True)
class Keep:
    """What history keeps."""

    #: publications
    size: int
    #: seconds for which a publication is kept
    ttl: int
    #: seconds for which offset and epoch are kept after the last use
    meta_ttl: int


@dataclass(frozen=True)
class Once:
    """When a publication is not to go out."""

    #: it has gone out under this key, in the last five minutes; empty: no key
    key: str = ""
    #: one of this version or a later one has gone out; 0: no version
    version: int = 0
    #: versions are compared within this
    version_epoch: str = ""


class Published(NamedTuple):
    """*new* is False when it was not sent, as it had been before; then the position is
    that of then, or the current one."""

    position: Position
    new: bool


@dataclass(frozen=True)
class Since:
    """Which publications of the history are wanted."""

    #: behind it, or with *reverse* before it; None: from the end where reading begins
    position: Position | None = None
    #: at most; None: all
    limit: int | None = None
    reverse: bool = False


class Kept(NamedTuple):
    """A publication in a history."""

    offset: int
    payload: bytes


class History(Protocol):
    async def publish(
        self, channel: str, payload: bytes, keep: Keep | None, once: Once | None = None
    ) -> Published:
        """Send to every node that listens; with *keep*, append to the history first.

        Both is one step: no listener sees offset n + 1 before n.
        """

    async def history(
        self, channel: str, since: Since, keep: Keep
    ) -> tuple[Sequence[Kept], Position]:
        """The publications, and the position of the end; it makes an epoch if there is none."""

    async def renew(self, channel: str, epoch: str) -> None:
        """What was kept is older than it was: *epoch* is over, another one begins.

        The publications and their offsets stay.  Idempotent.
        """

    async def remove_history(self, channel: str) -> None:
        """Forget the publications; offset and epoch stay.  Idempotent."""


class PresenceStats(NamedTuple):
    clients: int
    users: int


class Presence(Protocol):
    """Who is in a channel.  Entries lapse after *ttl* seconds unless they are renewed."""

    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        """Idempotent; renews."""

    async def remove(self, channel: str, client: str, user: str) -> None:
        """Idempotent."""

    async def present(self, channel: str) -> dict[str, bytes]:
        """By client, the info it was added with."""

    async def stats(self, channel: str) -> PresenceStats: ...


class Heard(Protocol):
    """A node, as engines know it.  Its methods are called in the order of what happened."""

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None: ...

    def on_join(self, channel: str, info: bytes) -> None: ...

    def on_leave(self, channel: str, info: bytes) -> None: ...

    def on_control(self, payload: bytes) -> None: ...

    def on_gap(self) -> None:
        """Something may have been missed in any channel."""


class Bus(Protocol):
    """Between nodes.

    Subscribing and unsubscribing take effect in the order of the calls, also while earlier
    ones are still awaited.
    """

    async def subscribe(self, channel: str) -> None:
        """Hear what is sent from now on."""

    async def unsubscribe(self, channel: str) -> None: ...

    async def publish_join(self, channel: str, info: bytes) -> None: ...

    async def publish_leave(self, channel: str, info: bytes) -> None: ...

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        """To one node, or to all, this one too.  How many nodes hear it."""


class Engine(Protocol):
    @property
    def history(self) -> History: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def bus(self) -> Bus: ...

    async def start(self, node: str, heard: Heard) -> None:
        """Connect, and hear control messages.  Does not fail when the store is away."""

    async def ping(self) -> None:
        """Raises StoreUnavailable when a store does not answer."""

    async def close(self) -> None: ...
