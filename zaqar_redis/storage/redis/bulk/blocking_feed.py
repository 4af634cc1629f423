# SPDX-License-Identifier: Apache-2.0
"""Hints that queues have changed, for a thread that does nothing but wait."""

from __future__ import annotations

import contextlib
import time

import redis.client
from redis.exceptions import RedisError

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import BlockingClient

#: Most hints read at once: later ones are reported by the next wait.
_MAX_DRAINED = 10_000


class BlockingFeed:
    """Hints about queues in one store."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._listener: redis.client.PubSub | None = None
        self._watched: set[bytes] = set()

    def watch(self, project: str, queue: str) -> None:
        """Subscribes to a queue's feed.  Idempotent.  The next `wait` returns at once."""
        feed = keys.of_queue(project, queue).feed
        if feed not in self._watched:
            self._watched.add(feed)
            if self._listener is not None:
                self._subscribe(self._listener, feed)

    def wait(self, seconds: float) -> bool:
        """Returns whether queues may have changed: a hint came, or may have been missed."""
        end = time.monotonic() + seconds
        if self._listener is None:
            self._listener = self._client.listener()
            self._subscribe(self._listener, *self._watched)
            return True
        try:
            if self._listener.get_message(timeout=max(0.0, end - time.monotonic())) is None:
                return False
            for _ in range(_MAX_DRAINED):
                if self._listener.get_message(timeout=0.0) is None:
                    break
        except (RedisError, OSError):
            self.close()
            # A caller that polls the store in a loop must not do so faster for this error.
            time.sleep(max(0.0, end - time.monotonic()))
        return True

    def close(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(RedisError, OSError):
                self._listener.close()
            self._listener = None

    def _subscribe(self, listener: redis.client.PubSub, *feeds: bytes) -> None:
        try:
            listener.subscribe(*feeds)
        except (RedisError, OSError):
            self.close()
