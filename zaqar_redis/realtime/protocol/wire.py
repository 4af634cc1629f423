# SPDX-License-Identifier: Apache-2.0
"""Messages between clients and server: commands, replies and pushes.

Fields have the names of the protocol.  A field without a default is always written, any other
only when it differs from its default: SDKs access some fields without checking that they
exist.  Payloads are raw JSON, or any other bytes, which JSON clients cannot receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct


class Binary:
    """A payload that is not JSON.

    msgspec does not know this type, which keeps it out of all JSON output.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __bytes__(self) -> bytes:
        return self.data


if TYPE_CHECKING:
    #: Raw: it is JSON.
    Payload = Raw | Binary
else:
    Payload = Raw  # for decoders: a payload read from JSON is JSON

#: No payload; compare by identity, see `payload`.
NO_PAYLOAD = Raw()

_JSON = msgspec.json.Decoder(Raw)


def payload(data: bytes) -> Payload:
    """Returns NO_PAYLOAD, Raw for JSON, or Binary: the type spares any later check."""
    if not data:
        return NO_PAYLOAD
    try:
        str(data, "utf-8")  # msgspec does not check it
        _JSON.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Binary(data)
    return Raw(data)


class Wire(Struct, omit_defaults=True, gc=False):
    """Base of all messages."""


class StreamPosition(Wire):
    offset: int = 0
    epoch: str = ""


class ClientInfo(Wire):
    user: str
    client: str
    conn_info: Payload = NO_PAYLOAD
    chan_info: Payload = NO_PAYLOAD


class Publication(Wire):
    """*time* in milliseconds since 1970; with *delta*, the data are a delta."""

    data: Payload = NO_PAYLOAD
    info: ClientInfo | None = None
    offset: int = 0
    tags: dict[str, str] = {}
    delta: bool = False
    time: int = 0


# Commands


class FilterNode(Wire):
    """A comparison of a tag, or, with *op*, a combination of *nodes*: see `filters`."""

    op: str = ""
    key: str = ""
    cmp: str = ""
    val: str = ""
    vals: list[str] = []
    nodes: list[FilterNode] = []


class SubscribeRequest(Wire):
    channel: str = ""
    token: str = ""
    recover: bool = False
    epoch: str = ""
    offset: int = 0
    data: Raw = NO_PAYLOAD
    positioned: bool = False
    recoverable: bool = False
    join_leave: bool = False
    delta: str = ""
    tf: FilterNode | None = None
    flag: int = 0
    #: of the subscription: 0 is a stream of publications, the only one supported
    type: int = 0


class ConnectRequest(Wire):
    token: str = ""
    data: Raw = NO_PAYLOAD
    subs: dict[str, SubscribeRequest] = {}
    name: str = ""
    version: str = ""
    headers: dict[str, str] = {}
    flag: int = 0


class UnsubscribeRequest(Wire):
    channel: str = ""


class PublishRequest(Wire):
    channel: str = ""
    data: Raw = NO_PAYLOAD


class HistoryRequest(Wire):
    channel: str = ""
    limit: int = 0
    since: StreamPosition | None = None
    reverse: bool = False


class PresenceRequest(Wire):
    channel: str = ""


class PresenceStatsRequest(Wire):
    channel: str = ""


class PingRequest(Wire):
    pass


class SendRequest(Wire):
    data: Raw = NO_PAYLOAD


class RPCRequest(Wire):
    method: str = ""
    data: Raw = NO_PAYLOAD


class RefreshRequest(Wire):
    token: str = ""


class SubRefreshRequest(Wire):
    channel: str = ""
    token: str = ""


class Command(Wire):
    """A request of one method; one without a method is a pong."""

    id: int = 0
    connect: ConnectRequest | None = None
    subscribe: SubscribeRequest | None = None
    unsubscribe: UnsubscribeRequest | None = None
    publish: PublishRequest | None = None
    presence: PresenceRequest | None = None
    presence_stats: PresenceStatsRequest | None = None
    history: HistoryRequest | None = None
    ping: PingRequest | None = None
    send: SendRequest | None = None
    rpc: RPCRequest | None = None
    refresh: RefreshRequest | None = None
    sub_refresh: SubRefreshRequest | None = None

    def method(self) -> tuple[str, Any] | None:
        """Returns the method's name and request; None: a pong.  Raises ValueError for several."""
        given = [(name, each) for name in METHODS if (each := getattr(self, name)) is not None]
        if len(given) > 1:
            raise ValueError("a command has one method")
        return given[0] if given else None


METHODS = Command.__struct_fields__[1:]


class EmulationRequest(Wire):
    """Commands that come by a separate request, for a session on a node."""

    session: str = ""
    node: str = ""
    #: a frame; in JSON it is a string
    data: Raw = NO_PAYLOAD


# Replies


class Error(Wire):
    code: int
    message: str
    temporary: bool = False


class SubscribeResult(Wire):
    expires: bool = False
    ttl: int = 0
    recoverable: bool = False
    epoch: str = ""
    publications: list[Publication] = []
    recovered: bool = False
    offset: int = 0
    positioned: bool = False
    data: Payload = NO_PAYLOAD
    was_recovering: bool = False
    delta: bool = False


class ConnectResult(Wire):
    client: str
    version: str
    expires: bool = False
    ttl: int = 0
    data: Payload = NO_PAYLOAD
    subs: dict[str, SubscribeResult] = {}
    ping: int = 0
    pong: bool = False
    session: str = ""
    node: str = ""
    time: int = 0


class Empty(Wire):
    """The result of unsubscribe and publish."""


class PresenceResult(Wire):
    presence: dict[str, ClientInfo]


class PresenceStatsResult(Wire):
    num_clients: int
    num_users: int


class HistoryResult(Wire):
    publications: list[Publication]
    epoch: str
    offset: int


class RPCResult(Wire):
    data: Payload = NO_PAYLOAD


class RefreshResult(Wire):
    client: str
    version: str
    expires: bool = False
    ttl: int = 0


class SubRefreshResult(Wire):
    expires: bool = False
    ttl: int = 0


# Pushes


class Join(Wire):
    info: ClientInfo


class Leave(Wire):
    info: ClientInfo


class Unsubscribe(Wire):
    code: int
    reason: str


class Subscribe(Wire):
    recoverable: bool = False
    epoch: str = ""
    offset: int = 0
    positioned: bool = False
    data: Payload = NO_PAYLOAD


class MessagePush(Wire):
    data: Payload


class Disconnect(Wire):
    code: int
    reason: str
    reconnect: bool = False


class Refresh(Wire):
    expires: bool = False
    ttl: int = 0


class Push(Wire):
    channel: str = ""
    pub: Publication | None = None
    join: Join | None = None
    leave: Leave | None = None
    unsubscribe: Unsubscribe | None = None
    message: MessagePush | None = None
    subscribe: Subscribe | None = None
    connect: ConnectResult | None = None
    disconnect: Disconnect | None = None
    refresh: Refresh | None = None


class Reply(Wire):
    """The reply to the command *id*, or a push, or, when empty, a ping."""

    id: int = 0
    error: Error | None = None
    push: Push | None = None
    connect: ConnectResult | None = None
    subscribe: SubscribeResult | None = None
    unsubscribe: Empty | None = None
    publish: Empty | None = None
    presence: PresenceResult | None = None
    presence_stats: PresenceStatsResult | None = None
    history: HistoryResult | None = None
    rpc: RPCResult | None = None
    refresh: RefreshResult | None = None
    sub_refresh: SubRefreshResult | None = None
