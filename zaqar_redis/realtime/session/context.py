# SPDX-License-Identifier: Apache-2.0
"""The environment of a session: its settings, transport, node and subscriptions."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

import msgspec
from msgspec import Meta, Raw

from zaqar_redis.auth import tokens
from zaqar_redis.realtime.engine import HistoryFilter, Position
from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.protocol.codes import DisconnectCode, UnsubscribeCode
from zaqar_redis.realtime.protocol.filters import TagFilter
from zaqar_redis.realtime.session import namespaces
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.realtime.session.states import (
    SUBSCRIPTION_TRANSITIONS,
    SubscriptionEvent,
    SubscriptionState,
)

if TYPE_CHECKING:
    from zaqar_redis.realtime.session.session import Session


class SessionSettings(msgspec.Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    insecure: Annotated[bool, "Allow everything without a token; for development only."] = False
    allow_anonymous_connect_without_token: Annotated[
        bool, "Clients without a token may connect, without a user."
    ] = False
    user_personal_channel: Annotated[
        bool, "Subscribe each client to its user's personal channel #USER when it connects."
    ] = False
    user_personal_single_connection: Annotated[
        bool, "A new connection of a user ends the user's other connections."
    ] = False
    user_connection_limit: Annotated[
        int, Meta(ge=0), "Maximum number of connections of one user to one worker; 0: no limit."
    ] = 0
    personal_channel_namespace: Annotated[
        str, "Namespace of the users' personal channels; empty: none."
    ] = ""
    channel_limit: Annotated[
        int, Meta(ge=1), "Maximum number of subscriptions of one connection."
    ] = 128
    presence_ttl: Annotated[
        int,
        Meta(ge=2),
        "Seconds until clients of a worker that died are no longer present; presence is renewed "
        "at least twice in that time.",
    ] = 60
    ping_interval: Annotated[int, Meta(ge=1), "Seconds between pings."] = 25
    pong_timeout: Annotated[float, Meta(ge=0.1), "Seconds that a client has to answer a ping."] = (
        8.0
    )
    #: until a client must have connected, also after an expired token
    stale_after: float = 10.0
    #: publications that are recovered, or read from a history, at once
    recovery_max: int = 300
    history_max: int = 300
    #: how long a connection or a subscription goes on after its expiry
    expiry_grace: float = 25.0
    #: between two checks of a subscription's position
    position_check: float = 40.0

    @property
    def personal_prefix(self) -> str:
        """What a personal channel's name has before its user."""
        namespace = self.personal_channel_namespace
        return f"{namespace}:#" if namespace else "#"

    @property
    def presence_interval(self) -> float:
        """Seconds between renewals: two of them, even if late, fit into the TTL."""
        return self.presence_ttl * 0.45


class Transport(Protocol):
    """The output of a session."""

    def send(self, reply: bytes) -> None: ...

    def close(self, close: DisconnectCode) -> None:
        """Closes the connection after everything sent before."""


class TransportMode(msgspec.Struct, frozen=True):
    """How a client and its server reach each other."""

    #: commands come by requests of their own, which name the session and its node
    emulated: bool = False
    #: the client sends no commands, and no pongs
    unidirectional: bool = False


BIDIRECTIONAL = TransportMode()


class ConnectionOrigin(msgspec.Struct, frozen=True):
    """Where a connection comes from."""

    #: "websocket", "sse" and so on; the names are Centrifugo's
    transport: str = ""
    #: IP address of the client, or of the proxy before it
    address: str = ""


NO_ORIGIN = ConnectionOrigin()


@dataclass(eq=False, slots=True)
class ChannelSubscription:
    """A subscription of one session to one channel."""

    session: Session
    channel: str
    options: ChannelOptions
    info: wire.ClientInfo
    state: SubscriptionState = SubscriptionState.SUBSCRIBING
    server_side: bool = False
    #: whether publications must come without gaps; *offset* and *epoch* are of the last one
    positioned: bool = False
    recoverable: bool = False
    join_leave: bool = False
    #: which publications are delivered; None: all
    tag_filter: TagFilter | None = None
    #: whether it gets deltas; *delta_base* is the data that the client has, None: not known
    delta: bool = False
    delta_base: wire.Payload | None = None
    offset: int = 0
    epoch: str = ""
    #: publications received, with their epochs, while it was subscribing
    pending: list[tuple[wire.Publication, str]] = field(default_factory=list)
    #: why the server ended it while it was subscribing
    pending_unsubscribe: UnsubscribeCode | None = None
    #: whether its join event was published: then a leave event follows
    joined: bool = False
    #: seconds since 1970; 0: never
    expire_at: int = 0
    #: when the position was last known to be right, seconds since 1970
    position_checked_at: float = 0.0

    def apply(self, event: SubscriptionEvent) -> None:
        """Changes the state; once unsubscribed, its session does not have it any more."""
        self.state = SUBSCRIPTION_TRANSITIONS[self.state][event]
        subscriptions = self.session.subscriptions
        if self.state is SubscriptionState.UNSUBSCRIBED and subscriptions.get(self.channel) is self:
            del subscriptions[self.channel]


class SessionContext(Protocol):
    """A node, as the sessions of one project see it."""

    settings: SessionSettings
    namespaces: namespaces.Namespaces
    verifier: tokens.TokenVerifier
    project: str
    #: the node's id
    node: str

    def now(self) -> float:
        """Seconds since 1970."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs *work* in the background."""

    def for_project(self, project: str) -> Self:
        """Returns the context of the same node for another project."""

    async def register(self, session: Session) -> None:
        """Registers a session whose user is known now.

        Raises Disconnected when the user has too many connections.
        """

    async def listen(self, subscription: ChannelSubscription) -> None:
        """Delivers publications from now on.  Raises StoreUnavailable."""

    async def leave(self, subscription: ChannelSubscription) -> None:
        """Stops delivery, removes presence, and publishes the leave event of one that joined.

        Idempotent.
        """

    async def publish(self, channel: str, data: Raw, info: wire.ClientInfo) -> object: ...

    async def history(
        self, channel: str, since: HistoryFilter, options: ChannelOptions
    ) -> tuple[list[wire.Publication], Position]: ...

    async def rotate_epoch(self, channel: str, epoch: str, options: ChannelOptions) -> None:
        """Replaces the epoch of a history that went back; leaves a queue's to the queue."""

    async def presence(self, channel: str) -> dict[str, wire.ClientInfo]: ...

    async def presence_stats(self, channel: str) -> tuple[int, int]: ...

    async def update_presence(self, subscription: ChannelSubscription) -> None:
        """Adds or renews the presence entry."""

    def schedule_position_check(self, subscription: ChannelSubscription) -> None:
        """Schedules a check whether the subscription missed a publication."""

    async def publish_join(self, subscription: ChannelSubscription) -> None:
        """Publishes the join event."""
