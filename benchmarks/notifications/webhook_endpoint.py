# SPDX-License-Identifier: Apache-2.0
"""An endpoint of webhooks in a process of its own, which does as little as an endpoint can.

It answers each request with 204 as soon as it has read the body, keeps connections, and counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
import re
import signal
import socket
import time
from multiprocessing.sharedctypes import RawValue
from typing import Any, cast

import uvloop

from tests.support import servers

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
#: Once in each message that Zaqar writes, of a batch as well.
_MESSAGE = b'"body":'


class WebhookCounts(ctypes.Structure):
    """What has arrived; times of the monotonic clock, in seconds."""

    _fields_ = (
        ("requests", ctypes.c_uint64),
        ("messages", ctypes.c_uint64),
        ("first", ctypes.c_double),
        ("last", ctypes.c_double),
    )


class WebhookEndpoint204:
    """A handle of the process, which ends with the stack."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        # A lock would cost more than the rest: one process writes, and others read.
        self.counts = cast(Any, RawValue(WebhookCounts))
        port = servers.free_port()
        self.url = f"http://127.0.0.1:{port}/"
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve, args=(port, self.counts), daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(process.kill)
        assert process.pid
        self.pid = process.pid
        servers.wait_for(lambda: _listens(port), "the endpoint listens")

    def reset(self) -> None:
        """Begins to count anew; nothing may be under way."""
        ctypes.memset(ctypes.addressof(self.counts), 0, ctypes.sizeof(self.counts))

    def seconds(self) -> float:
        """Returns the time from the first request to the last."""
        return float(self.counts.last - self.counts.first)

    def wait_for(self, messages: int, until: float) -> bool:
        """Waits until so many have arrived, or that time has come; returns whether they have."""
        while self.counts.messages < messages:
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True


class _EndpointProtocol(asyncio.Protocol):
    def __init__(self, counts: Any) -> None:
        self._counts = counts
        self._read = b""
        #: bytes of the request that is being read; 0: its head is not complete
        self._whole = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._read = self._read + data if self._read else data
        if not self._whole:
            head = self._read.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(self._read, 0, head)
            self._whole = head + 4 + (int(length[1]) if length else 0)
        if len(self._read) >= self._whole:
            self._count()
            self._read, self._whole = b"", 0
            self._transport.write(_ANSWER)

    def _count(self) -> None:
        counts = self._counts
        counts.last = time.monotonic()
        if not counts.requests:
            counts.first = counts.last
        counts.requests += 1
        counts.messages += self._read.count(_MESSAGE)


def _serve(port: int, counts: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is not for it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _EndpointProtocol(counts), "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(serve())


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
