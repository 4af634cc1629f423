# SPDX-License-Identifier: Apache-2.0
"""Long polling: requests wait for messages in a queue, and hold only memory.

A hint from the store wakes as many claimers as it counts messages, the longest
waiting first, and every reader.  Hints may be lost: a slow poll, and the time at
which a delay or a claim ends, wake a waiter too; of the claimers only the first
in line, so that a long line costs the store no more than a short one.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from itertools import islice
from typing import TypeVar

from zaqar_redis import errors
from zaqar_redis.records import ClaimResult, Message, Page
from zaqar_redis.service.requests_in_flight import RequestsInFlight
from zaqar_redis.storage.watched import Feed

PollResult = Page[Message] | ClaimResult
A = TypeVar("A", bound=PollResult)

#: Seconds between polls without a hint: what a lost hint costs at most.
_SLOW_POLL = 5.0
#: Seconds between polls when the store gives no hints at all.
_FAST_POLL = 0.25
#: Milliseconds to wait at least: a delay that ends "now" must not make a busy loop.
_MIN_WAIT_MS = 5


class _Waiter:
    __slots__ = ("exclusive", "wakeup")

    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.wakeup = asyncio.Event()


class _WaitQueue:
    """The waiters of one queue, in order of arrival."""

    def __init__(self) -> None:
        self.claimers: OrderedDict[_Waiter, None] = OrderedDict()
        self.readers: OrderedDict[_Waiter, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.claimers) + len(self.readers)

    def waiters_like(self, waiter: _Waiter) -> OrderedDict[_Waiter, None]:
        return self.claimers if waiter.exclusive else self.readers

    def is_first(self, waiter: _Waiter) -> bool:
        return next(iter(self.claimers), None) is waiter

    def hint(self, count: int) -> None:
        for waiter in self.readers:
            waiter.wakeup.set()
        self.wake(count or len(self.claimers))

    def wake(self, count: int) -> None:
        asleep = (waiter for waiter in self.claimers if not waiter.wakeup.is_set())
        for waiter in islice(asleep, count):
            waiter.wakeup.set()


class LongPoll:
    """Waiting requests of this worker, *max_waiting* of them at most."""

    def __init__(
        self, feed: Feed | None, max_waiting: int, in_flight: RequestsInFlight | None = None
    ) -> None:
        """*in_flight*: counts the requests; None: nobody does."""
        self._feed = feed
        self._in_flight = in_flight
        self._max_waiting = max_waiting
        self._poll = _SLOW_POLL if feed else _FAST_POLL
        self._waiting_count = 0
        self._wait_queues: dict[tuple[str, str], _WaitQueue] = {}
        self._closing = False

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting_count

    def close(self) -> None:
        """Ends all waits: every request is answered now."""
        self._closing = True
        for wait_queue in self._wait_queues.values():
            wait_queue.hint(0)

    async def poll(
        self,
        fetch: Callable[[], Awaitable[A]],
        is_satisfied: Callable[[A], bool],
        project: str,
        queue: str,
        *,
        seconds: int,
        exclusive: bool,
        disconnected: asyncio.Event,
    ) -> A:
        """Returns a result of *fetch* that satisfies, or the last one after *seconds*.

        *exclusive*: fetching claims messages, so one message wakes one waiter.
        *disconnected* is set when the client has left: then nothing more is fetched.
        Raises TooManyLongPolls.
        """
        result = await fetch()
        if is_satisfied(result) or not seconds:
            return result
        if self._waiting_count >= self._max_waiting:
            raise errors.TooManyLongPolls
        end = asyncio.get_running_loop().time() + seconds
        waiter = _Waiter(exclusive)
        self._waiting_count += 1
        wait_queue = self._wait_queues.setdefault((project, queue), _WaitQueue())
        wait_queue.waiters_like(waiter)[waiter] = None
        disconnect_task = asyncio.ensure_future(disconnected.wait())
        disconnect_task.add_done_callback(lambda _: waiter.wakeup.set())
        try:
            if self._feed:  # every waiter does: an earlier attempt may have failed
                await self._feed.watch(project, queue, wait_queue.hint)
            while True:
                waiter.wakeup.clear()
                if disconnected.is_set():
                    return result
                result = await fetch()
                left = end - asyncio.get_running_loop().time()
                if is_satisfied(result) or left <= 0 or self._closing:
                    return result
                pause = min(left, self._pause(result, wait_queue, waiter))
                with self._in_flight.waiting(project) if self._in_flight else nullcontext():
                    await self._wait(waiter, pause)
        finally:
            disconnect_task.cancel()
            self._waiting_count -= 1
            self._leave(project, queue, wait_queue, waiter)

    def _pause(self, result: PollResult, wait_queue: _WaitQueue, waiter: _Waiter) -> float:
        if waiter.exclusive and not wait_queue.is_first(waiter):
            return math.inf
        next_visible_ms = result.next_visible_ms
        return (
            self._poll
            if next_visible_ms is None
            else min(self._poll, max(next_visible_ms, _MIN_WAIT_MS) / 1000)
        )

    async def _wait(self, waiter: _Waiter, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await waiter.wakeup.wait()
        except TimeoutError:
            pass

    def _leave(self, project: str, queue: str, wait_queue: _WaitQueue, waiter: _Waiter) -> None:
        # It was woken and did not fetch, or it was the one that polls: wake the next one.
        pass_on = waiter.exclusive and (waiter.wakeup.is_set() or wait_queue.is_first(waiter))
        del wait_queue.waiters_like(waiter)[waiter]
        if pass_on:
            wait_queue.wake(1)
        if not wait_queue:
            self._wait_queues.pop((project, queue), None)
            if self._feed:
                self._feed.unwatch(project, queue, wait_queue.hint)
