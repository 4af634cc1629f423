# SPDX-License-Identifier: Apache-2.0
"""Frames: many commands in, many replies out, in JSON or in Protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from zaqar_redis.realtime.wire import Command, Reply


class Codec(Protocol):
    """One of the two formats."""

    #: whether frames are bytes rather than text
    binary: bool

    def decode(self, frame: bytes) -> list[Command]:
        """Raises ValueError for what is no frame, and for an empty one."""

    def encode(self, reply: Reply) -> bytes:
        """One that `frame` can put together with others."""

    def frame(self, replies: Sequence[bytes]) -> bytes: ...


class Json:
    binary = False

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(Command)

    def decode(self, frame: bytes) -> list[Command]:
        lines = frame.strip().split(b"\n")
        return [self._decoder.decode(line) for line in lines]

    def encode(self, reply: Reply) -> bytes:
        return msgspec.json.encode(reply)

    def frame(self, replies: Sequence[bytes]) -> bytes:
        return b"\n".join(replies)


JSON = Json()
