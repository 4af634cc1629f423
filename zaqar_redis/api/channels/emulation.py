# SPDX-License-Identifier: Apache-2.0
"""``POST /emulation``: commands of a client that listens to a stream."""

from __future__ import annotations

import msgspec

from zaqar_redis.api.channels.exchange import Exchange, Refusal
from zaqar_redis.realtime.codec import JSON
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.protobuf import PROTOBUF

#: Characters of a node's id; ours have fewer.
_NODE_MAX = 64


class Emulation:
    def __init__(self, node: Node) -> None:
        self._steering = node.steering

    async def __call__(self, exchange: Exchange) -> None:
        """The answers come by the stream.  Raises Refusal and Unavailable."""
        body = await exchange.body()
        codec = PROTOBUF if exchange.is_binary else JSON
        try:
            sent = codec.emulated(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise Refusal(400) from error
        if not 0 < len(sent.node) <= _NODE_MAX:
            raise Refusal(404)
        known = await self._steering.frame(sent.node, sent.session, bytes(sent.data))
        await exchange.answer(204 if known else 404)
