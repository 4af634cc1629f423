# SPDX-License-Identifier: Apache-2.0
"""Many WebSocket clients in one process, as cheap as possible: the server is measured.

No asyncio and no library: sockets, one epoll, and only those parts of RFC 6455 that are
needed with a well-behaved server.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Bytes read at a time: what a busy server writes to one client in an iteration of its loop.
_READ = 1 << 18
#: Timeout without any data while clients connect.
_ANSWER_TIMEOUT_SECONDS = 60.0
#: SO_LINGER of 0: closing resets the connection, as if it were lost.
_ABRUPT = struct.pack("ii", 1, 0)
_UPGRADE = (
    "GET /connection/websocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
#: A ping of the client protocol, as a frame.
_PING = b"\x81\x02{}"
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="

#: A message to send, and whether the data since then is the whole reply.
Step = tuple[bytes, Callable[[bytes], bool]]
#: All messages that a client sends until it is ready.
Dialogue = Sequence[Step]


class WebSocketPeer:
    """One client.  *data*: received and not yet used."""

    __slots__ = ("data", "dialogue", "number", "socket", "step")

    def __init__(self, number: int, dialogue: Dialogue) -> None:
        self.number = number
        self.dialogue = dialogue
        self.step = -1
        self.data = b""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)

    def send(self, text: bytes) -> None:
        self.socket.sendall(encode_frame(text))

    def answer_ping(self) -> bool:
        """Answers a ping at the end of the data; returns whether there was one."""
        if not self.data.endswith(_PING):
            return False
        self.data = self.data.removesuffix(_PING)
        self.send(b"{}")
        return True


class WebSocketPeers:
    def __init__(self, port: int) -> None:
        self._port = port
        self._upgrade = _UPGRADE.format(port=port, key=_KEY).encode()
        self._epoll = select.epoll()
        self.peers: dict[int, WebSocketPeer] = {}

    def connect(self, dialogues: Sequence[Dialogue], at_once: int) -> list[WebSocketPeer]:
        """Connects a client per dialogue, with at most *at_once* of them not yet ready.

        Returns the clients, each with the reply to its last message in *data*.  Raises
        BenchmarkFailed when one is refused or gets no reply.
        """
        connected: list[WebSocketPeer] = []
        ready = 0
        while ready < len(dialogues):
            while len(connected) < len(dialogues) and len(connected) - ready < at_once:
                peer = WebSocketPeer(len(connected), dialogues[len(connected)])
                connected.append(self._connect(peer))
            before = time.monotonic()
            for peer in self.poll(_ANSWER_TIMEOUT_SECONDS):
                ready += self._advance(peer)
            if time.monotonic() - before >= _ANSWER_TIMEOUT_SECONDS:
                raise BenchmarkFailed(f"{len(dialogues) - ready} clients wait for an answer")
        return connected

    def _connect(self, peer: WebSocketPeer) -> WebSocketPeer:
        peer.socket.connect(("127.0.0.1", self._port))
        peer.socket.sendall(self._upgrade)
        self.peers[peer.socket.fileno()] = peer
        self._epoll.register(peer.socket, select.EPOLLIN)
        return peer

    def _advance(self, peer: WebSocketPeer) -> bool:
        """Sends the client's next message; returns whether it has just become ready."""
        if peer.step == len(peer.dialogue):
            peer.answer_ping()
            return False
        if peer.step < 0:
            answered = b"\r\n\r\n" in peer.data
            if answered and b" 101 " not in peer.data[:20]:
                raise BenchmarkFailed(f"a client was refused: {peer.data[:80]!r}")
        else:
            answered = peer.dialogue[peer.step][1](peer.data)
        if not answered:
            return False
        peer.step += 1
        if peer.step == len(peer.dialogue):
            return True
        peer.data = b""
        peer.send(peer.dialogue[peer.step][0])
        return False

    def poll(self, seconds: float) -> Iterator[WebSocketPeer]:
        """Yields clients with new data, as soon as there is any.

        Raises BenchmarkFailed for a client whose connection was closed.
        """
        peers = self.peers
        for number, _ in self._epoll.poll(seconds):
            peer = peers[number]
            data = peer.socket.recv(_READ)
            if not data:
                raise BenchmarkFailed(f"a connection was closed: {peer.data[-80:]!r}")
            peer.data = peer.data + data if peer.data else data
            yield peer

    def close(self) -> None:
        """Resets all connections at once."""
        for peer in self.peers.values():
            peer.socket.close()
        self.peers.clear()
        self._epoll.close()


def encode_frame(text: bytes) -> bytes:
    """Returns a message as a client's frame; its mask is zeros, so nothing has to be masked."""
    size = len(text)
    if size < 126:
        return struct.pack("!BBI", 0x81, 0x80 | size, 0) + text
    return struct.pack("!BBHI", 0x81, 0x80 | 126, size, 0) + text


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Returns the messages of a server's complete frames, and the data behind them."""
    found: list[bytes] = []
    at = 0
    while len(data) >= at + 2:
        size, head = data[at + 1], 2
        if size == 126:
            head, size = 4, int.from_bytes(data[at + 2 : at + 4])
        elif size == 127:
            head, size = 10, int.from_bytes(data[at + 2 : at + 10])
        if len(data) < at + head + size:
            break
        found.append(data[at + head : at + head + size])
        at += head + size
    return found, data[at:]


def raise_open_files_limit(files: int) -> None:
    """Raises the limit of this process, and of those it starts from now on.

    Raises BenchmarkFailed when *files* is above the hard limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise BenchmarkFailed(f"{files} files are needed, and {hard} are allowed (RLIMIT_NOFILE)")
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
