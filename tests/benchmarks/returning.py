# SPDX-License-Identifier: Apache-2.0
"""What clients say when they come, and when they come back."""

from __future__ import annotations

import jwt
import msgspec

from tests.benchmarks.crowd import Dialogue, Peer, frames
from zaqar_redis.bench.service import Failed
from zaqar_redis.realtime import wire

SECRET = "a secret that is long enough for HS256"

_decode = msgspec.json.Decoder(wire.Reply).decode


def joining(number: int, channel: str, since: wire.Stream | None = None) -> Dialogue:
    """Of a client with a user of its own; *since*: it was there before.

    As SDKs do, it subscribes when it knows that it is connected.
    """
    token = jwt.encode({"sub": f"user-{number}"}, SECRET, algorithm="HS256")
    connect = {"id": 1, "connect": {"token": token, "name": "bench"}}
    subscribe: dict[str, object] = {"channel": channel}
    if since is not None:
        subscribe |= {"recover": True, "epoch": since.epoch, "offset": since.offset}
    return [
        (msgspec.json.encode(connect), lambda data: _is_whole(data)),
        (
            msgspec.json.encode({"id": 2, "subscribe": subscribe}),
            lambda data: _is_whole(data),
        ),
    ]


def subscribed(peer: Peer) -> wire.SubscribeResult:
    """What it was answered in the end.  Raises Failed when it was refused."""
    [message] = frames(peer.data)[0]
    reply = _decode(message)
    if reply.id != 2 or reply.subscribe is None:
        raise Failed(f"a client is answered {message[:80]!r}")
    return reply.subscribe


def _is_whole(data: bytes) -> bool:
    return bool(data) and bool(frames(data)[0])
