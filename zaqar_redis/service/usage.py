# SPDX-License-Identifier: Apache-2.0
"""What a project stores: measured now and then, and counted in between.

Nothing is counted in the store itself, so that posting costs the same with quotas and without.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from zaqar_redis import errors
from zaqar_redis.keyspace.script import Steps
from zaqar_redis.records import Quota
from zaqar_redis.storage.contract import Queues

#: Seconds between two measurements of a project that is in use.
_INTERVAL = 10.0
#: Queues that are measured together: one small write, and a slice of milliseconds for the store.
_PAGE = 100


class StoredUsage(NamedTuple):
    queues: int = 0
    messages: int = 0
    #: of stored messages
    bytes: int = 0

    def plus(self, more: StoredUsage) -> StoredUsage:
        return StoredUsage(
            self.queues + more.queues, self.messages + more.messages, self.bytes + more.bytes
        )

    def minus(self, less: StoredUsage) -> StoredUsage:
        """Returns the difference, without negative numbers."""
        return StoredUsage(
            max(0, self.queues - less.queues),
            max(0, self.messages - less.messages),
            max(0, self.bytes - less.bytes),
        )


async def measure(queues: Queues, project: str) -> StoredUsage:
    """Reads what a project stores.  Raises StoreUnavailable."""
    number = messages = size = 0
    after = ""
    while True:
        page = await queues.list(project, after, _PAGE, None)
        for found in await asyncio.gather(*(queues.size(project, q.name) for q in page.items)):
            messages += found.messages
            size += found.bytes
        number += len(page.items)
        if len(page.items) < _PAGE:
            return StoredUsage(number, messages, size)
        after = page.marker


class UsageMeter:
    """The usage of one project, and its quota; of one worker.

    Between two measurements it counts what this worker lets through, but neither what others
    do nor what is deleted.
    """

    def __init__(self, queues: Queues, project: str, quota: Quota) -> None:
        """*quota*: all its limits are given."""
        self._queues = queues
        self._project = project
        self.quota = quota
        self.usage = StoredUsage()
        #: let through since the measurement began that is running now, or was the last one
        self._since = StoredUsage()
        #: queues that existed after the last measurement
        self._known: set[str] = set()
        self._is_measured = False
        self._measuring: asyncio.Future[float] | None = None
        self._next_at = 0.0
        #: since the last measurement
        self.was_used = True

    @property
    def is_due(self) -> bool:
        return self._is_measured and time.monotonic() >= self._next_at

    async def current(self) -> StoredUsage:
        """Returns the usage, measured at most some seconds ago."""
        self.was_used = True
        if not self._is_measured:
            await self.measure()
        return self.usage

    def charge(self, queue: str, messages: int = 0, size: int = 0) -> Steps[StoredUsage]:
        """Adds messages, and a queue if it does not exist yet; returns what was added.

        Raises QuotaExceeded, and adds nothing, when a limit does not allow it.
        """
        self.was_used = True
        if not self._is_measured:
            yield self.measure()
        is_new = 0
        if self.quota.queues != -1 and queue not in self._known:
            is_new = int((yield self._queues.get(self._project, queue)) is None)
            if queue in self._known:  # another request was faster
                is_new = 0
        quota, usage = self.quota, self.usage
        self._check("queues", quota.queues, usage.queues, is_new)
        self._check("messages", quota.messages, usage.messages, messages)
        self._check("bytes", quota.bytes, usage.bytes, size)
        if quota.queues != -1:
            self._known.add(queue)
        added = StoredUsage(is_new, messages, size)
        self.usage, self._since = usage.plus(added), self._since.plus(added)
        return added

    def refund(self, queue: str, added: StoredUsage) -> None:
        """Takes back what `charge` has added: it was not stored."""
        # A measurement that began meanwhile may not have counted it.
        self.usage, self._since = self.usage.minus(added), self._since.minus(added)
        if added.queues:
            self._known.discard(queue)

    def _check(self, name: str, limit: int | None, used: int, more: int) -> None:
        if limit is not None and 0 <= limit < used + more and more:
            raise errors.QuotaExceeded(
                quota=name, project=self._project, limit=limit, used=used, more=more
            )

    def measure(self) -> asyncio.Future[float]:
        """Measures the usage; returns the seconds that it took.

        Whoever asks meanwhile shares the measurement.  What a store that is unavailable has is
        as it was known, or nothing.
        """
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.ensure_future(self._measure())
        return asyncio.shield(self._measuring)

    async def _measure(self) -> float:
        began = time.monotonic()
        self.was_used, self._since = False, StoredUsage()
        try:
            # What is let through meanwhile may count twice: rather that than not at all.
            found = await measure(self._queues, self._project)
            self.usage = found.plus(self._since)
            self._known.clear()
        except errors.Unavailable:
            pass  # the next measurement may succeed
        finally:
            self._is_measured = True
            ended = time.monotonic()
            self._next_at = ended + _INTERVAL
        return ended - began
