# SPDX-License-Identifier: Apache-2.0
"""Control messages between nodes: tagged structs in msgpack."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from msgspec import Struct

from zaqar_redis.realtime.protocol.codes import FORCE_DISCONNECT


class ConnectionSelector(Struct, array_like=True):
    """Connections of a project's user, optionally of one *client* or *session* only."""

    project: str
    user: str
    client: str = ""
    session: str = ""
    #: clients that are not affected
    except_clients: list[str] = []


class ConnectionFilter(Struct, array_like=True, frozen=True):
    """Texts that user, transport and address of a connection contain; empty: any."""

    user: str = ""
    transport: str = ""
    address: str = ""
    #: how many are wanted at most
    limit: int = 0

    def matches(self, connection: ConnectionReport) -> bool:
        return (
            self.user in connection.user
            and self.transport in connection.transport
            and self.address in connection.address
        )


ANY_CONNECTION = ConnectionFilter()


class _ControlMessage(Struct, array_like=True, tag=lambda name: name.removeprefix("Control")):
    pass


class ControlDisconnect(_ControlMessage):
    who: ConnectionSelector
    code: int = FORCE_DISCONNECT.code
    reason: str = FORCE_DISCONNECT.reason


class ControlUnsubscribe(_ControlMessage):
    """Unsubscribes from *channel*; empty: from all."""

    who: ConnectionSelector
    channel: str


class ControlSubscribe(_ControlMessage):
    who: ConnectionSelector
    channel: str
    info: bytes = b""
    data: bytes = b""
    #: seconds since 1970; 0: never
    expire_at: int = 0
    #: offset and epoch after which publications are to be recovered
    since: tuple[int, str] | None = None
    override: dict[str, bool] = {}


class ControlRefresh(_ControlMessage):
    """The connection expires at *expire_at*, 0: never, or has *expired*."""

    who: ConnectionSelector
    expired: bool = False
    expire_at: int = 0
    info: bytes = b""


class ControlTopic(_ControlMessage):
    """Subscribes a connection to a topic of the routing service, or unsubscribes it."""

    project: str
    client: str
    #: empty: all, of those to unsubscribe from
    topic: str
    subscribes: bool


class Envelope(_ControlMessage):
    """A message to the connections that *route* and *target* name."""

    project: str
    #: one of `ROUTES`
    route: str
    #: user, role, client's id or topic; empty for a broadcast
    target: str
    #: what clients get, in JSON: type, payload, and timestamp in milliseconds since 1970
    message: bytes


#: How the connections of an envelope are chosen.
ROUTES = ("user", "role", "broadcast", "connection", "topic")


class ControlFrame(_ControlMessage):
    """Commands of an emulated client whose request reached another node."""

    session: str
    data: bytes


class ControlSurveyRequest(_ControlMessage):
    """A question that every node answers for itself."""

    id: str
    #: where to send the answer
    node: str
    project: str
    what: str
    #: glob of channels
    pattern: str = ""
    #: of connections
    selection: ConnectionFilter = ANY_CONNECTION


class ConnectionReport(Struct, array_like=True):
    """An open connection of a client."""

    client: str
    user: str
    #: "websocket", "sse" and so on
    transport: str
    #: IP address of the client, or of the proxy before it
    address: str
    #: seconds since 1970
    connected_at: float
    #: channels that it is subscribed to
    channels: list[str]
    #: how many these are: not all are reported
    subscriptions: int
    #: name of its node
    node: str


class NodeReport(Struct, array_like=True):
    """A node's state; *uptime* in seconds."""

    node: str
    name: str
    version: str
    clients: int
    users: int
    channels: int
    subscriptions: int
    uptime: int
    # Nodes of an older version do not tell the rest.
    #: share of one core, in the last ten seconds
    cpu: float | None = None
    #: resident, in bytes
    memory: int | None = None
    #: the longest delay of the event loop in the last ten seconds, in milliseconds
    loop_lag: float | None = None
    #: names of stores that do not answer it
    unavailable: list[str] = []


class ControlSurveyResponse(_ControlMessage):
    id: str
    #: None: of a node without clients, like that of a command
    report: NodeReport | None = None
    #: channel -> subscribers
    channels: dict[str, int] = {}
    #: the first of those that were asked for
    connections: list[ConnectionReport] = []
    #: how many there are
    matching: int = 0
    #: publications a second of each of *channels*, in their order; None: not known yet.  Nodes of
    #: an older version tell none.
    published: list[float | None] = []


def project_key(project: str, name: str) -> str:
    """Returns the key of a channel, or a topic of the routing service, unique over all projects."""
    return f"{quote(project, safe='')}/{name}"


ControlMessage = (
    ControlDisconnect
    | ControlUnsubscribe
    | ControlSubscribe
    | ControlRefresh
    | ControlTopic
    | Envelope
    | ControlFrame
    | ControlSurveyRequest
    | ControlSurveyResponse
)

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(ControlMessage).decode
