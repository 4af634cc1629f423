# SPDX-License-Identifier: Apache-2.0
"""For how long, and how often, a verb is tried again: at move locks and in outages."""

from __future__ import annotations

import random
import time
from typing import Annotated

from msgspec import Meta, Struct

from zaqar_redis import errors
from zaqar_redis.keyspace.script import Pause

#: Seconds between attempts at a queue that is being moved: a mover at work holds the lock
#: for some milliseconds.
_LOCK_DELAY_SECONDS = 0.02
#: Seconds between attempts at a store that is unavailable, at first and at most.
_OUTAGE_DELAY_SECONDS, _OUTAGE_DELAY_MAX_SECONDS = 0.05, 1.0


class RetryPolicy(Struct, frozen=True):
    """For how long a verb is tried again.  Verbs that are repeated must be idempotent."""

    #: its verb has changed nothing yet
    move_timeout: Annotated[
        float,
        Meta(ge=0.0, le=60.0),
        "Seconds for which a request waits for a queue that is being moved to another pool; then "
        "it gets 503.",
    ] = 1.0
    #: seconds at a store that is unavailable
    outage_timeout: float = 0.0


DEFAULT_RETRY = RetryPolicy()


class Attempts:
    """The attempts at one verb, as long as a `RetryPolicy` allows more."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._begun = time.monotonic()
        self._delay = _OUTAGE_DELAY_SECONDS

    def pause(self, error: errors.Unavailable) -> Pause:
        """Returns the pause before the next attempt.  Raises *error* when it was the last."""
        passed = time.monotonic() - self._begun
        if isinstance(error, errors.MoveLocked):
            if passed > self._policy.move_timeout:
                raise error
            return Pause(_LOCK_DELAY_SECONDS)
        # Jitter: after an outage not all callers come back at once.
        seconds = self._delay * random.uniform(0.5, 1.5)
        if passed + seconds > self._policy.outage_timeout:
            raise error
        self._delay = min(2 * self._delay, _OUTAGE_DELAY_MAX_SECONDS)
        return Pause(seconds)
