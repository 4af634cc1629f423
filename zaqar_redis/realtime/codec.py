# SPDX-License-Identifier: Apache-2.0
"""Frames: many commands in, many replies out, in JSON or in Protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from zaqar_redis.realtime.wire import Command, ConnectRequest, EmulationRequest, Push, Reply

T = TypeVar("T")


class Inappropriate(Exception):
    """A payload is no JSON, and this format has nothing else."""


class Codec(Protocol):
    """One of the two formats."""

    #: whether frames are bytes rather than text
    binary: bool

    def decode(self, frame: bytes) -> list[Command]:
        """Raises ValueError for what is no frame, and for an empty one."""

    def encode(self, reply: Reply) -> bytes:
        """One that `frame` can put together with others.  Raises Inappropriate."""

    def frame(self, replies: Sequence[bytes]) -> bytes: ...


def _read(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """Raises DecodeError."""
    try:
        return decoder.decode(text)
    except RecursionError as error:  # a filter, or data, nested as deeply as a frame is long
        raise msgspec.DecodeError("nested too deeply") from error


def _refuse(payload: Any) -> Any:
    raise Inappropriate


_encoder = msgspec.json.Encoder(enc_hook=_refuse)


def _written(value: Reply | Push) -> bytes:
    """In one line: frames and events are cut at the ends of lines.

    Only payloads have them, and in JSON they are white space.  Raises Inappropriate.
    """
    text = _encoder.encode(value)
    if b"\n" in text or b"\r" in text:
        return text.translate(None, b"\r\n")
    return text


class Json:
    binary = False

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(Command)
        self._emulated = msgspec.json.Decoder(EmulationRequest)

    def decode(self, frame: bytes) -> list[Command]:
        lines = frame.strip().split(b"\n")
        return [_read(self._decoder, line) for line in lines]

    def encode(self, reply: Reply) -> bytes:
        return _written(reply)

    def frame(self, replies: Sequence[bytes]) -> bytes:
        return b"\n".join(replies)

    def emulated(self, body: bytes) -> EmulationRequest:
        """Its data are in a string.  Raises DecodeError."""
        request = _read(self._emulated, body)
        request.data = Raw(msgspec.json.decode(request.data, type=str).encode())
        return request


class Pushes:
    """For clients that only listen: bare pushes out, a bare request to connect in."""

    binary = False

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(ConnectRequest)

    def decode(self, frame: bytes) -> list[Command]:
        return [Command(id=1, connect=_read(self._decoder, frame))]

    def encode(self, reply: Reply) -> bytes:
        push = reply.push
        if reply.connect is not None:
            push = Push(connect=reply.connect)
        return _written(push or Push())

    def frame(self, replies: Sequence[bytes]) -> bytes:
        return b"\n".join(replies)


JSON = Json()
PUSHES = Pushes()
