# SPDX-License-Identifier: Apache-2.0
"""Requests and results of the server API, with the protocol's field names.

Requests for presence and history are those of clients: see `wire`.  Payloads are raw JSON, or, in
the fields that begin with ``b64``, any bytes in base64.  Fields of results without a default
are always written.
"""

from __future__ import annotations

import base64

from msgspec import Raw
from msgspec.structs import replace

from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.protocol.wire import NO_PAYLOAD, Binary, StreamPosition, Wire


class BoolValue(Wire):
    value: bool = False


class ApiDisconnect(Wire):
    code: int = 0
    reason: str = ""


# Requests


class ApiPublishRequest(Wire):
    channel: str = ""
    data: Raw = NO_PAYLOAD
    b64data: str = ""
    skip_history: bool = False
    tags: dict[str, str] = {}
    idempotency_key: str = ""
    delta: bool = False
    version: int = 0
    version_epoch: str = ""


class BroadcastRequest(ApiPublishRequest):
    channels: list[str] = []


class ApiUserRequest(Wire):
    """Connections of a user, optionally of one *client* or *session* only."""

    user: str = ""
    client: str = ""
    session: str = ""


class ApiSubscribeRequest(ApiUserRequest):
    """*expire_at* in seconds since 1970; 0: never."""

    channel: str = ""
    info: Raw = NO_PAYLOAD
    b64info: str = ""
    data: Raw = NO_PAYLOAD
    b64data: str = ""
    expire_at: int = 0
    recover_since: StreamPosition | None = None
    override: dict[str, BoolValue | None] = {}


class ApiUnsubscribeRequest(ApiUserRequest):
    channel: str = ""


class DisconnectRequest(ApiUserRequest):
    #: clients that are not affected
    whitelist: list[str] = []
    disconnect: ApiDisconnect | None = None


class ApiRefreshRequest(ApiUserRequest):
    expired: bool = False
    expire_at: int = 0
    info: Raw = NO_PAYLOAD


class ApiSendRequest(Wire):
    """A message for the connections that *route* and *target* name."""

    #: user, role, broadcast, connection or topic
    route: str = ""
    #: user, role, client id or topic; empty for a broadcast
    target: str = ""
    type: str = ""
    payload: Raw = NO_PAYLOAD
    #: milliseconds since 1970; 0: now
    timestamp: int = 0


class TopicRequest(Wire):
    """The connection of a client id, and a topic of the routing service."""

    client: str = ""
    topic: str = ""


class HistoryRemoveRequest(Wire):
    channel: str = ""


class ChannelsRequest(Wire):
    pattern: str = ""


class InfoRequest(Wire):
    pass


class ApiRPCRequest(Wire):
    method: str = ""
    params: Raw = NO_PAYLOAD


class BatchRequest(Wire):
    commands: list[dict[str, Raw]] = []
    parallel: bool = False


# Results


class ApiError(Wire):
    code: int
    message: str


class SendResult(Wire):
    """How many connections got the message, on a bus within one process; else None."""

    recipients: int | None = None


class TopicSubscribersResult(Wire):
    #: client ids
    clients: list[str]


class EmptyResult(Wire):
    """The result of methods that return nothing."""


class ApiClientInfo(wire.ClientInfo):
    """A client info with a payload that is not JSON."""

    b64conn_info: str = ""
    b64chan_info: str = ""


class ApiPublication(wire.Publication):
    """A publication whose payload is not JSON, or empty."""

    b64data: str = ""


class PublishResult(Wire):
    offset: int = 0
    epoch: str = ""


class PublishResponse(Wire):
    """Result or error of one channel of a broadcast."""

    result: PublishResult | None = None
    error: ApiError | None = None


class BroadcastResult(Wire):
    responses: list[PublishResponse]


class ChannelInfo(Wire):
    num_clients: int


class ChannelsResult(Wire):
    channels: dict[str, ChannelInfo]


class NodeResult(Wire):
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
    nodes: list[NodeResult]


class BatchResponse(Wire):
    #: each has the result under the name of its method, or an error
    replies: list[dict[str, object]]


def json_client_info(given: wire.ClientInfo) -> wire.ClientInfo:
    """Returns a client info that can be encoded in JSON."""
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


def json_publication(given: wire.Publication) -> wire.Publication:
    """Returns a publication that can be encoded in JSON, with *data*, as libraries expect it."""
    if given.info is not None:
        given = replace(given, info=json_client_info(given.info))
    if given.data is not NO_PAYLOAD and not isinstance(given.data, Binary):
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
    return NO_PAYLOAD if isinstance(payload, Binary) else payload


def _base64(payload: wire.Payload) -> str:
    return base64.b64encode(payload.data).decode() if isinstance(payload, Binary) else ""
