# SPDX-License-Identifier: Apache-2.0
"""Clients of channels that see every byte, and what they must see.

Messages of Protobuf are put together by hand, so that neither the service nor an SDK says what is
right.
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

from tests import servers
from tests.realtime.someone import token


class Who(NamedTuple):
    user: str
    client: str


class Peer(abc.ABC):
    """What is the same in both formats.  Data are given as bytes."""

    subprotocol: str

    def __init__(self, service: servers.Service, user: str, **claims: Any) -> None:
        url = f"ws://127.0.0.1:{service.port}/connection/websocket"
        self._connecting = connect(url, subprotocols=[Subprotocol(self.subprotocol)])
        self._user, self._token = user, token(user, **claims)
        self._waiting: list[bytes] = []
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        self._socket = self._connecting.__enter__()
        connected = self.ask("connect", token=self._token)
        self.who = Who(self._user, self.client_of(connected))
        return self

    def __exit__(self, *error: Any) -> None:
        self._connecting.__exit__(*error)

    def ask(self, method: str, **asked: Any) -> bytes:
        """The reply, which is the next thing that is heard."""
        head = self.head(self._say(method, **asked))
        reply = self.next()
        assert reply.startswith(head)
        return reply

    def _say(self, method: str, **asked: Any) -> int:
        number = next(self._ids)
        self._socket.send(self.command(number, method, asked))
        return number

    def next(self) -> bytes:
        """A reply or a push."""
        while not self._waiting:
            self._waiting = self.messages(self._socket.recv(10))
        return self._waiting.pop(0)

    def ends(self, method: str = "", **asked: Any) -> tuple[int, str]:
        """How, when it says that, without another word."""
        if method:
            self._say(method, **asked)
        with pytest.raises(ConnectionClosed) as ended:
            raise AssertionError(self.next())
        close = ended.value.rcvd
        assert close is not None
        return close.code, close.reason

    @abc.abstractmethod
    def client_of(self, connected: bytes) -> str: ...

    @abc.abstractmethod
    def command(self, number: int, method: str, asked: dict[str, Any]) -> bytes | str: ...

    @abc.abstractmethod
    def head(self, number: int) -> bytes: ...

    @abc.abstractmethod
    def messages(self, frame: bytes | str) -> list[bytes]: ...

    @abc.abstractmethod
    def publication(self, data: bytes, time: int, offset: int = 0, by: Who | None = None) -> bytes:
        """As it must be written."""

    @abc.abstractmethod
    def push(self, channel: str, publication: bytes) -> bytes: ...

    @abc.abstractmethod
    def times(self, message: bytes) -> list[int]:
        """Of the publications in it."""

    def hears(self, channel: str, data: bytes, *, offset: int = 0, by: Who | None = None) -> None:
        """Just this publication, and nothing before it."""
        came = self.next()
        (time,) = self.times(came)
        assert came == self.push(channel, self.publication(data, time, offset, by))


class JsonPeer(Peer):
    subprotocol = "centrifuge-json"

    def client_of(self, connected: bytes) -> str:
        return str(json.loads(connected)["connect"]["client"])

    def command(self, number: int, method: str, asked: dict[str, Any]) -> str:
        data = asked.pop("data", None)
        text = json.dumps(asked)
        if data is not None:
            text = f'{text[:-1]},"data":{data.decode()}}}'
        return f'{{"id":{number},"{method}":{text}}}'

    def head(self, number: int) -> bytes:
        return b'{"id":%d,' % number

    def messages(self, frame: bytes | str) -> list[bytes]:
        assert isinstance(frame, str)
        return frame.encode().split(b"\n")

    def publication(self, data: bytes, time: int, offset: int = 0, by: Who | None = None) -> bytes:
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


class ProtobufPeer(Peer):
    subprotocol = "centrifuge-protobuf"

    def client_of(self, connected: bytes) -> str:
        return str(client_pb2.Reply.FromString(connected).connect.client)

    def command(self, number: int, method: str, asked: dict[str, Any]) -> bytes:
        text: bytes = client_pb2.Command(id=number, **{method: asked}).SerializeToString()
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
        by: Who | None = None,
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
    """Of a message of Protobuf; what is nothing is left out."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def _messages(frame: bytes) -> Iterator[bytes]:
    """Each is behind its length."""
    while frame:
        size = shift = 0
        while True:
            byte, frame = frame[0], frame[1:]
            size, shift = size | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        yield frame[:size]
        frame = frame[size:]
