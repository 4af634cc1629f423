# SPDX-License-Identifier: Apache-2.0
"""What all sources of a process share: attempts, so many at a time, and memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any

from zaqar_redis.notify.lane import Lane

LOG = logging.getLogger(__name__)

#: Deliveries to stores at a time: more would make others wait for them.
_INTERNAL_ATTEMPTS = 32
#: Bytes of messages in memory: thousands of the largest ones would else be read ahead.
_MEMORY_MAX = 128 * 1024 * 1024
#: A lane takes this part of what is free: so there is always some for others, however many are
#: slow (dynamic thresholds: Choudhury and Hahne, 1998).
_LANE_PART = 8


class DeliverySlots:
    """The attempts of a process: so many at a time, those of stores counted by themselves."""

    def __init__(self, most: int) -> None:
        self._most = {False: most, True: _INTERNAL_ATTEMPTS}
        self._running = {False: 0, True: 0}
        self._waiting: dict[bool, deque[Lane]] = {False: deque(), True: deque()}
        self._tasks: set[asyncio.Task[None]] = set()

    def may_begin(self, lane: Lane) -> bool:
        internal = lane.is_internal
        if self._running[internal] < self._most[internal]:
            return True
        if not lane.waits:
            lane.waits = True
            self._waiting[internal].append(lane)
        return False

    def may_go_on(self, lane: Lane) -> bool:
        return not self._waiting[lane.is_internal]

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None:
        self._running[internal] += 1
        task = asyncio.create_task(attempt, name="delivery")
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, internal))

    def _on_done(self, internal: bool, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._running[internal] -= 1
        if not task.cancelled() and task.exception() is not None:
            LOG.error(
                "a delivery failed", exc_info=task.exception(), extra={"action": "delivery_failed"}
            )
        waiting = self._waiting[internal]
        while waiting and self._running[internal] < self._most[internal]:
            lane = waiting.popleft()
            lane.waits = False
            lane.pump()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class MessageMemory:
    """The messages that a process has in memory, each once."""

    def __init__(self, most: int = _MEMORY_MAX) -> None:
        """*most*: bytes."""
        self._most = most
        #: bytes
        self.used = 0

    @property
    def has_room(self) -> bool:
        """Whether more messages may be read."""
        return self.used < self._most

    @property
    def lane_max(self) -> int:
        """Bytes that one lane may have."""
        return max(0, self._most - self.used) // _LANE_PART

    def take(self, size: int) -> None:
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
