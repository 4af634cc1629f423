# SPDX-License-Identifier: Apache-2.0
"""Pushes that many get."""

from __future__ import annotations

from collections.abc import Callable

from zaqar_redis.realtime import wire
from zaqar_redis.realtime.codec import Codec


def pushed(channel: str, publication: wire.Publication) -> Callable[[Codec], bytes]:
    """A push, encoded when it is needed, once for each codec."""
    known: dict[Codec, bytes] = {}

    def encoded(codec: Codec) -> bytes:
        found = known.get(codec)
        if found is None:
            push = wire.Push(channel=channel, pub=publication)
            found = known[codec] = codec.encode(wire.Reply(push=push))
        return found

    return encoded
