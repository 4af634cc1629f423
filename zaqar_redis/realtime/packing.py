# SPDX-License-Identifier: Apache-2.0
"""What nodes write for each other: publications, and who is in a channel."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from zaqar_redis.realtime import deltas, wire


class _Info(Struct, array_like=True):
    user: str
    client: str
    conn_info: bytes
    chan_info: bytes


class _Publication(Struct, array_like=True):
    data: bytes
    time: int
    info: _Info | None = None
    tags: dict[str, str] = {}
    delta: bool = False


_encode = msgspec.msgpack.Encoder().encode
_read_info = msgspec.msgpack.Decoder(_Info).decode
_read_publication = msgspec.msgpack.Decoder(_Publication).decode


def info(given: wire.ClientInfo) -> bytes:
    return _encode(_packed(given))


def client_info(packed: bytes) -> wire.ClientInfo:
    return _unpacked(_read_info(packed))


def publication(
    data: Raw,
    time: int,
    info: wire.ClientInfo | None = None,
    tags: dict[str, str] | None = None,
    delta: bool = False,
) -> bytes:
    """*time* in milliseconds; *delta*: it is to be sent as one."""
    who = _packed(info) if info is not None else None
    return _encode(_Publication(bytes(data), time, who, tags or {}, delta))


def unpacked(packed: bytes, offset: int) -> wire.Publication:
    found = _read_publication(packed)
    kind = deltas.DeltaPublication if found.delta else wire.Publication
    return kind(
        data=wire.payload(found.data),
        info=_unpacked(found.info) if found.info is not None else None,
        offset=offset,
        tags=found.tags,
        time=found.time,
    )


def _packed(given: wire.ClientInfo) -> _Info:
    return _Info(given.user, given.client, bytes(given.conn_info), bytes(given.chan_info))


def _unpacked(found: _Info) -> wire.ClientInfo:
    return wire.ClientInfo(
        user=found.user,
        client=found.client,
        conn_info=wire.payload(found.conn_info),
        chan_info=wire.payload(found.chan_info),
    )
