# SPDX-License-Identifier: Apache-2.0
"""An idle stream waits for news of its queues, instead of asking for them all the time.

Left alone, Spark asks an idle source a hundred times a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from zaqar_redis.spark.stores import Stores
from zaqar_redis.spark.subscribed import Ends
from zaqar_redis.storage.drivers.redis.hints import Hints

#: Seconds after which queues are looked at although nothing was heard: a hint may be
#: lost, and a queue may have moved.
_SLOW_POLL = 5.0
#: Seconds between two looks, however much is heard.
_GAP = 0.05
#: Seconds to listen to one store, when there are several.
_TURN = 0.05


class Waiting:
    def __init__(self, stores: Stores, patience: float) -> None:
        self._stores = stores
        self._patience = patience
        self._hints: dict[str, Hints] = {}
        self._looked = 0.0

    def looked(self, found: Iterable[Ends]) -> None:
        """These were looked at just now, and are what to listen to."""
        self._looked = time.monotonic()
        for ends in found:
            uri = ends.place.uri
            if uri not in self._hints:
                self._hints[uri] = Hints(self._stores.client(uri))
            self._hints[uri].watch(self._stores.where.project, ends.queue)

    def end(self) -> float:
        """When Spark is to be told that there is nothing, who asks now (monotonic)."""
        return time.monotonic() + self._patience

    def news(self, end: float) -> bool:
        """Whether to look again, after waiting for a reason to until *end* at most."""
        while True:
            if self._is_due() or self._heard(end):
                time.sleep(max(0.0, self._looked + _GAP - time.monotonic()))
                return True
            if time.monotonic() >= end:
                return False

    def close(self) -> None:
        for hints in self._hints.values():
            hints.close()

    def _is_due(self) -> bool:
        return not self._patience or time.monotonic() > self._looked + _SLOW_POLL

    def _heard(self, end: float) -> bool:
        left = max(0.0, end - time.monotonic())
        turn = left if len(self._hints) == 1 else min(left, _TURN)
        if not self._hints:
            time.sleep(turn)
        return sum(hints.wait(turn) for hints in self._hints.values()) > 0
