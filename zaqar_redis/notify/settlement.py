# SPDX-License-Identifier: Apache-2.0
"""What a notifier has done for a queue, and has not told the store yet."""

from __future__ import annotations

from typing import Any

from zaqar_redis.storage.deliveries import DeliveryCount, PendingDelivery, SettledDeliveries

#: Deliveries that a step settles at most, and bytes of their messages: some milliseconds of the
#: store's time.
_STEP_MAX, _STEP_BYTES = 1000, 1024 * 1024


class DeliverySettlement:
    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.made: list[str] = []
        self.pending: list[PendingDelivery] = []
        self.failed: list[PendingDelivery] = []
        self.holds: dict[str, int | None] = {}
        self._counts: dict[str, list[Any]] = {}
        #: deliveries
        self.done = 0
        #: one step could not settle it
        self.is_large = False

    def add(self, subscription: str, count: DeliveryCount) -> None:
        totals = self._counts.setdefault(subscription, [0, 0, 0, "", 0])
        totals[0] += count.delivered
        totals[1] += count.failed
        totals[2] += count.retried
        if count.error:
            totals[3:] = count.error, count.status

    def begin_due(self, subscription: str) -> bool:
        """Returns whether what a step says to be due may go on; False: it is to wait again.

        That nothing waits was noted before the step was answered, and must not be told any more.
        """
        if self.holds.get(subscription) is not None:
            return False
        self.holds.pop(subscription, None)
        return True

    @property
    def is_empty(self) -> bool:
        return not (
            self.entries or self.made or self.pending or self.failed or self.holds or self._counts
        )

    def take(self) -> SettledDeliveries:
        """Returns what a step settles.

        What is done is settled with what was stored of it, or after that.
        """
        failed: list[PendingDelivery] = []
        made: list[str] = []
        entries: list[bytes] = []
        pending, self.pending = _split(self.pending)
        if not self.pending:  # some of them may have been given up meanwhile, or made
            failed, self.failed = _split(self.failed)
        if not (self.pending or self.failed):
            made, self.made = self.made[:_STEP_MAX], self.made[_STEP_MAX:]
            entries, self.entries = self.entries[:_STEP_MAX], self.entries[_STEP_MAX:]
        ids = [*self.holds][:_STEP_MAX]
        holds = [(id, self.holds.pop(id)) for id in ids]
        counted = [*self._counts][:_STEP_MAX]
        counts = [(id, DeliveryCount(*self._counts.pop(id))) for id in counted]
        self.done = 0
        self.is_large = not self.is_empty
        return SettledDeliveries(entries, made, pending, failed, holds, counts)

    def put_back(self, settled: SettledDeliveries) -> None:
        """Takes back what a step has not settled."""
        self.entries[:0] = settled.entries
        self.made[:0] = settled.made
        self.pending[:0] = settled.pending
        self.failed[:0] = settled.failed
        for id, until in settled.holds:
            self.holds.setdefault(id, until)
        for id, count in settled.counts:
            self.add(id, count)


def _split(pending: list[PendingDelivery]) -> tuple[list[PendingDelivery], list[PendingDelivery]]:
    """Returns what one step stores, and the rest."""
    number, size = 0, 0
    while number < min(len(pending), _STEP_MAX) and size < _STEP_BYTES:
        size += pending[number].size
        number += 1
    return pending[:number], pending[number:]
