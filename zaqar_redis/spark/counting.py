# SPDX-License-Identifier: Apache-2.0
"""Tasks tell the driver how many messages they have done, while they do them.

Spark itself knows when a task has ended, and no sooner.  A driver that wants to know names
an address in a local property of its jobs; it gets datagrams there, which may be lost: they
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
PROPERTY = "zaqar.progress"

#: Seconds between two datagrams of a task: as often as anybody looks.
_GAP = 0.5
#: The token, and how many more.
_DATAGRAM = struct.Struct("!16sQ")
SIZE = _DATAGRAM.size


def read(datagram: bytes, token: bytes) -> int:
    """How many more were done; of a datagram of somebody else, none."""
    if len(datagram) != SIZE:
        return 0
    found, messages = _DATAGRAM.unpack(datagram)
    return int(messages) if found == token else 0


@contextlib.contextmanager
def counting(address: str | None = None) -> Iterator[Callable[[int], None]]:
    """A function to be called with how many messages were done just now.

    *address* is that of the property, which a task finds by itself.
    """
    context = TaskContext.get()
    if address is None and context is not None:
        address = context.getLocalProperty(PROPERTY)
    if address is None:
        yield lambda messages: None
        return
    counter = _Counter(address)
    try:
        yield counter.did
    finally:
        counter.close()


class _Counter:
    def __init__(self, address: str) -> None:
        host, port, token = address.split(" ")
        self._address = (host, int(port))
        self._token = bytes.fromhex(token)
        self._socket = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM
        )
        self._untold = 0
        self._next = 0.0

    def did(self, messages: int) -> None:
        self._untold += messages
        now = time.monotonic()
        if self._untold and now >= self._next:
            self._next = now + _GAP
            self._tell()

    def close(self) -> None:
        self._tell()
        self._socket.close()

    def _tell(self) -> None:
        if self._untold:
            # Whoever cannot reach the driver so does its work all the same.
            with contextlib.suppress(OSError):
                self._socket.sendto(_DATAGRAM.pack(self._token, self._untold), self._address)
            self._untold = 0
