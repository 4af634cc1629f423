# SPDX-License-Identifier: Apache-2.0
"""Many websockets in one process, as cheap as they can be: what is measured is a server.

No loop of tasks and no library: sockets, one epoll, and as little of RFC 6455 as servers
that behave need.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from zaqar_redis.bench.service import Failed

#: Bytes read at a time: a turn of a busy server, for one client.
_READ = 1 << 18
#: Seconds for something to arrive while clients connect.
_PATIENCE = 60.0
#: A lost connection, not one that was closed: no wait for the other end.
_ABRUPT = struct.pack("ii", 1, 0)
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
#: Of our protocol.
_PING = b"\x81\x02{}"
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="

#: What a client says, if anything, and whether all that came since is the answer to it.
Step = tuple[bytes, Callable[[bytes], bool]]
#: All that a client says until it is ready.
Dialogue = Sequence[Step]


class Peer:
    """One of them.  *data*: what came and was not made use of yet."""

    __slots__ = ("data", "dialogue", "number", "socket", "step")

    def __init__(self, number: int, dialogue: Dialogue) -> None:
        self.number = number
        self.dialogue = dialogue
        self.step = -1
        self.data = b""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)

    def say(self, text: bytes) -> None:
        self.socket.sendall(framed(text))

    def answer_ping(self) -> bool:
        """Whether one has come."""
        if not self.data.endswith(_PING):
            return False
        self.data = self.data.removesuffix(_PING)
        self.say(b"{}")
        return True


class Crowd:
    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._upgrade = _UPGRADE.format(path=path, port=port, key=_KEY).encode()
        self._epoll = select.epoll()
        self.peers: dict[int, Peer] = {}

    def grow(self, dialogues: Sequence[Dialogue], at_once: int) -> list[Peer]:
        """Connect so many, at most *at_once* of them that are not ready yet at a time.

        Returned is each with the answer to its last words.  Raises Failed.
        """
        made: list[Peer] = []
        ready = 0
        while ready < len(dialogues):
            while len(made) < len(dialogues) and len(made) - ready < at_once:
                made.append(self._connected(Peer(len(made), dialogues[len(made)])))
            before = time.monotonic()
            for peer in self.poll(_PATIENCE):
                ready += self._goes_on(peer)
            if time.monotonic() - before >= _PATIENCE:
                raise Failed(f"{len(dialogues) - ready} clients wait for an answer")
        return made

    def _connected(self, peer: Peer) -> Peer:
        peer.socket.connect(("127.0.0.1", self._port))
        peer.socket.sendall(self._upgrade)
        self.peers[peer.socket.fileno()] = peer
        self._epoll.register(peer.socket, select.EPOLLIN)
        return peer

    def _goes_on(self, peer: Peer) -> bool:
        """Whether it has just said all."""
        if peer.step == len(peer.dialogue):
            peer.answer_ping()
            return False
        if peer.step < 0:
            answered = b"\r\n\r\n" in peer.data
            if answered and b" 101 " not in peer.data[:20]:
                raise Failed(f"a client is refused: {peer.data[:80]!r}")
        else:
            answered = peer.dialogue[peer.step][1](peer.data)
        if not answered:
            return False
        peer.step += 1
        if peer.step == len(peer.dialogue):
            return True
        peer.data = peer.data.partition(b"\r\n\r\n")[2] if peer.step == 0 else b""
        words, _ = peer.dialogue[peer.step]
        if words:
            peer.say(words)
            return False
        return self._goes_on(peer)

    def poll(self, seconds: float) -> Iterator[Peer]:
        """Those with more data, as soon as there is any.  Raises Failed for one that is closed."""
        peers = self.peers
        for number, _ in self._epoll.poll(seconds):
            peer = peers[number]
            data = peer.socket.recv(_READ)
            if not data:
                raise Failed(f"a client is closed: {peer.data[-80:]!r}")
            peer.data = peer.data + data if peer.data else data
            yield peer

    def close(self) -> None:
        """Lose all connections at once."""
        for peer in self.peers.values():
            peer.socket.close()
        self.peers.clear()
        self._epoll.close()


def framed(text: bytes) -> bytes:
    """One message of a client; its mask is zeros, so that nothing has to be masked."""
    size = len(text)
    if size < 126:
        return struct.pack("!BBI", 0x81, 0x80 | size, 0) + text
    return struct.pack("!BBHI", 0x81, 0x80 | 126, size, 0) + text


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The messages of a server, and what is no whole frame yet."""
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


def raise_limit(files: int) -> None:
    """Of this process, and of those it starts from now on.  Raises Failed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise Failed(f"{files} files are needed, and {hard} are allowed (RLIMIT_NOFILE)")
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
