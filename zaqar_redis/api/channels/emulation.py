# SPDX-License-Identifier: Apache-2.0
"""``POST /emulation``: commands of a client that reads a stream."""

from __future__ import annotations

import msgspec

from zaqar_redis.api.channels.exchange import Exchange, RequestRejected
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.protocol.codec import JSON
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF

#: Characters of a node's id; ours have fewer.
_NODE_MAX = 64


class EmulationHandler:
    def __init__(self, node: Node) -> None:
        self._control_plane = node.control_plane

    async def __call__(self, exchange: Exchange) -> None:
        """Hands commands to a session; its replies go to the stream.

        Raises RequestRejected and Unavailable.
        """
        body = await exchange.body()
        codec = PROTOBUF if exchange.is_binary else JSON
        try:
            request = codec.decode_emulation(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise RequestRejected(400) from error
        if not 0 < len(request.node) <= _NODE_MAX:
            raise RequestRejected(404)
        known = await self._control_plane.frame(request.node, request.session, bytes(request.data))
        await exchange.respond(204 if known else 404)
