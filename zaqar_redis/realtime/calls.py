# SPDX-License-Identifier: Apache-2.0
"""Requests and results of the server API, with the names of the protocol.

Presence and history are asked for as clients do: see `wire`.  Payloads are raw JSON, or, in
the fields that begin with ``b64``, any bytes in base64.  Fields of results without a default
are always written.
"""

from __future__ import annotations

import base64

from msgspec import Raw
from msgspec.structs import replace

from zaqar_redis.realtime import wire
from zaqar_redis.realtime.wire import NOTHING, Binary, Stream, Wire


class Override(Wire):
    value: bool = False


class Disconnection(Wire):
    code: int = 0
    reason: str = ""


# Requests


class Publish(Wire):
    channel: str = ""
    data: Raw = NOTHING
    b64data: str = ""
    skip_history: bool = False
    tags: dict[str, str] = {}
    idempotency_key: str = ""
    delta: bool = False
    version: int = 0
    version_epoch: str = ""


class Broadcast(Publish):
    channels: list[str] = []


class OfUser(Wire):
    """Connections of a user; *client* and *session* narrow them down."""

    user: str = ""
    client: str = ""
    session: str = ""


class Subscribe(OfUser):
    """*expire_at* in seconds since 1970; 0: never."""

    channel: str = ""
    info: Raw = NOTHING
    b64info: str = ""
    data: Raw = NOTHING
    b64data: str = ""
    expire_at: int = 0
    recover_since: Stream | None = None
    override: dict[str, Override | None] = {}


class Unsubscribe(OfUser):
    channel: str = ""


class Disconnect(OfUser):
    #: clients that are left alone
    whitelist: list[str] = []
    disconnect: Disconnection | None = None


class Refresh(OfUser):
    expired: bool = False
    expire_at: int = 0
    info: Raw = NOTHING


class HistoryRemove(Wire):
    channel: str = ""


class Channels(Wire):
    pattern: str = ""


class Info(Wire):
    pass


class RPC(Wire):
    method: str = ""
    params: Raw = NOTHING


class Batch(Wire):
    commands: list[dict[str, Raw]] = []
    parallel: bool = False


# Results


class Fault(Wire):
    code: int
    message: str


class Done(Wire):
    """Nothing to say but that."""


class ApiClientInfo(wire.ClientInfo):
    """One with something that is no JSON."""

    b64conn_info: str = ""
    b64chan_info: str = ""


class ApiPublication(wire.Publication):
    """One that is no JSON, or nothing at all."""

    b64data: str = ""


class PublishResult(Wire):
    offset: int = 0
    epoch: str = ""


class Response(Wire):
    """Of one channel of a broadcast: the one or the other."""

    result: PublishResult | None = None
    error: Fault | None = None


class BroadcastResult(Wire):
    responses: list[Response]


class ChannelInfo(Wire):
    num_clients: int


class ChannelsResult(Wire):
    channels: dict[str, ChannelInfo]


class NodeInfo(Wire):
    """*uptime* in seconds."""

    uid: str
    name: str
    version: str
    num_clients: int
    num_users: int
    num_channels: int
    num_subs: int
    uptime: int


class InfoResult(Wire):
    nodes: list[NodeInfo]


class BatchResult(Wire):
    #: each has the result under the name of its method, or an error
    replies: list[dict[str, object]]


def info(given: wire.ClientInfo) -> wire.ClientInfo:
    """As it can be written in JSON."""
    conn_info, chan_info = given.conn_info, given.chan_info
    if not (isinstance(conn_info, Binary) or isinstance(chan_info, Binary)):
        return given
    return ApiClientInfo(
        given.user,
        given.client,
        _json(conn_info),
        _json(chan_info),
        b64conn_info=_base64(conn_info),
        b64chan_info=_base64(chan_info),
    )


def publication(given: wire.Publication) -> wire.Publication:
    """The same of a publication; libraries look for its data, so there are some."""
    if given.info is not None:
        given = replace(given, info=info(given.info))
    if given.data is not NOTHING and not isinstance(given.data, Binary):
        return given
    return ApiPublication(
        data=Raw(b"null"),
        info=given.info,
        offset=given.offset,
        tags=given.tags,
        time=given.time,
        b64data=_base64(given.data),
    )


def _json(payload: wire.Payload) -> wire.Payload:
    return NOTHING if isinstance(payload, Binary) else payload


def _base64(payload: wire.Payload) -> str:
    return base64.b64encode(payload.data).decode() if isinstance(payload, Binary) else ""
