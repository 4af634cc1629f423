# SPDX-License-Identifier: Apache-2.0
"""Which nodes there are, on a bus that does not know how many receive a message."""

from __future__ import annotations

import asyncio
import contextlib
import time

from zaqar_redis import errors
from zaqar_redis.realtime.bus import Bus

#: The channel on which nodes say that they are there.
PEERS = b"peers"

#: Seconds between two such messages of a node, and after which a silent one counts as gone: it
#: has missed three.
_INTERVAL, _GONE_AFTER = 3.0, 10.0
#: Seconds that a node which starts waits for the others to answer.
_ANSWERS = 0.25
_ASK, _HERE, _LEAVE = b"?", b"!", b"-"


class Peers:
    """The nodes on a bus, this one included."""

    def __init__(self, bus: Bus, node: str) -> None:
        self._bus = bus
        self._node = node.encode()
        #: node -> when it was last heard of
        self._heard: dict[bytes, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Asks the others; does nothing more on a bus that counts itself."""
        if not await self._is_counted(_ASK):
            self._task = asyncio.create_task(self._announce(), name="peers")
            if self._bus.live:
                await asyncio.sleep(_ANSWERS)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._bus.publish(PEERS, _LEAVE + self._node)

    def count(self, node: str = "") -> int:
        """Returns how many nodes there are, or whether there is this one."""
        oldest = time.monotonic() - _GONE_AFTER
        self._heard = {each: at for each, at in self._heard.items() if at > oldest}
        return int(node.encode() in self._heard) if node else len(self._heard)

    def on_message(self, message: bytes) -> None:
        kind, node = message[:1], message[1:]
        if kind == _LEAVE:
            self._heard.pop(node, None)
            return
        self._heard[node] = time.monotonic()
        self.count()  # forgets those that are gone
        if kind == _ASK and node != self._node:
            self._bus.publish(PEERS, _HERE + self._node)

    async def _announce(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            if await self._is_counted(_HERE):
                return

    async def _is_counted(self, kind: bytes) -> bool:
        with contextlib.suppress(errors.Unavailable):
            return await self._bus.send(PEERS, kind + self._node) is not None
        return False
