# SPDX-License-Identifier: Apache-2.0
"""The commands with which clients connect, subscribe, and recover."""

from __future__ import annotations

import jwt
import msgspec

from benchmarks.channels.websocket_peers import Dialogue, WebSocketPeer, frames
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.realtime.protocol import wire

SECRET = "a secret that is long enough for HS256"

_decode = msgspec.json.Decoder(wire.Reply).decode


def join_dialogue(
    number: int, channel: str, position: wire.StreamPosition | None = None
) -> Dialogue:
    """Returns the dialogue of a client with a user of its own; it recovers from *position*.

    Like SDKs, it subscribes when its connect command was answered.
    """
    token = jwt.encode({"sub": f"user-{number}"}, SECRET, algorithm="HS256")
    connect = {"id": 1, "connect": {"token": token, "name": "bench"}}
    subscribe: dict[str, object] = {"channel": channel}
    if position is not None:
        subscribe |= {"recover": True, "epoch": position.epoch, "offset": position.offset}
    return [
        (msgspec.json.encode(connect), lambda data: _has_frame(data)),
        (
            msgspec.json.encode({"id": 2, "subscribe": subscribe}),
            lambda data: _has_frame(data),
        ),
    ]


def subscribe_result(peer: WebSocketPeer) -> wire.SubscribeResult:
    """Returns the reply to its subscribe command.  Raises BenchmarkFailed for an error."""
    [message] = frames(peer.data)[0]
    reply = _decode(message)
    if reply.id != 2 or reply.subscribe is None:
        raise BenchmarkFailed(f"a client got the reply {message[:80]!r}")
    return reply.subscribe


def _has_frame(data: bytes) -> bool:
    return bool(data) and bool(frames(data)[0])
