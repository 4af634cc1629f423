# SPDX-License-Identifier: Apache-2.0
"""What all sources of a process share: attempts, so many at a time, and memory."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol

from zaqar_redis import runner

LOG = logging.getLogger(__name__)

#: Deliveries to stores at a time: more would make others wait for them.
_INTERNAL_ATTEMPTS = 32
#: Bytes of messages in memory: thousands of the largest ones would else be read ahead.
_MEMORY_MAX = 128 * 1024 * 1024
#: A lane takes this part of what is free: so there is always some for others, however many are
#: slow (dynamic thresholds: Choudhury and Hahne, 1998).
_LANE_PART = 8
#: Attempts of a project for each one that is free: by itself it may take four fifths of all.
_PROJECT_PART = 4


class WaitingLane(Protocol):
    """What waits for an attempt."""

    project: str
    #: it waits
    waits: bool

    @property
    def is_internal(self) -> bool: ...

    def pump(self) -> None:
        """Begins attempts: there is room."""


class _Share:
    """Attempts of one kind, and who waits for one."""

    def __init__(self, most: int) -> None:
        #: attempts that may begin now; those under way, by project
        self._free = most
        self._running: Counter[str] = Counter()
        #: by project; the one whose turn is next is the first
        self.waiting: dict[str, deque[WaitingLane]] = {}

    def has_room(self, project: str) -> bool:
        return self._running[project] < _PROJECT_PART * self._free

    def change(self, project: str, by: int) -> None:
        self._free -= by
        self._running[project] += by
        if not self._running[project]:
            del self._running[project]

    def wait(self, lane: WaitingLane) -> None:
        if not lane.waits:
            lane.waits = True
            self.waiting.setdefault(lane.project, deque()).append(lane)

    def serve(self) -> None:
        """Pumps a lane of each project that may begin an attempt."""
        for project in [*self.waiting]:
            running = self._running[project]
            # One that has nothing to do any more, or whose store is away, leaves its turn.
            while (
                self.has_room(project)
                and self._running[project] <= running
                and (lanes := self.waiting.pop(project, None))
            ):
                lane = lanes.popleft()
                if lanes:
                    self.waiting[project] = lanes  # behind the others
                lane.waits = False
                lane.pump()


class DeliverySlots:
    """The attempts of a process: so many at a time, those of stores counted by themselves.

    A project takes a part of what is free, so there is always some for others, however slow its
    subscribers are.
    """

    def __init__(self, most: int) -> None:
        self._shares = {False: _Share(most), True: _Share(_INTERNAL_ATTEMPTS)}
        self._tasks: set[asyncio.Task[None]] = set()

    def may_begin(self, lane: WaitingLane) -> bool:
        share = self._shares[lane.is_internal]
        if share.has_room(lane.project):
            return True
        share.wait(lane)
        return False

    def may_go_on(self, lane: WaitingLane) -> bool:
        return not self._shares[lane.is_internal].waiting

    @property
    def waiting(self) -> int:
        """How many subscriptions wait for an attempt."""
        return sum(len(lanes) for each in self._shares.values() for lanes in each.waiting.values())

    def begin(self, attempt: Coroutine[Any, Any, None], project: str, *, internal: bool) -> None:
        share = self._shares[internal]
        share.change(project, +1)
        task = asyncio.create_task(attempt, name="delivery")
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, share, project))

    def _on_done(self, share: _Share, project: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        share.change(project, -1)
        if not task.cancelled() and task.exception() is not None:
            LOG.error(
                "a delivery failed", exc_info=task.exception(), extra={"action": "delivery_failed"}
            )
        share.serve()

    async def wait(self, seconds: float) -> bool:
        """Waits for attempts that are under way; returns whether all have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        return all(task.done() for task in self._tasks)

    async def close(self) -> None:
        await runner.cancel(*self._tasks)


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
