# SPDX-License-Identifier: Apache-2.0
"""The states of a session and of its subscriptions, and what leads from one to the next.

States change by these tables only.  An event that a state does not list cannot happen there.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum

from zaqar_redis.realtime.protocol import wire


class SessionState(Enum):
    #: no connect command has succeeded
    CONNECTING = "connecting"
    #: its connect command was rejected: the client has to open another connection
    REJECTED = "rejected"
    CONNECTED = "connected"
    #: nothing is sent any more, and commands are ignored
    CLOSED = "closed"


class SessionEvent(Enum):
    #: the connect command succeeds
    CONNECT = "connect"
    #: the token of the connect command has expired
    REJECT = "reject"
    #: the client or the server ends the connection
    CLOSE = "close"


SESSION_TRANSITIONS: Mapping[SessionState, Mapping[SessionEvent, SessionState]] = {
    SessionState.CONNECTING: {
        SessionEvent.CONNECT: SessionState.CONNECTED,
        SessionEvent.REJECT: SessionState.REJECTED,
        SessionEvent.CLOSE: SessionState.CLOSED,
    },
    SessionState.REJECTED: {SessionEvent.CLOSE: SessionState.CLOSED},
    SessionState.CONNECTED: {SessionEvent.CLOSE: SessionState.CLOSED},
    SessionState.CLOSED: {
        # The connection may end while its connect command runs.
        SessionEvent.CONNECT: SessionState.CLOSED,
        SessionEvent.REJECT: SessionState.CLOSED,
        SessionEvent.CLOSE: SessionState.CLOSED,
    },
}

#: The methods that clients may call in each state; another one disconnects them.
ALLOWED_METHODS: Mapping[SessionState, Set[str]] = {
    SessionState.CONNECTING: frozenset(("connect",)),
    SessionState.REJECTED: frozenset(),
    SessionState.CONNECTED: frozenset(wire.METHODS) - {"connect"},
    SessionState.CLOSED: frozenset(),
}


class SubscriptionState(Enum):
    #: the history is read; publications that come meanwhile are pending
    SUBSCRIBING = "subscribing"
    #: live: publications are sent at once
    SUBSCRIBED = "subscribed"
    #: the server has ended it while it was subscribing: the client learns that after the reply
    UNSUBSCRIBING = "unsubscribing"
    #: it has ended, and is none of its session's subscriptions any more
    UNSUBSCRIBED = "unsubscribed"


class SubscriptionEvent(Enum):
    #: the client has the reply
    GO_LIVE = "go live"
    #: the server ends it
    UNSUBSCRIBE = "unsubscribe"
    #: the client or its connection leaves, or subscribing has failed
    LEAVE = "leave"


SUBSCRIPTION_TRANSITIONS: Mapping[
    SubscriptionState, Mapping[SubscriptionEvent, SubscriptionState]
] = {
    SubscriptionState.SUBSCRIBING: {
        SubscriptionEvent.GO_LIVE: SubscriptionState.SUBSCRIBED,
        SubscriptionEvent.UNSUBSCRIBE: SubscriptionState.UNSUBSCRIBING,
        SubscriptionEvent.LEAVE: SubscriptionState.UNSUBSCRIBED,
    },
    SubscriptionState.UNSUBSCRIBING: {
        # For as long as it takes to send what is pending; then the server ends it.
        SubscriptionEvent.GO_LIVE: SubscriptionState.SUBSCRIBED,
        SubscriptionEvent.UNSUBSCRIBE: SubscriptionState.UNSUBSCRIBING,
        SubscriptionEvent.LEAVE: SubscriptionState.UNSUBSCRIBED,
    },
    SubscriptionState.SUBSCRIBED: {
        SubscriptionEvent.UNSUBSCRIBE: SubscriptionState.UNSUBSCRIBED,
        SubscriptionEvent.LEAVE: SubscriptionState.UNSUBSCRIBED,
    },
    SubscriptionState.UNSUBSCRIBED: {
        # The client may leave while it is being subscribed.
        SubscriptionEvent.GO_LIVE: SubscriptionState.UNSUBSCRIBED,
        SubscriptionEvent.UNSUBSCRIBE: SubscriptionState.UNSUBSCRIBED,
        SubscriptionEvent.LEAVE: SubscriptionState.UNSUBSCRIBED,
    },
}
