# SPDX-License-Identifier: Apache-2.0
"""All codes of the protocol, with their texts: errors, disconnects, unsubscribes.

The number tells the client what to do: it reconnects unless a disconnect is 3500 to 3999 or
4500 to 4999, and resubscribes when an unsubscribe is 2500 or more.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """An error in the reply to a command."""

    code: int
    message: str
    #: the same command may succeed later
    temporary: bool = False


INTERNAL = ErrorCode(100, "internal server error", temporary=True)
UNKNOWN_CHANNEL = ErrorCode(102, "unknown channel")
PERMISSION_DENIED = ErrorCode(103, "permission denied")
#: The same code in the server API.
NOT_FOUND = ErrorCode(104, "not found")
ALREADY_SUBSCRIBED = ErrorCode(105, "already subscribed")
LIMIT_EXCEEDED = ErrorCode(106, "limit exceeded")
BAD_REQUEST = ErrorCode(107, "bad request")
NOT_AVAILABLE = ErrorCode(108, "not available")
TOKEN_EXPIRED = ErrorCode(109, "token expired")
EXPIRED = ErrorCode(110, "expired")
TOO_MANY_REQUESTS = ErrorCode(111, "too many requests", temporary=True)
UNRECOVERABLE = ErrorCode(112, "unrecoverable position")


class DisconnectCode(NamedTuple):
    """The end of a connection; code and reason of the WebSocket close."""

    code: int
    reason: str

    @property
    def reconnect(self) -> bool:
        """Whether clients reconnect by themselves."""
        return not (3500 <= self.code < 4000 or 4500 <= self.code < 5000)


CONNECTION_CLOSED = DisconnectCode(3000, "connection closed")
SHUTDOWN = DisconnectCode(3001, "shutdown")
SERVER_ERROR = DisconnectCode(3004, "internal server error")
CONNECTION_EXPIRED = DisconnectCode(3005, "connection expired")
SUBSCRIPTION_EXPIRED = DisconnectCode(3006, "subscription expired")
SLOW = DisconnectCode(3008, "slow")
WRITE_ERROR = DisconnectCode(3009, "write error")
INSUFFICIENT_STATE = DisconnectCode(3010, "insufficient state")
FORCE_RECONNECT = DisconnectCode(3011, "force reconnect")
NO_PONG = DisconnectCode(3012, "no pong")
TOO_MANY_REQUESTS_DISCONNECT = DisconnectCode(3013, "too many requests")
INVALID_TOKEN = DisconnectCode(3500, "invalid token")
BAD_REQUEST_DISCONNECT = DisconnectCode(3501, "bad request")
STALE = DisconnectCode(3502, "stale")
FORCE_DISCONNECT = DisconnectCode(3503, "force disconnect")
CONNECTION_LIMIT = DisconnectCode(3504, "connection limit")
CHANNEL_LIMIT = DisconnectCode(3505, "channel limit")
INAPPROPRIATE_PROTOCOL = DisconnectCode(3506, "inappropriate protocol")
PERMISSION_DENIED_DISCONNECT = DisconnectCode(3507, "permission denied")
NOT_AVAILABLE_DISCONNECT = DisconnectCode(3508, "not available")


#: Unidirectional clients get no replies: an error disconnects them; default SERVER_ERROR.
DISCONNECT_FOR_ERROR = {
    TOKEN_EXPIRED: CONNECTION_EXPIRED,
    EXPIRED: CONNECTION_EXPIRED,
    TOO_MANY_REQUESTS: TOO_MANY_REQUESTS_DISCONNECT,
    PERMISSION_DENIED: PERMISSION_DENIED_DISCONNECT,
}


class UnsubscribeCode(NamedTuple):
    """The end of a subscription by the server."""

    code: int
    reason: str


SERVER_UNSUBSCRIBE = UnsubscribeCode(2000, "server unsubscribe")
INSUFFICIENT_STATE_UNSUBSCRIBE = UnsubscribeCode(2500, "insufficient state")
SUBSCRIPTION_EXPIRED_UNSUBSCRIBE = UnsubscribeCode(2501, "subscription expired")


class CommandRejected(Exception):
    """A command fails; the connection goes on."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.message)
        self.error = error


class Disconnected(Exception):
    """The connection has to be closed."""

    def __init__(self, close: DisconnectCode) -> None:
        super().__init__(close.reason)
        self.close = close
