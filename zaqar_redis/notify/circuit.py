# SPDX-License-Identifier: Apache-2.0
"""A circuit breaker: an endpoint that fails again and again is left in peace for a while."""

from __future__ import annotations

from zaqar_redis.records import Subscription

#: Failures in a row that open the circuit: fewer may be one bad message.
_THRESHOLD = 10
#: Seconds for which it stays open at first; it doubles with each probe that fails.
_FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
#: Circuits that a process remembers: some megabytes.
_REMEMBERED_MAX = 10_000


class Circuit:
    """Closed: attempts are made.  Open: none.  Half-open, after a pause: single ones, as probes."""

    __slots__ = ("_failures", "_pause")

    def __init__(self) -> None:
        self._failures = 0
        self._pause = 0.0

    @property
    def is_closed(self) -> bool:
        return not self._pause

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt has."""
        return bool(self._failures)

    def record_success(self) -> bool:
        """Returns whether this closed it."""
        was_open = bool(self._pause)
        self._failures, self._pause = 0, 0.0
        return was_open

    def record_failure(self) -> float:
        """Returns for how many seconds no attempt is to be made; 0: go on."""
        self._failures += 1
        if self._failures < _THRESHOLD and not self._pause:
            return 0.0
        self._pause = min(LONGEST_PAUSE_SECONDS, 2 * self._pause or _FIRST_PAUSE_SECONDS)
        return self._pause


class FailingCircuits:
    """Circuits of queues that a process does not serve while nothing of them is due: failures in a
    row are counted from one retry to the next."""

    def __init__(self) -> None:
        self._circuits: dict[tuple[str, str], Circuit] = {}

    def take(self, subscription: Subscription) -> Circuit:
        """Returns the one of its subscriber; a closed one, if none is known."""
        return self._circuits.pop((subscription.id, subscription.subscriber), None) or Circuit()

    def put_back(self, subscription: Subscription, circuit: Circuit) -> None:
        """Remembers it, unless all is well; the oldest may be forgotten for it."""
        if circuit.has_failed:
            self._circuits[subscription.id, subscription.subscriber] = circuit
        if len(self._circuits) > _REMEMBERED_MAX:
            del self._circuits[next(iter(self._circuits))]
