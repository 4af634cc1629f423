# SPDX-License-Identifier: Apache-2.0
"""Frames: many commands in, many replies out, in JSON or in Protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from zaqar_redis.realtime.protocol.wire import (
    Command,
    ConnectRequest,
    EmulationRequest,
    Push,
    Reply,
)

T = TypeVar("T")


class InappropriatePayload(Exception):
    """A payload is not JSON, and this format supports nothing else."""


class Codec(Protocol):
    """The encoding of frames in one format."""

    #: whether frames are bytes rather than text
    binary: bool

    def decode(self, frame: bytes) -> list[Command]:
        """Raises ValueError for an invalid or empty frame."""

    def encode(self, reply: Reply) -> bytes:
        """Returns a reply that `frame` can join with others.  Raises InappropriatePayload."""

    def frame(self, replies: Sequence[bytes]) -> bytes: ...


def _decode(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """Raises DecodeError."""
    try:
        return decoder.decode(text)
    except RecursionError as error:  # a filter, or data, nested as deeply as a frame is long
        raise msgspec.DecodeError("nested too deeply") from error


def _reject_binary(payload: Any) -> Any:
    raise InappropriatePayload


_encoder = msgspec.json.Encoder(enc_hook=_reject_binary)


def _encode_line(value: Reply | Push) -> bytes:
    """Encodes in one line: frames and events are split at line ends.

    Only payloads contain line ends, and in JSON they are white space.  Raises
    InappropriatePayload.
    """
    text = _encoder.encode(value)
    if b"\n" in text or b"\r" in text:
        return text.translate(None, b"\r\n")
    return text


class JsonCodec:
    binary = False
    _decoder = msgspec.json.Decoder(Command)
    _emulated = msgspec.json.Decoder(EmulationRequest)

    def decode(self, frame: bytes) -> list[Command]:
        lines = frame.strip().split(b"\n")
        return [_decode(self._decoder, line) for line in lines]

    def encode(self, reply: Reply) -> bytes:
        return _encode_line(reply)

    def frame(self, replies: Sequence[bytes]) -> bytes:
        return b"\n".join(replies)

    def decode_emulation(self, body: bytes) -> EmulationRequest:
        """Decodes a request whose data are in a string.  Raises DecodeError."""
        request = _decode(self._emulated, body)
        request.data = Raw(msgspec.json.decode(request.data, type=str).encode())
        return request


class UniJsonCodec(JsonCodec):
    """The codec of unidirectional clients: bare pushes out, a bare connect request in."""

    _connect = msgspec.json.Decoder(ConnectRequest)

    def decode(self, frame: bytes) -> list[Command]:
        return [Command(id=1, connect=_decode(self._connect, frame))]

    def encode(self, reply: Reply) -> bytes:
        push = reply.push
        if reply.connect is not None:
            push = Push(connect=reply.connect)
        return _encode_line(push or Push())


JSON = JsonCodec()
UNI_JSON = UniJsonCodec()
