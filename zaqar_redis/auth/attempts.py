# SPDX-License-Identifier: Apache-2.0
"""Slows down who guesses secrets."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

#: Failed attempts in a minute that a program with a wrong secret may make.
_ATTEMPTS_MAX, _WINDOW = 10, 60.0
#: Seconds of the longest refusal: those who know the secret are refused as well.
_REFUSAL_MAX = 60.0
#: Keys whose failed attempts are remembered: some 1 MB.
_KEYS_MAX = 4096


class _Failures(Struct):
    since: float
    count: int = 0
    refused_until: float = 0.0

    def ends(self) -> float:
        """Returns when they are forgotten."""
        return max(self.since, self.refused_until) + _WINDOW


class AttemptLimiter:
    """Refuses a key after ten failed attempts in a minute.

    At first for a second; each further failure doubles that, up to a minute.  A minute without
    one ends it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """*clock* returns seconds."""
        self._clock = clock
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def refusal(self, key_id: str) -> float:
        """Returns for how many seconds the key is refused; 0: it is not."""
        found = self._failures.get(key_id)
        return 0.0 if found is None else max(0.0, found.refused_until - self._clock())

    def add_failure(self, key_id: str) -> int:
        """Returns how many failed attempts are remembered of this key, with this one."""
        now = self._clock()
        found = self._failures.pop(key_id, None)
        if found is None or now > found.ends():
            found = _Failures(now)
        found.count += 1
        if found.count >= _ATTEMPTS_MAX:
            seconds = min(2.0 ** (found.count - _ATTEMPTS_MAX), _REFUSAL_MAX)
            found.refused_until = now + seconds
        self._failures[key_id] = found
        if len(self._failures) > _KEYS_MAX:
            self._failures.popitem(last=False)
        return found.count
