# SPDX-License-Identifier: Apache-2.0
"""redis-py with the article's buffer: a pipeline, flushed by size and by time."""

from __future__ import annotations

import random
import threading

import redis

from benchmarks.bus.redis_py import listen
from benchmarks.bus.sessions import BURST, PublishSession

__all__ = ["listen", "publish"]

#: Messages that wait at most, and seconds that they wait at most: the article's.
_BUFFER_MESSAGES, _FLUSH_SECONDS = 1000, 0.2


class BufferedPublisher:
    """Publishes by a pipeline, from several threads."""

    def __init__(self, client: redis.Redis) -> None:
        self._pipeline = client.pipeline(transaction=False)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._flush_often, daemon=True)
        self._thread.start()

    def publish(self, channel: bytes, payload: bytes) -> None:
        with self._lock:
            self._pipeline.publish(channel, payload)
            if len(self._pipeline) >= _BUFFER_MESSAGES:
                self._pipeline.execute()

    def close(self) -> None:
        """Sends what waits."""
        self._closed.set()
        self._thread.join()
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            self._pipeline.execute()

    def _flush_often(self) -> None:
        while not self._closed.wait(_FLUSH_SECONDS):
            self._flush()


def publish(address: str, session: PublishSession) -> None:
    publisher = BufferedPublisher(redis.Redis.from_url(address))
    channels, payload = session.channels, session.payload
    session.begin()
    while not session.is_over():
        for _ in range(BURST):
            publisher.publish(random.choice(channels), payload)
        session.messages += BURST
    publisher.close()
