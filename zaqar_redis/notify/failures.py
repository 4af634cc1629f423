# SPDX-License-Identifier: Apache-2.0
"""Runs of failures: what subscribers have not taken since they took something last."""

from __future__ import annotations

import math
import time

from msgspec import Struct

from zaqar_redis.records import Subscription

#: Seconds for which a run lasts before the subscription counts as failing, as in failing.lua.
_FAILING_AFTER = 300.0
#: Seconds after the last failure for which it does: then another process may have the queue.
_FAILING_SINCE = 600.0
#: Seconds from the end of a run to the next line of the log: a subscriber that refuses every
#: second message has a run for each.
_QUIET = 60.0
#: Runs that a process remembers: some megabytes.
_REMEMBERED_MAX = 10_000


class _Run(Struct):
    #: monotonic, when the first and the last attempt failed; inf: the run has ended, or only what
    #: was given up without an attempt has come
    since: float
    last: float
    #: of the last attempt; empty: the run has ended
    error: str = ""
    #: messages that no line of the log has counted
    given_up: int = 0
    #: the log says that messages are given up, and not yet that this has ended
    is_told: bool = False
    #: monotonic, when the log may say so again
    quiet_until: float = 0.0


def _key(subscription: Subscription) -> tuple[str, str]:
    return subscription.id, subscription.subscriber


class FailureRuns:
    """The runs of all subscriptions that a process delivers to, by subscriber."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _Run] = {}

    def note(self, subscription: Subscription, error: str) -> None:
        """Notes an attempt that failed."""
        run = self._runs.get(_key(subscription)) or self._begin(subscription)
        now = time.monotonic()
        run.since, run.last, run.error = min(run.since, now), now, error

    def last_error(self, subscription: Subscription) -> str:
        """Returns that of the last attempt; empty: none has failed since one did not."""
        run = self._runs.get(_key(subscription))
        return run.error if run is not None else ""

    def note_given_up(self, subscription: Subscription) -> bool:
        """Notes a message that was given up, perhaps without an attempt.

        Returns whether the log is to say so.
        """
        run = self._runs.get(_key(subscription)) or self._begin(subscription)
        run.given_up += 1
        if run.is_told or time.monotonic() < run.quiet_until:
            return False
        run.is_told = True
        return True

    def end(self, subscription: Subscription) -> int:
        """Ends the run, if there is one.

        Returns how many messages were given up since the log said last that they are delivered
        again; 0: it has nothing to say.
        """
        run = self._runs.get(_key(subscription)) if self._runs else None
        if run is None:
            return 0
        run.since, run.error = math.inf, ""
        if not run.is_told:
            if not run.given_up:
                del self._runs[_key(subscription)]
            return 0
        number, run.given_up, run.is_told = run.given_up, 0, False
        run.quiet_until = time.monotonic() + _QUIET
        return number

    def failing(self) -> int:
        """Returns how many subscriptions have got nothing for five minutes."""
        now = time.monotonic()
        return sum(
            each.last - each.since >= _FAILING_AFTER and now - each.last < _FAILING_SINCE
            for each in self._runs.values()
        )

    def _begin(self, subscription: Subscription) -> _Run:
        run = self._runs[_key(subscription)] = _Run(math.inf, time.monotonic())
        if len(self._runs) > _REMEMBERED_MAX:
            del self._runs[next(iter(self._runs))]
        return run
