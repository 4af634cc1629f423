# SPDX-License-Identifier: Apache-2.0
"""What a session has around it: its settings, its outbox, its node, its subscriptions."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec
from msgspec import Raw

from zaqar_redis.auth import tokens
from zaqar_redis.realtime import namespaces, wire
from zaqar_redis.realtime.codes import Close, End
from zaqar_redis.realtime.engine import Position, Since
from zaqar_redis.realtime.filters import Filter
from zaqar_redis.realtime.namespaces import Options

if TYPE_CHECKING:
    from zaqar_redis.realtime.session import Session


class Settings(msgspec.Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    #: without a token everybody may do everything
    insecure: bool = False
    #: somebody without a token may connect, as nobody
    allow_anonymous: bool = False
    #: everybody who connects is subscribed to a channel of their own
    user_personal_channel: bool = False
    personal_namespace: str = ""
    #: whoever connects ends the other connections of the same user
    single_connection: bool = False
    #: of one user to one node; 0: any number
    user_connection_limit: int = 0
    #: of one client
    channel_limit: int = 128
    ping_interval: int = 25
    pong_timeout: float = 8.0
    #: until the first command, and after an expired token
    stale_after: float = 10.0
    #: publications that are recovered, or asked for, at once
    recovery_max: int = 300
    history_max: int = 300
    presence_ttl: int = 60
    #: how much later than it says a connection or a subscription ends
    expiry_grace: float = 25.0
    #: between two looks whether nothing was missed
    position_check: float = 40.0

    @property
    def presence_interval(self) -> float:
        """Two renewals, even if late, fit into the time."""
        return self.presence_ttl * 0.45


class Out(Protocol):
    """Where a session's words go."""

    def send(self, reply: bytes) -> None: ...

    def close(self, close: Close) -> None:
        """After everything that was sent before."""


class Ways(msgspec.Struct, frozen=True):
    """How a client and its server reach each other."""

    #: commands come by requests of their own, which name the session and its node
    emulated: bool = False
    #: none come at all, so pings are not answered
    unidirectional: bool = False


BOTH_WAYS = Ways()


@dataclass(eq=False, slots=True)
class Subscription:
    """Of one session to one channel."""

    session: Session
    channel: str
    options: Options
    info: wire.ClientInfo
    by_server: bool = False
    #: whether publications must follow each other; then the position of the last one
    positioned: bool = False
    recoverable: bool = False
    join_leave: bool = False
    #: which publications it wants; None: all
    wants: Filter | None = None
    #: whether it gets deltas; then the data that it has, None: it is not known
    delta: bool = False
    base: wire.Payload | None = None
    offset: int = 0
    epoch: str = ""
    #: what came while the history was read; None: it goes out at once
    waiting: list[tuple[wire.Publication, str]] | None = field(default_factory=list)
    #: the server ended it before it was live
    ending: End | None = None
    #: seconds since 1970; 0: never
    expire_at: int = 0
    #: by the clock of the session, when the position was known to be right
    checked: float = 0.0


class World(Protocol):
    """What a session needs of its node, as a project sees it."""

    settings: Settings
    namespaces: namespaces.Namespaces
    verifier: tokens.Verifier
    project: str
    #: its id
    node: str

    def now(self) -> float:
        """Seconds since 1970."""

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it soon, and do not wait for it."""

    def of(self, project: str) -> Self:
        """The same, as another project sees it."""

    async def arrived(self, session: Session) -> None:
        """It is known now whose it is.  Raises Closed when there are too many of the user."""

    async def listen(self, subscription: Subscription) -> None:
        """Deliver what comes from now on.  Raises StoreUnavailable."""

    async def leave(self, subscription: Subscription) -> None:
        """Deliver nothing more; presence ends, and others are told.  Idempotent."""

    async def publish(self, channel: str, data: Raw, info: wire.ClientInfo) -> object: ...

    async def history(
        self, channel: str, since: Since, options: Options
    ) -> tuple[list[wire.Publication], Position]: ...

    async def renew(self, channel: str, epoch: str, options: Options) -> None:
        """The history is older than it was: the epoch is over; a queue's is its own affair."""

    async def presence(self, channel: str) -> dict[str, wire.ClientInfo]: ...

    async def presence_stats(self, channel: str) -> tuple[int, int]: ...

    async def is_here(self, subscription: Subscription) -> None:
        """Presence, renewed."""

    def suspect(self, subscription: Subscription) -> None:
        """It is looked at whether it missed something."""

    async def joined(self, subscription: Subscription) -> None:
        """Others are told."""
