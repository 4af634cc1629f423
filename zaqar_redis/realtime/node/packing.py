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
_decode_info = msgspec.msgpack.Decoder(_Info).decode
_decode_publication = msgspec.msgpack.Decoder(_Publication).decode


def pack_client_info(given: wire.ClientInfo) -> bytes:
    return _encode(_pack_info(given))


def unpack_client_info(packed: bytes) -> wire.ClientInfo:
    return _unpack_info(_decode_info(packed))


def pack_publication(
    data: wire.Payload,
    time: int,
    info: wire.ClientInfo | None = None,
    tags: dict[str, str] | None = None,
    delta: bool = False,
) -> bytes:
    """Encodes a publication; *time* in milliseconds, *delta*: send it as a delta."""
    publisher = _pack_info(info) if info is not None else None
    return _encode(_Publication(_pack_payload(data), time, publisher, tags or {}, delta))


def unpack_publication(packed: bytes, offset: int) -> wire.Publication:
    found = _decode_publication(packed)
    kind = deltas.DeltaPublication if found.delta else wire.Publication
    return kind(
        data=_unpack_payload(found.data),
        info=_unpack_info(found.info) if found.info is not None else None,
        offset=offset,
        tags=found.tags,
        time=found.time,
    )


def _pack_info(given: wire.ClientInfo) -> _Info:
    return _Info(
        given.user, given.client, _pack_payload(given.conn_info), _pack_payload(given.chan_info)
    )


def _unpack_info(found: _Info) -> wire.ClientInfo:
    return wire.ClientInfo(
        user=found.user,
        client=found.client,
        conn_info=_unpack_payload(found.conn_info),
        chan_info=_unpack_payload(found.chan_info),
    )


def _pack_payload(payload: wire.Payload) -> str | bytes:
    return payload.data if isinstance(payload, wire.Binary) else str(payload, "utf-8")


def _unpack_payload(packed: str | bytes) -> wire.Payload:
    if isinstance(packed, bytes):
        return wire.Binary(packed)
    return Raw(packed) if packed else wire.NO_PAYLOAD
