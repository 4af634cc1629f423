# SPDX-License-Identifier: Apache-2.0
"""Every code of the protocol, with its text: errors, closes, and ends of subscriptions.

The number says what a client does: it connects again unless a close is 3500 to 3999 or
4500 to 4999, and subscribes again when an unsubscribe is 2500 or more.
"""

from __future__ import annotations

from typing import NamedTuple


class Error(NamedTuple):
    """In the reply to a command."""

    code: int
    message: str
    #: the same command may succeed later
    temporary: bool = False


INTERNAL = Error(100, "internal server error", temporary=True)
UNAUTHORIZED = Error(101, "unauthorized")
UNKNOWN_CHANNEL = Error(102, "unknown channel")
PERMISSION_DENIED = Error(103, "permission denied")
METHOD_NOT_FOUND = Error(104, "method not found")
#: The same of the server API.
NOT_FOUND = Error(104, "not found")
ALREADY_SUBSCRIBED = Error(105, "already subscribed")
LIMIT_EXCEEDED = Error(106, "limit exceeded")
BAD_REQUEST = Error(107, "bad request")
NOT_AVAILABLE = Error(108, "not available")
TOKEN_EXPIRED = Error(109, "token expired")
EXPIRED = Error(110, "expired")
TOO_MANY_REQUESTS = Error(111, "too many requests", temporary=True)
UNRECOVERABLE = Error(112, "unrecoverable position")


class Close(NamedTuple):
    """Of a connection; the code and the reason of the WebSocket close."""

    code: int
    reason: str

    @property
    def reconnect(self) -> bool:
        """Whether clients come back by themselves."""
        return not (3500 <= self.code < 4000 or 4500 <= self.code < 5000)


NORMAL = Close(3000, "connection closed")
SHUTDOWN = Close(3001, "shutdown")
SERVER_ERROR = Close(3004, "internal server error")
CONNECTION_EXPIRED = Close(3005, "connection expired")
SUBSCRIPTION_EXPIRED = Close(3006, "subscription expired")
SLOW = Close(3008, "slow")
WRITE_ERROR = Close(3009, "write error")
INSUFFICIENT_STATE = Close(3010, "insufficient state")
FORCE_RECONNECT = Close(3011, "force reconnect")
NO_PONG = Close(3012, "no pong")
TOO_MANY = Close(3013, "too many requests")
INVALID_TOKEN = Close(3500, "invalid token")
BAD_CLOSE = Close(3501, "bad request")
STALE = Close(3502, "stale")
FORCE_DISCONNECT = Close(3503, "force disconnect")
CONNECTION_LIMIT = Close(3504, "connection limit")
CHANNEL_LIMIT = Close(3505, "channel limit")
INAPPROPRIATE = Close(3506, "inappropriate protocol")
DENIED = Close(3507, "permission denied")
UNSUPPORTED = Close(3508, "not available")


#: Where nothing is answered, an error ends the connection; by default it is SERVER_ERROR.
INSTEAD = {
    TOKEN_EXPIRED: CONNECTION_EXPIRED,
    EXPIRED: CONNECTION_EXPIRED,
    TOO_MANY_REQUESTS: TOO_MANY,
    PERMISSION_DENIED: DENIED,
}


class End(NamedTuple):
    """Of a subscription, by the server."""

    code: int
    reason: str


ENDED = End(2000, "server unsubscribe")
LOST_POSITION = End(2500, "insufficient state")
EXPIRED_SUBSCRIPTION = End(2501, "subscription expired")


class Refused(Exception):
    """A command cannot be done; the connection goes on."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


class Closed(Exception):
    """The connection has to end."""

    def __init__(self, close: Close) -> None:
        super().__init__(close.reason)
        self.close = close
