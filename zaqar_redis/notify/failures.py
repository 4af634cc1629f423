# SPDX-License-Identifier: Apache-2.0
"""Runs of failures: what subscribers have not taken since they took something last."""

from __future__ import annotations

import time

from msgspec import Struct

from zaqar_redis.records import Subscription

#: Seconds for which a run lasts before the subscription counts as failing, as in failing.lua.
_FAILING_AFTER = 300.0
#: Seconds after the last failure for which it does: then another process may have the queue.
_FAILING_SINCE = 600.0
#: Runs that a process remembers: some megabytes.
_REMEMBERED_MAX = 10_000


class _Run(Struct):
    #: monotonic, when the first and the last attempt failed
    since: float
    last: float
    given_up: int = 0


class FailureRuns:
    """The runs of all subscriptions that a process delivers to, by subscriber."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _Run] = {}

    def note(self, subscription: Subscription) -> None:
        """Notes an attempt that failed."""
        self._run(subscription)

    def note_given_up(self, subscription: Subscription) -> bool:
        """Notes a message that was given up; returns whether it is the first of the run."""
        run = self._run(subscription)
        run.given_up += 1
        return run.given_up == 1

    def end(self, subscription: Subscription) -> int:
        """Ends the run, if there is one; returns how many messages were given up in it."""
        if not self._runs:
            return 0
        run = self._runs.pop((subscription.id, subscription.subscriber), None)
        return 0 if run is None else run.given_up

    def failing(self) -> int:
        """Returns how many subscriptions have got nothing for five minutes."""
        now = time.monotonic()
        return sum(
            each.last - each.since >= _FAILING_AFTER and now - each.last < _FAILING_SINCE
            for each in self._runs.values()
        )

    def _run(self, subscription: Subscription) -> _Run:
        now = time.monotonic()
        run = self._runs.setdefault((subscription.id, subscription.subscriber), _Run(now, now))
        run.last = now
        if len(self._runs) > _REMEMBERED_MAX:
            del self._runs[next(iter(self._runs))]
        return run
