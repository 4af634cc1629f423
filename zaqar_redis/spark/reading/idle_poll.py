# SPDX-License-Identifier: Apache-2.0
"""An idle stream waits for notifications of its queues, instead of polling all the time.

By itself, Spark polls an idle source a hundred times a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from zaqar_redis.spark.reading.selection import QueueSnapshot
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.redis.bulk.blocking_feed import BlockingFeed

#: Seconds after which queues are polled without a notification: one may be lost, and a
#: queue may have moved.
_MAX_POLL_INTERVAL_SECONDS = 5.0
#: Seconds between two polls, however many notifications there are.
_MIN_POLL_INTERVAL_SECONDS = 0.05
#: Seconds to wait on one store, when there are several.
_STORE_TURN_SECONDS = 0.05


class IdlePoll:
    def __init__(self, stores: StoreConnections, max_wait: float) -> None:
        self._stores = stores
        self._max_wait = max_wait
        self._hints: dict[str, BlockingFeed] = {}
        self._polled_at = 0.0

    def polled(self, found: Iterable[QueueSnapshot]) -> None:
        """Notes that these queues were polled just now, and subscribes to them."""
        self._polled_at = time.monotonic()
        for snapshot in found:
            uri = snapshot.location.uri
            if uri not in self._hints:
                self._hints[uri] = BlockingFeed(self._stores.client(uri))
            self._hints[uri].watch(self._stores.config.project, snapshot.queue)

    def deadline(self) -> float:
        """Returns until when Spark, asking now, gets its answer (monotonic seconds)."""
        return time.monotonic() + self._max_wait

    def wait(self, deadline: float) -> bool:
        """Waits for a notification until *deadline* at most; returns whether to poll again."""
        while True:
            if self._poll_due() or self._wait_for_hint(deadline):
                time.sleep(
                    max(0.0, self._polled_at + _MIN_POLL_INTERVAL_SECONDS - time.monotonic())
                )
                return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        for hints in self._hints.values():
            hints.close()

    def _poll_due(self) -> bool:
        return not self._max_wait or time.monotonic() > self._polled_at + _MAX_POLL_INTERVAL_SECONDS

    def _wait_for_hint(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        turn = left if len(self._hints) == 1 else min(left, _STORE_TURN_SECONDS)
        if not self._hints:
            time.sleep(turn)
        return sum(hints.wait(turn) for hints in self._hints.values()) > 0
