# SPDX-License-Identifier: Apache-2.0
"""Tasks report to the driver how many messages they have done, while they run.

Spark itself reports no sooner than the end of a task.  A driver that wants progress sets an
address in a local property of its jobs and receives datagrams there.  They may be lost: they
are for a progress bar, and nothing else.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

from pyspark import TaskContext

#: Local property of jobs whose driver listens: host, port and token, separated by spaces.
PROGRESS_PROPERTY = "zaqar.progress"

#: Seconds between two datagrams of a task: often enough for a progress bar.
_SEND_INTERVAL_SECONDS = 0.5
#: The token, and the number of messages since the last datagram.
_DATAGRAM = struct.Struct("!16sQ")
DATAGRAM_SIZE = _DATAGRAM.size


def read(datagram: bytes, token: bytes) -> int:
    """Returns how many more were done; 0 for a datagram with another token."""
    if len(datagram) != DATAGRAM_SIZE:
        return 0
    found, messages = _DATAGRAM.unpack(datagram)
    return int(messages) if found == token else 0


@contextlib.contextmanager
def report_progress() -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of messages done since the last call."""
    context = TaskContext.get()
    address = None if context is None else context.getLocalProperty(PROGRESS_PROPERTY)
    if address is None:
        yield lambda messages: None
        return
    with contextlib.closing(_ProgressSender(address)) as sender:
        yield sender.advance


class _ProgressSender:
    def __init__(self, address: str) -> None:
        host, port, token = address.split(" ")
        self._address = (host, int(port))
        self._token = bytes.fromhex(token)
        self._socket = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM
        )
        self._unsent = 0
        self._next = 0.0

    def advance(self, messages: int) -> None:
        self._unsent += messages
        now = time.monotonic()
        if self._unsent and now >= self._next:
            self._next = now + _SEND_INTERVAL_SECONDS
            self._send()

    def close(self) -> None:
        self._send()
        self._socket.close()

    def _send(self) -> None:
        if self._unsent:
            # A task that cannot reach the driver does its work all the same.
            with contextlib.suppress(OSError):
                self._socket.sendto(_DATAGRAM.pack(self._token, self._unsent), self._address)
            self._unsent = 0
