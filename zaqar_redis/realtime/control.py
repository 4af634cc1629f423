# SPDX-License-Identifier: Apache-2.0
"""What nodes tell each other, and how it is written down: msgpack, tagged by kind."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from zaqar_redis.realtime.codes import FORCE_DISCONNECT


class Who(Struct, array_like=True):
    """Connections of a project's user; *client* and *session* narrow them down."""

    project: str
    user: str
    client: str = ""
    session: str = ""
    #: clients that are left alone
    except_clients: list[str] = []


class _Message(Struct, array_like=True, tag=True):
    pass


class Disconnect(_Message):
    who: Who
    code: int = FORCE_DISCONNECT.code
    reason: str = FORCE_DISCONNECT.reason


class Unsubscribe(_Message):
    """Of *channel*; empty: of all."""

    who: Who
    channel: str


class Subscribe(_Message):
    who: Who
    channel: str
    info: bytes = b""
    data: bytes = b""
    #: seconds since 1970; 0: never
    expire_at: int = 0
    #: offset and epoch behind which publications are wanted
    since: tuple[int, str] | None = None
    override: dict[str, bool] = {}


class Refresh(_Message):
    """The connection lives until *expire_at*, 0: for good, or has *expired*."""

    who: Who
    expired: bool = False
    expire_at: int = 0
    info: bytes = b""


class Frame(_Message):
    """Commands of a client whose requests reached another node."""

    session: str
    data: bytes


class Ask(_Message):
    """Something that every node knows a part of."""

    id: str
    #: who wants to know
    node: str
    project: str
    what: str
    #: glob of channels
    pattern: str = ""


class Report(Struct, array_like=True):
    """What a node says of itself; *uptime* in seconds."""

    node: str
    name: str
    version: str
    clients: int
    users: int
    channels: int
    subscriptions: int
    uptime: int


class Answer(_Message):
    id: str
    #: None: of a node that serves nobody, like a command's
    report: Report | None = None
    #: channel -> subscribers
    channels: dict[str, int] = {}


Message = Disconnect | Unsubscribe | Subscribe | Refresh | Frame | Ask | Answer

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Message).decode
