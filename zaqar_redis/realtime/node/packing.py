# SPDX-License-Identifier: Apache-2.0
"""Encoding between nodes: publications, and infos of clients.

A payload that is JSON is encoded as text, any other as bytes: so no receiver has to check.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.session import deltas

#: str or bytes; msgspec does not support this union.
_Payload = Any


class _Info(Struct, array_like=True):
    user: str
    client: str
    conn_info: _Payload
    chan_info: _Payload


class _Publication(Struct, array_like=True):
    data: _Payload
    time: int
    info: _Info | None = None
    tags: dict[str, str] = {}
    delta: bool = False


_encode = msgspec.msgpack.Encoder().encode
_read_info = msgspec.msgpack.Decoder(_Info).decode
_read_publication = msgspec.msgpack.Decoder(_Publication).decode


def pack_client_info(given: wire.ClientInfo) -> bytes:
    return _encode(_packed(given))


def unpack_client_info(packed: bytes) -> wire.ClientInfo:
    return _unpacked(_read_info(packed))


def pack_publication(
    data: wire.Payload,
    time: int,
    info: wire.ClientInfo | None = None,
    tags: dict[str, str] | None = None,
    delta: bool = False,
) -> bytes:
    """Encodes a publication; *time* in milliseconds, *delta*: send it as a delta."""
    publisher = _packed(info) if info is not None else None
    return _encode(_Publication(_written(data), time, publisher, tags or {}, delta))


def unpack_publication(packed: bytes, offset: int) -> wire.Publication:
    found = _read_publication(packed)
    kind = deltas.DeltaPublication if found.delta else wire.Publication
    return kind(
        data=_read(found.data),
        info=_unpacked(found.info) if found.info is not None else None,
        offset=offset,
        tags=found.tags,
        time=found.time,
    )


def _packed(given: wire.ClientInfo) -> _Info:
    return _Info(given.user, given.client, _written(given.conn_info), _written(given.chan_info))


def _unpacked(found: _Info) -> wire.ClientInfo:
    return wire.ClientInfo(
        user=found.user,
        client=found.client,
        conn_info=_read(found.conn_info),
        chan_info=_read(found.chan_info),
    )


def _written(payload: wire.Payload) -> str | bytes:
    return payload.data if isinstance(payload, wire.Binary) else str(payload, "utf-8")


def _read(written: str | bytes) -> wire.Payload:
    if isinstance(written, bytes):
        return wire.Binary(written)
    return Raw(written) if written else wire.NO_PAYLOAD
