# SPDX-License-Identifier: Apache-2.0
"""What travels between a client and a server: commands, replies and pushes.

Fields have the names of the protocol.  One without a default is always written, any other
only when it is not its default: SDKs index some fields without looking whether they are
there.  Payloads are raw JSON, or else any bytes, which clients of JSON cannot get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct


class Binary:
    """A payload that is no JSON.  That it is none of the types that msgspec knows is what
    keeps it out of everything that is written in JSON."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __bytes__(self) -> bytes:
        return self.data


if TYPE_CHECKING:
    #: Raw: it is JSON.
    Payload = Raw | Binary
else:
    Payload = Raw  # for decoders: what is read from JSON is JSON

#: No payload.  It is told from others by being this very one: see `payload`.
NOTHING = Raw()

_JSON = msgspec.json.Decoder(Raw)


def payload(data: bytes) -> Payload:
    """Whether it is JSON is looked at here, once, and then known wherever it goes."""
    if not data:
        return NOTHING
    try:
        str(data, "utf-8")  # msgspec does not look
        _JSON.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Binary(data)
    return Raw(data)


class Wire(Struct, omit_defaults=True, gc=False):
    """Base of all that is written."""


class Stream(Wire):
    """A position in a channel."""

    offset: int = 0
    epoch: str = ""


class ClientInfo(Wire):
    user: str
    client: str
    conn_info: Payload = NOTHING
    chan_info: Payload = NOTHING


class Publication(Wire):
    """*time* in milliseconds; with *delta*, the data are what has changed."""

    data: Payload = NOTHING
    info: ClientInfo | None = None
    offset: int = 0
    tags: dict[str, str] = {}
    delta: bool = False
    time: int = 0


# Commands


class FilterNode(Wire):
    """A comparison of a tag, or, with *op*, what joins some: see `filters`."""

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
    data: Raw = NOTHING
    positioned: bool = False
    recoverable: bool = False
    join_leave: bool = False
    delta: str = ""
    tf: FilterNode | None = None
    flag: int = 0
    #: of the subscription: 0 is a stream of publications; there are no others here
    type: int = 0


class ConnectRequest(Wire):
    token: str = ""
    data: Raw = NOTHING
    subs: dict[str, SubscribeRequest] = {}
    name: str = ""
    version: str = ""
    headers: dict[str, str] = {}
    flag: int = 0


class UnsubscribeRequest(Wire):
    channel: str = ""


class PublishRequest(Wire):
    channel: str = ""
    data: Raw = NOTHING


class HistoryRequest(Wire):
    channel: str = ""
    limit: int = 0
    since: Stream | None = None
    reverse: bool = False


class PresenceRequest(Wire):
    channel: str = ""


class PresenceStatsRequest(Wire):
    channel: str = ""


class PingRequest(Wire):
    pass


class SendRequest(Wire):
    data: Raw = NOTHING


class RPCRequest(Wire):
    method: str = ""
    data: Raw = NOTHING


class RefreshRequest(Wire):
    token: str = ""


class SubRefreshRequest(Wire):
    channel: str = ""
    token: str = ""


class Command(Wire):
    """One method, or none: then it is a pong."""

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
        """Its name and what is asked; None: it is a pong.  Raises ValueError for several."""
        given = [(name, asked) for name in METHODS if (asked := getattr(self, name)) is not None]
        if len(given) > 1:
            raise ValueError("a command has one method")
        return given[0] if given else None


METHODS = Command.__struct_fields__[1:]


class EmulationRequest(Wire):
    """Commands that come by a request of their own, for a session on a node."""

    session: str = ""
    node: str = ""
    #: a frame; in JSON it is in a string
    data: Raw = NOTHING


# Replies


class Fault(Wire):
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
    data: Payload = NOTHING
    was_recovering: bool = False
    delta: bool = False


class ConnectResult(Wire):
    client: str
    version: str
    expires: bool = False
    ttl: int = 0
    data: Payload = NOTHING
    subs: dict[str, SubscribeResult] = {}
    ping: int = 0
    pong: bool = False
    session: str = ""
    node: str = ""
    time: int = 0


class Empty(Wire):
    """Of unsubscribe and publish."""


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
    data: Payload = NOTHING


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
    data: Payload = NOTHING


class Message(Wire):
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
    message: Message | None = None
    subscribe: Subscribe | None = None
    connect: ConnectResult | None = None
    disconnect: Disconnect | None = None
    refresh: Refresh | None = None


class Reply(Wire):
    """The answer to the command *id*, or a push, or, empty, a ping."""

    id: int = 0
    error: Fault | None = None
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
