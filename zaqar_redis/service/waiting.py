# SPDX-License-Identifier: Apache-2.0
"""Long polling: wait for a queue to have news, holding only memory.

A hint from the store wakes as many claimers as it speaks of messages, the
longest waiting first, and everybody who only reads.  Hints may be lost: a slow
poll, and the time at which a delay ends or a claim lapses, wake a waiter too; of
those who would take messages only the first in line, so that a long line costs
the store no more than a short one.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.storage.driver import Feed


class Answer(Protocol):
    @property
    def due(self) -> int | None:
        """Milliseconds until something may become visible by itself."""


A = TypeVar("A", bound=Answer)

#: Seconds between looks without a hint: what a lost hint costs at most.
_SLOW_POLL = 5.0
#: Seconds between looks when the store gives no hints at all.
_FAST_POLL = 0.25
#: Milliseconds to wait at least: a delay that ends "now" must not make a busy loop.
_SOONEST = 5


class _Waiter:
    __slots__ = ("exclusive", "news")

    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.news = asyncio.Event()


class _Line:
    """Those who wait for one queue, in order of arrival."""

    def __init__(self) -> None:
        self.claimers: OrderedDict[_Waiter, None] = OrderedDict()
        self.readers: OrderedDict[_Waiter, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.claimers) + len(self.readers)

    def of(self, waiter: _Waiter) -> OrderedDict[_Waiter, None]:
        return self.claimers if waiter.exclusive else self.readers

    def is_led_by(self, waiter: _Waiter) -> bool:
        return next(iter(self.claimers), None) is waiter

    def hint(self, count: int) -> None:
        for waiter in self.readers:
            waiter.news.set()
        self.wake(count or len(self.claimers))

    def wake(self, count: int) -> None:
        asleep = (waiter for waiter in self.claimers if not waiter.news.is_set())
        for waiter in islice(asleep, count):
            waiter.news.set()


class Waiting:
    """Bounded by *most* requests in this worker."""

    def __init__(self, feed: Feed | None, most: int) -> None:
        self._feed = feed
        self._most = most
        self._poll = _SLOW_POLL if feed else _FAST_POLL
        self._waiting = 0
        self._lines: dict[tuple[str, str], _Line] = {}
        self._closing = False

    def close(self) -> None:
        """Answer everybody now."""
        self._closing = True
        for line in self._lines.values():
            line.hint(0)

    async def until(
        self,
        look: Callable[[], Awaitable[A]],
        enough: Callable[[A], bool],
        project: str,
        queue: str,
        *,
        seconds: int,
        exclusive: bool,
        gone: asyncio.Event,
    ) -> A:
        """What *look* returns once it is *enough*, or when the time is up.

        *exclusive*: looking takes messages, so one message wakes one waiter.
        *gone* is set when the client has left: then nothing is taken any more.
        Raises TooManyWaiting.
        """
        answer = await look()
        if enough(answer) or not seconds:
            return answer
        if self._waiting >= self._most:
            raise errors.TooManyWaiting
        end = asyncio.get_running_loop().time() + seconds
        waiter = _Waiter(exclusive)
        self._waiting += 1
        line = self._lines.setdefault((project, queue), _Line())
        line.of(waiter)[waiter] = None
        leaving = asyncio.ensure_future(gone.wait())
        leaving.add_done_callback(lambda _: waiter.news.set())
        try:
            if self._feed:  # each one: an earlier attempt may have failed
                await self._feed.watch(project, queue, line.hint)
            while True:
                waiter.news.clear()
                if gone.is_set():
                    return answer
                answer = await look()
                left = end - asyncio.get_running_loop().time()
                if enough(answer) or left <= 0 or self._closing:
                    return answer
                await self._news(waiter, min(left, self._pause(answer, line, waiter)))
        finally:
            leaving.cancel()
            self._waiting -= 1
            self._leave(project, queue, line, waiter)

    def _pause(self, answer: Answer, line: _Line, waiter: _Waiter) -> float:
        if waiter.exclusive and not line.is_led_by(waiter):
            return math.inf
        due = answer.due
        return self._poll if due is None else min(self._poll, max(due, _SOONEST) / 1000)

    async def _news(self, waiter: _Waiter, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await waiter.news.wait()
        except TimeoutError:
            pass

    def _leave(self, project: str, queue: str, line: _Line, waiter: _Waiter) -> None:
        # It was woken and did not look, or it looked for all: the next one shall.
        pass_on = waiter.exclusive and (waiter.news.is_set() or line.is_led_by(waiter))
        del line.of(waiter)[waiter]
        if pass_on:
            line.wake(1)
        if not line:
            self._lines.pop((project, queue), None)
            if self._feed:
                self._feed.unwatch(project, queue, line.hint)
