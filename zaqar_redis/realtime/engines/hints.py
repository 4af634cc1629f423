# SPDX-License-Identifier: Apache-2.0
"""Hints that publications were dropped on their way to the bus.

They are in the history.  Nodes that get a hint check the positions of their subscribers, who
recover what they missed.
"""

from __future__ import annotations

import asyncio

from zaqar_redis import runner
from zaqar_redis.realtime.bus import Bus

#: The message on a channel that is a hint.
HINT = b"g"
#: Seconds between attempts to send hints.
_INTERVAL = 0.25
#: Channels that are remembered at most, some megabytes; those beyond are found by the checks that
#: nodes make anyway.
_CHANNELS_MAX = 20_000


class DropHints:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._channels: set[bytes] = set()
        self._task: asyncio.Task[None] | None = None

    def dropped(self, channel: bytes) -> None:
        """Sends a hint on the channel as soon as the bus takes it."""
        if len(self._channels) < _CHANNELS_MAX:
            self._channels.add(channel)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="hints of dropped publications")

    async def stop(self) -> None:
        if self._task is not None:
            await runner.cancel(self._task)

    async def _send(self) -> None:
        while self._channels:
            await asyncio.sleep(_INTERVAL)
            if not self._bus.live:
                continue
            channels, self._channels = self._channels, set()
            for channel in channels:
                self._bus.publish(channel, HINT)  # one that is dropped comes back here
            await asyncio.sleep(_INTERVAL)
