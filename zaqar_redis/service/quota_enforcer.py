# SPDX-License-Identifier: Apache-2.0
"""The quotas of all projects, as one worker enforces them.

Requests are counted here alone: each worker gives a project an equal share of its rate, by how
many workers there are.  Sockets are counted here, and workers tell each other how many they have.
What is stored is measured (`service.usage`).  So quotas hold approximately.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable

from zaqar_redis import errors, runner
from zaqar_redis.metrics.definitions import QUOTA_REFUSED
from zaqar_redis.records import Quota
from zaqar_redis.service.quotas import QuotaSettings
from zaqar_redis.service.usage import StoredUsage, UsageMeter
from zaqar_redis.storage.control import Quotas
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

#: Seconds between reports: a changed quota counts in every worker after as many.
_REPORT_INTERVAL = 2.0
#: Seconds for which a worker counts after its last report: two of them may be lost.
_WORKER_TTL = 3 * _REPORT_INTERVAL
#: Seconds between looks for usage that is to be measured.
_LOOK_INTERVAL = 1.0
#: Of the time that a worker measures usage, at most one part in so many: the rest is a pause.
_MEASURING_SHARE = 20
#: Seconds for which a bucket saves up: clients send in bursts.
_BURST_SECONDS = 1.0
#: Seconds until a bucket without a rate is to be tried again: its rate may have changed.
_CLOSED_SECONDS = 60.0


class TokenBucket:
    """Full at first.

    It looks at the clock only when it is empty, for that costs as much as all else: so it may let
    through at once what it has, and what it has saved up since it was filled last.
    """

    __slots__ = ("_filled_at", "_now", "_rate", "_size", "tokens")

    def __init__(self, rate: float, now: Callable[[], float]) -> None:
        """*rate*: tokens a second.  *now*: the clock, in seconds."""
        self._now = now
        self._filled_at = now()
        self.tokens = 0.0
        self.set_rate(rate)
        self.tokens = self._size

    def set_rate(self, rate: float) -> None:
        """Changes the rate; what was saved up stays, as far as it fits."""
        self._rate = rate
        # A low rate lets single requests through, too.
        self._size = max(1.0, rate * _BURST_SECONDS) if rate > 0 else 0.0
        self.tokens = min(self.tokens, self._size)

    def take(self) -> float:
        """Takes a token and returns 0.0, or returns the seconds until there is one."""
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        now = self._now()
        tokens = min(self._size, self.tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if tokens >= 1.0:
            self.tokens = tokens - 1.0
            return 0.0
        self.tokens = tokens
        return (1.0 - tokens) / self._rate if self._rate > 0 else _CLOSED_SECONDS

    def is_full(self) -> bool:
        """Returns whether the bucket is as good as a new one."""
        return self.tokens + (self._now() - self._filled_at) * self._rate >= self._size


class QuotaEnforcer:
    def __init__(
        self,
        driver: PooledDriver,
        store: Quotas,
        defaults: QuotaSettings,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*now*: returns seconds, for the rates of requests."""
        self._queues = driver.queues
        self._store = store
        self._defaults = defaults
        self._now = now
        self._worker = uuid.uuid4().hex
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._version: int | None = None
        #: live workers, this one included
        self._workers = 1
        #: of projects without a quota of their own
        self._default = defaults.completed(None)
        #: of the others, with all limits given
        self._quotas: dict[str, Quota] = {}
        #: of projects that sent requests a moment ago
        self._buckets: dict[str, TokenBucket] = {}
        #: of projects that stored something a moment ago
        self.meters: dict[str, UsageMeter] = {}
        self._sockets: Counter[str] = Counter()
        #: those of the other workers, by their last reports
        self._other_sockets: Counter[str] = Counter()
        self._note_limited()

    async def start(self) -> None:
        """Reads the quotas, and begins to report.  Goes on when the store is unavailable."""
        await self.report()
        self._tasks = (
            asyncio.create_task(self._keep_reporting(), name="quotas"),
            asyncio.create_task(self._keep_measuring(), name="usage"),
        )

    async def close(self) -> None:
        await runner.cancel(*self._tasks)

    def quota(self, project: str) -> Quota:
        """Returns the quota of a project, with all limits given."""
        return self._quotas.get(project, self._default)

    # Requests

    def check_request(self, project: str) -> None:
        """Counts a request.  Raises TooManyRequests."""
        bucket = self._buckets.get(project)
        if bucket is not None and bucket.tokens >= 1.0:  # as `take`, without a call
            bucket.tokens -= 1.0
            return
        if bucket is None:
            rate = self._share(project)
            if rate is None:
                return
            bucket = self._buckets[project] = TokenBucket(rate, self._now)
        seconds = bucket.take()
        if seconds:
            QUOTA_REFUSED.add("requests")
            raise errors.TooManyRequests(
                project=project, limit=self.quota(project).requests, seconds=math.ceil(seconds)
            )

    def _share(self, project: str) -> float | None:
        """Returns the requests a second that this worker may let through; None: any number."""
        limit = self.quota(project).requests or 0
        return None if limit < 0 else limit / self._workers

    # What is stored

    def meter(self, project: str) -> UsageMeter | None:
        """Returns the meter of a project whose quota limits what it stores; None: it does not."""
        meter = self.meters.get(project)
        if meter is not None:
            return meter
        quota = self.quota(project)
        return self._add_meter(project, quota) if _limits_storage(quota) else None

    async def usage(self, project: str) -> StoredUsage:
        """Returns what a project stores, by a measurement some seconds ago.

        Whoever asks often is given the same.
        """
        meter = self.meters.get(project) or self._add_meter(project, self.quota(project))
        return await meter.current()

    def _add_meter(self, project: str, quota: Quota) -> UsageMeter:
        meter = self.meters[project] = UsageMeter(self._queues, project, quota)
        return meter

    # Sockets

    def sockets(self, project: str) -> int:
        """Returns how many sockets a project has open, at all workers."""
        return self._sockets[project] + self._other_sockets[project]

    def add_socket(self, project: str) -> None:
        limit = self.quota(project).sockets
        used = self.sockets(project)
        if limit is not None and 0 <= limit <= used:
            QUOTA_REFUSED.add("sockets")
            raise errors.QuotaExceeded(
                quota="sockets", project=project, limit=limit, used=used, more=1
            )
        self._sockets[project] += 1

    def remove_socket(self, project: str) -> None:
        self._sockets[project] -= 1
        if not self._sockets[project]:
            del self._sockets[project]

    # In the background

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_INTERVAL)
            try:
                await self.report()
            except Exception:  # the service goes on, and the next report may succeed
                LOG.exception("cannot read the quotas", extra={"action": "quotas_failed"})
            for project in [each for each, bucket in self._buckets.items() if bucket.is_full()]:
                del self._buckets[project]

    async def report(self) -> None:
        """Reports to the other workers, and reads the quotas if they have changed."""
        try:
            news = await self._store.report(
                self._worker, _WORKER_TTL, dict(self._sockets), self._version
            )
        except errors.Unavailable:
            return  # what is known holds on
        self._version = news.version
        self._workers = 1 + len(news.others)
        self._other_sockets = Counter()
        for sockets in news.others:
            self._other_sockets.update(sockets)
        if news.quotas is not None:
            self._quotas = {
                project: self._defaults.completed(own) for project, own in news.quotas.items()
            }
            self._note_limited()
            for project, meter in self.meters.items():
                meter.set_quota(self.quota(project))
        for project, bucket in [*self._buckets.items()]:
            rate = self._share(project)
            if rate is None:
                del self._buckets[project]
            else:
                bucket.set_rate(rate)

    def _note_limited(self) -> None:
        """Notes what is limited for any project: nobody looks for other limits."""
        quotas = (self._default, *self._quotas.values())
        self.limits_requests = any(quota.requests != -1 for quota in quotas)
        self.limits_storage = any(map(_limits_storage, quotas))

    async def _keep_measuring(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_INTERVAL)
            for project, meter in [*self.meters.items()]:
                if not meter.is_due:
                    continue
                if not meter.was_used and not any(meter.known_away):
                    del self.meters[project]  # measured again before it is used again
                    continue
                try:
                    seconds = await meter.measure()
                except Exception:  # e.g. a user without the right to a command
                    LOG.exception("cannot measure usage", extra={"action": "measuring_failed"})
                    continue
                await asyncio.sleep(seconds * (_MEASURING_SHARE - 1))


def _limits_storage(quota: Quota) -> bool:
    return not quota.queues == quota.messages == quota.bytes == -1
