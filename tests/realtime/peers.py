# SPDX-License-Identifier: Apache-2.0
"""Protocol clients that check every byte that they receive.

Protobuf messages are built by hand, so that the expectation depends on neither the service
nor an SDK.
"""

from __future__ import annotations

import abc
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import pytest
from centrifuge.protocol import client_pb2
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.realtime.sdk_client import token
from tests.support import servers


class PeerIdentity(NamedTuple):
    user: str
    client: str


class ProtocolPeer(abc.ABC):
    """A client of either format; data are bytes."""

    subprotocol: str

    def __init__(self, service: servers.RunningService, user: str, **claims: Any) -> None:
        url = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self._connecting = connect(url, subprotocols=[Subprotocol(self.subprotocol)])
        self._user, self._token = user, token(user, **claims)
        self._waiting: list[bytes] = []
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        self._socket = self._connecting.__enter__()
        connected = self.request("connect", token=self._token)
        self.identity = PeerIdentity(self._user, self.client_of(connected))
        return self

    def __exit__(self, *error: Any) -> None:
        self._connecting.__exit__(*error)

    def request(self, method: str, **params: Any) -> bytes:
        """Sends a command; returns its reply, which must be the next message."""
        head = self.head(self._send(method, **params))
        reply = self.next()
        assert reply.startswith(head)
        return reply

    def _send(self, method: str, **params: Any) -> int:
        number = next(self._ids)
        self._socket.send(self.command(number, method, params))
        return number

    def next(self) -> bytes:
        """Returns the next reply or push."""
        while not self._waiting:
            self._waiting = self.messages(self._socket.recv(60))
        return self._waiting.pop(0)

    def expect_close(self, method: str = "", **params: Any) -> tuple[int, str]:
        """Returns code and reason of the close, which must be the next thing to come."""
        if method:
            self._send(method, **params)
        with pytest.raises(ConnectionClosed) as ended:
            raise AssertionError(self.next())
        close = ended.value.rcvd
        assert close is not None
        return close.code, close.reason

    @abc.abstractmethod
    def client_of(self, connected: bytes) -> str: ...

    @abc.abstractmethod
    def command(self, number: int, method: str, params: dict[str, Any]) -> bytes | str: ...

    @abc.abstractmethod
    def head(self, number: int) -> bytes: ...

    @abc.abstractmethod
    def messages(self, frame: bytes | str) -> list[bytes]: ...

    @abc.abstractmethod
    def publication(
        self, data: bytes, time: int, offset: int = 0, by: PeerIdentity | None = None
    ) -> bytes:
        """Returns the encoded publication."""

    @abc.abstractmethod
    def push(self, channel: str, publication: bytes) -> bytes: ...

    @abc.abstractmethod
    def times(self, message: bytes) -> list[int]:
        """Returns the times of the publications in *message*."""

    def expect_publication(
        self, channel: str, data: bytes, *, offset: int = 0, by: PeerIdentity | None = None
    ) -> None:
        """Checks that the next message is exactly this publication."""
        message = self.next()
        (time,) = self.times(message)
        assert message == self.push(channel, self.publication(data, time, offset, by))


class JsonPeer(ProtocolPeer):
    subprotocol = "centrifuge-json"

    def client_of(self, connected: bytes) -> str:
        return str(json.loads(connected)["connect"]["client"])

    def command(self, number: int, method: str, params: dict[str, Any]) -> str:
        data = params.pop("data", None)
        text = json.dumps(params)
        if data is not None:
            text = f'{text[:-1]},"data":{data.decode()}}}'
        return f'{{"id":{number},"{method}":{text}}}'

    def head(self, number: int) -> bytes:
        return b'{"id":%d,' % number

    def messages(self, frame: bytes | str) -> list[bytes]:
        assert isinstance(frame, str)
        return frame.encode().split(b"\n")

    def publication(
        self, data: bytes, time: int, offset: int = 0, by: PeerIdentity | None = None
    ) -> bytes:
        parts = [b'"data":' + data] if data else []
        if by is not None:
            parts.append('"info":{{"user":"{}","client":"{}"}}'.format(*by).encode())
        if offset:
            parts.append(b'"offset":%d' % offset)
        return b"{%b}" % b",".join([*parts, b'"time":%d' % time])

    def push(self, channel: str, publication: bytes) -> bytes:
        return b'{"push":{"channel":"%b","pub":%b}}' % (channel.encode(), publication)

    def times(self, message: bytes) -> list[int]:
        return [int(time) for time in re.findall(rb'"time":(\d+)', message)]


class ProtobufPeer(ProtocolPeer):
    subprotocol = "centrifuge-protobuf"

    def client_of(self, connected: bytes) -> str:
        return str(client_pb2.Reply.FromString(connected).connect.client)

    def command(self, number: int, method: str, params: dict[str, Any]) -> bytes:
        text: bytes = client_pb2.Command(id=number, **{method: params}).SerializeToString()
        return _varint(len(text)) + text

    def head(self, number: int) -> bytes:
        return field(1, number)

    def messages(self, frame: bytes | str) -> list[bytes]:
        assert isinstance(frame, bytes)
        return list(_messages(frame))

    def publication(
        self,
        data: bytes,
        time: int,
        offset: int = 0,
        by: PeerIdentity | None = None,
        *,
        delta: bool = False,
    ) -> bytes:
        info = b"".join(field(n, each.encode()) for n, each in enumerate(by or (), 1))
        return field(4, data) + field(5, info) + field(6, offset) + field(8, delta) + field(9, time)

    def push(self, channel: str, publication: bytes) -> bytes:
        return field(4, field(2, channel.encode()) + field(4, publication))

    def times(self, message: bytes) -> list[int]:
        reply = client_pb2.Reply.FromString(message)
        found = [*reply.history.publications, *reply.subscribe.publications]
        return [each.time for each in found or [reply.push.pub]]


def field(number: int, value: bytes | int) -> bytes:
    """Returns an encoded Protobuf field; default values are omitted."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def _messages(frame: bytes) -> Iterator[bytes]:
    """Yields length-prefixed messages."""
    while frame:
        size = shift = 0
        while True:
            byte, frame = frame[0], frame[1:]
            size, shift = size | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        yield frame[:size]
        frame = frame[size:]
