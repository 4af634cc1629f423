# SPDX-License-Identifier: Apache-2.0
"""What a project stores: measured now and then, and counted in between.

Nothing is counted in the store itself, so that posting costs the same with quotas and without.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import NamedTuple

from zaqar_redis import errors
from zaqar_redis.keyspace.script import Steps
from zaqar_redis.metrics.definitions import QUOTA_REFUSED
from zaqar_redis.records import PartialPage, Queue, QueueSize, Quota
from zaqar_redis.storage.pools.controllers import RoutedQueues

#: Seconds between two measurements of a project that is in use.
_INTERVAL = 10.0
#: Queues that are measured together: one small write, and a slice of milliseconds for the store.
_PAGE = 100


class StoredUsage(NamedTuple):
    #: and topics
    queues: int = 0
    messages: int = 0
    #: of stored messages
    bytes: int = 0


async def measure(queues: RoutedQueues, project: str) -> tuple[StoredUsage, frozenset[str]]:
    """Reads what a project stores, and which stores cannot be read.

    Of these there is the number of queues only.  Raises Unavailable when nothing can be read.
    """
    number = messages = size = 0
    after, topics = "", False
    away: set[str] = set()
    while True:
        page: PartialPage = await queues.list_partially(project, after, _PAGE, None, topics=topics)
        away.update(page.unavailable)
        for found in await asyncio.gather(*(_size(queues, project, q) for q in page.items)):
            if found is None:
                away.add("")  # one that was lost meanwhile
                continue
            messages += found.messages
            size += found.bytes
        number += len(page.items)
        if len(page.items) == _PAGE:
            after = page.marker
        elif not topics:
            after, topics = "", True
        else:
            return StoredUsage(number, messages, size), frozenset(away - {""} or away)


async def _size(queues: RoutedQueues, project: str, queue: Queue) -> QueueSize | None:
    """Returns None when its store is unavailable."""
    if queue.unavailable:
        return None
    try:
        found: QueueSize = await queues.size(project, queue.name)
    except errors.Unavailable:
        return None
    return found


class UsageMeter:
    """The usage of one project, and its quota; of one worker.

    Between two measurements it counts what this worker lets through, but neither what others
    do nor what is deleted.  Bytes are those of requests then.
    """

    def __init__(self, queues: RoutedQueues, project: str, quota: Quota) -> None:
        """*quota*: all its limits are given."""
        self._queues = queues
        self._project = project
        self._queue_count = self._messages = self._bytes = 0
        #: queues that were added to since the last measurement, and so exist
        self._known: set[str] = set()
        self._is_measured = False
        self._measuring: asyncio.Future[float] | None = None
        self._next_at = 0.0
        #: since the last measurement
        self.was_used = True
        #: stores that the last measurement could not read, and what was known of them
        self.away: frozenset[str] = frozenset()
        self.known_away = StoredUsage()
        self.set_quota(quota)

    def set_quota(self, quota: Quota) -> None:
        """Changes the quota; all its limits are given."""
        self._quota = quota
        self._messages_max = _most(quota.messages)
        self._bytes_max = _most(quota.bytes)

    @property
    def is_due(self) -> bool:
        return self._is_measured and time.monotonic() >= self._next_at

    @property
    def usage(self) -> StoredUsage:
        return StoredUsage(self._queue_count, self._messages, self._bytes)

    async def current(self) -> StoredUsage:
        """Returns the usage, measured at most some seconds ago."""
        if not self._is_measured:
            await self.measure()
        self.was_used = True
        return self.usage

    def add_to_known(self, queue: str, messages: int, size: int) -> bool:
        """Adds messages to a queue that is known to exist, if the quota allows it.

        Returns False, and adds nothing, when `add` must find out more.
        """
        if queue not in self._known:
            return False
        all_messages = self._messages + messages
        all_bytes = self._bytes + size
        if all_messages > self._messages_max or all_bytes > self._bytes_max:
            return False
        self._messages = all_messages
        self._bytes = all_bytes
        return True

    def add(self, queue: str, messages: int = 0, size: int = 0) -> Steps[bool]:
        """Adds messages, and the queue if it does not exist yet; returns whether it does not.

        Raises QuotaExceeded, and adds nothing, when a limit does not allow it.
        """
        if not self._is_measured:
            yield self.measure()
        self.was_used = True
        is_new = False
        if self._quota.queues != -1 and queue not in self._known:
            found = yield self._queues.get(self._project, queue)
            is_new = found is None and queue not in self._known  # others may have been faster
        self._check("queues", self._quota.queues, self._queue_count, int(is_new))
        self._check("messages", self._quota.messages, self._messages, messages)
        self._check("bytes", self._quota.bytes, self._bytes, size)
        self._known.add(queue)
        self._queue_count += is_new
        self._messages += messages
        self._bytes += size
        return is_new

    def take_back(self, queue: str, messages: int, size: int, *, is_new: bool) -> None:
        """Takes back what was added: it was not stored."""
        # A measurement may have ended meanwhile.
        self._messages = max(0, self._messages - messages)
        self._bytes = max(0, self._bytes - size)
        if is_new:
            self._known.discard(queue)
            self._queue_count = max(0, self._queue_count - 1)

    def _check(self, name: str, limit: int | None, used: int, more: int) -> None:
        if limit is not None and more and used + more > _most(limit):
            QUOTA_REFUSED.add(name)
            raise errors.QuotaExceeded(
                quota=name, project=self._project, limit=limit, used=used, more=more
            )

    def measure(self) -> asyncio.Future[float]:
        """Measures the usage; returns the seconds that it took.

        Whoever asks meanwhile shares the measurement.  While a store is unavailable, what was
        known of it counts.
        """
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.ensure_future(self._measure())
        return asyncio.shield(self._measuring)

    async def _measure(self) -> float:
        began = time.monotonic()
        self.was_used = False
        before = self.usage
        try:
            found, away = await measure(self._queues, self._project)
        except errors.Unavailable:
            pass  # the next measurement may succeed
        else:
            if away != self.away:
                self.away, self.known_away = away, StoredUsage()
                if away:  # its queues are in the catalogue
                    messages = max(0, before.messages - found.messages)
                    self.known_away = StoredUsage(0, messages, max(0, before.bytes - found.bytes))
            found = StoredUsage(*map(sum, zip(found, self.known_away, strict=True)))
            # What was let through meanwhile may count twice: rather that than not at all.
            now = self.usage
            self._queue_count = found.queues + max(0, now.queues - before.queues)
            self._messages = found.messages + max(0, now.messages - before.messages)
            self._bytes = found.bytes + max(0, now.bytes - before.bytes)
        finally:
            self._known.clear()
            self._is_measured = True
            ended = time.monotonic()
            self._next_at = ended + _INTERVAL
        return ended - began


def _most(limit: int | None) -> float:
    return math.inf if limit is None or limit < 0 else limit
