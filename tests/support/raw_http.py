# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 byte for byte: what clients send, and what answers are made of."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple

#: Seconds without a byte after which a server counts as hanging.
_HANGS = 60.0

CLIENT = "5b0c7a52-43f6-4a0f-9d0e-0c51f5c3a8a1"


def request(
    method: str,
    path: str,
    project: str = "p",
    body: bytes = b"",
    headers: Iterable[tuple[str, str]] = (),
    version: str = "1.1",
) -> bytes:
    """Returns a request; its Content-Length is left out for an empty body."""
    lines = [f"{method} {path} HTTP/{version}", "Host: h", f"Client-ID: {CLIENT}"]
    lines += [f"X-Project-ID: {project}", *(f"{name}: {value}" for name, value in headers)]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def chunked(*chunks: bytes) -> bytes:
    """Returns a body for ``Transfer-Encoding: chunked``."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


class RawAnswer(NamedTuple):
    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split()[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return dict(line.split(": ", 1) for line in lines)


class RawConnection:
    """One connection to a service; what it reads is kept until it is asked for."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _HANGS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends all of it, unless the server has closed the connection."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def half_close(self) -> None:
        with contextlib.suppress(OSError):  # the server was faster
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self, method: str = "GET") -> RawAnswer:
        """Reads the answer of a request with this method.  Raises EOFError without one."""
        head = self._until(b"\r\n\r\n")
        answer = RawAnswer(head, b"")
        if method == "HEAD" or answer.status in (100, 204):
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            return RawAnswer(head, self._until(b"0\r\n\r\n"))
        return RawAnswer(head, self._exactly(int(answer.headers["content-length"])))

    def ask(self, data: bytes, method: str = "GET") -> RawAnswer:
        self.send(data)
        return self.answer(method)

    def answers(self, count: int) -> list[RawAnswer]:
        return [self.answer() for _ in range(count)]

    def rest(self) -> bytes:
        """Reads until the server closes the connection."""
        return self.until_text(None)

    def until_text(self, text: bytes | None) -> bytes:
        """Reads until the text comes, or the server closes the connection."""
        with contextlib.suppress(EOFError):
            while text is None or text not in self._read:
                self._more()
        data, self._read = self._read, b""
        return data

    def _until(self, end: bytes) -> bytes:
        while (place := self._read.find(end)) < 0:
            self._more()
        return self._exactly(place + len(end))

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._more()
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _more(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:  # closed before it had read everything
            data = b""
        if not data:
            raise EOFError(self._read)
        self._read += data


_CLAIM = rb"(?<![0-9a-f-])[0-9a-f]{32}(?![0-9a-f])"
_EPOCH = rb"(?<![0-9a-f-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}(?=-[0-9a-f]{4}-[0-9a-f]{12})"
_RANDOM = re.compile(rb"%b|%b" % (_CLAIM, _EPOCH))
_VARYING = [
    (re.compile(rb"(?m)^date: .+\r$"), b"date: <date>\r"),
    (re.compile(rb"\breq-[0-9a-f-]{36}"), b"<request id>"),
    (re.compile(rb'"age":\d+'), b'"age":<age>'),
    (re.compile(rb'"created":"[^"]*"'), b'"created":"<created>"'),
    (re.compile(rb'"epoch":"[0-9a-f]{8}"'), b'"epoch":"<epoch>"'),
]


class AnswerNormalizer:
    """Makes equal what two services, or two projects, may answer differently: times, request
    ids, epochs, and random parts of ids, which are numbered in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def __call__(self, answers: bytes) -> bytes:
        for pattern, constant in _VARYING:
            answers = pattern.sub(constant, answers)
        return _RANDOM.sub(self._number, answers)

    def _number(self, match: re.Match[bytes]) -> bytes:
        return b"<id %d>" % self._numbers.setdefault(match[0], len(self._numbers))
