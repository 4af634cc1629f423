# SPDX-License-Identifier: Apache-2.0
"""Hints that queues have changed, for a thread that does nothing but wait."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Sequence

import redis.client
from redis.exceptions import RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.blocking import BlockingClient

#: Most hints read at once: later ones are reported by the next wait.
_MAX_DRAINED = 10_000
#: Seconds to wait for one of several listeners before the next one: a hint is late by so much.
_TURN_SECONDS = 0.05


class BlockingFeed:
    """Hints about queues in one store."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        #: of each Redis; none: they are opened by the next wait
        self._listeners: Sequence[redis.client.PubSub] = ()
        self._watched: set[bytes] = set()

    def watch(self, project: str, queue: str) -> None:
        """Subscribes to a queue's feed.  Idempotent.  The next `wait` returns at once."""
        feed = keys.of_queue(project, queue).feed
        if feed not in self._watched:
            self._watched.add(feed)
            self.close()

    def wait(self, seconds: float) -> bool:
        """Returns whether queues may have changed: a hint came, or may have been missed."""
        end = time.monotonic() + seconds
        try:
            if self._listeners:
                return self._wait(end)
            self._listeners = self._client.listeners(*self._watched)
        except (RedisError, OSError, errors.Unavailable):
            self.close()
            # A caller that polls the store in a loop must not do so faster for this error.
            time.sleep(max(0.0, end - time.monotonic()))
        return True

    def close(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(RedisError, OSError):
                listener.close()
        self._listeners = ()

    def _wait(self, end: float) -> bool:
        for listener in itertools.cycle(self._listeners):
            left = max(0.0, end - time.monotonic())
            turn = left if len(self._listeners) == 1 else min(left, _TURN_SECONDS)
            if listener.get_message(timeout=turn) is not None:
                break
            if turn == left:
                return False
        for listener in self._listeners:
            for _ in range(_MAX_DRAINED):
                if listener.get_message(timeout=0.0) is None:
                    break
        return True
