# SPDX-License-Identifier: Apache-2.0
"""What a notifier has done for a queue, and has not told the store yet."""

from __future__ import annotations

import asyncio
from typing import Any

from zaqar_redis.storage.deliveries import DeliveryCount, PendingDelivery, SettledDeliveries

#: Deliveries that a step settles at most, and bytes of their messages: some milliseconds of the
#: store's time.
_STEP_MAX, _STEP_BYTES = 1000, 1024 * 1024


class DeliverySettlement:
    def __init__(self) -> None:
        #: set when there is something to settle or to read
        self.wake = asyncio.Event()
        self._entries: list[bytes] = []
        self._made: list[str] = []
        self._pending: list[PendingDelivery] = []
        self._failed: list[PendingDelivery] = []
        self._holds: dict[str, int | None] = {}
        self._counts: dict[str, list[Any]] = {}
        #: deliveries that have ended since the last step
        self.done = 0
        #: one step could not settle it
        self.is_large = False

    def end_entry(self, id: bytes) -> None:
        """Settles an entry: its messages are all delivered, or stored as pending."""
        self._entries.append(id)
        self.wake.set()

    def end_pending(self, id: str) -> None:
        """Settles a pending delivery: it was made, or needs not be made."""
        self._made.append(id)
        self.wake.set()

    def note_done(self) -> None:
        """Counts a delivery that is settled."""
        self.done += 1
        self.wake.set()

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        """Stores a delivery as pending, or as one that is given up."""
        (self._failed if failed else self._pending).append(pending)
        self.wake.set()

    def hold(self, subscription: str, until: int | None) -> None:
        """Notes when what waits for a subscription is due; None: nothing waits."""
        self._holds[subscription] = until
        self.wake.set()

    def count(self, subscription: str, count: DeliveryCount) -> None:
        """Adds to the state of a subscription, which can wait for the next step."""
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
        if self._holds.get(subscription) is not None:
            return False
        self._holds.pop(subscription, None)
        return True

    @property
    def is_empty(self) -> bool:
        waiting = self._entries, self._made, self._pending, self._failed, self._holds, self._counts
        return not any(waiting)

    def take(self) -> SettledDeliveries:
        """Returns what a step settles.

        What is done is settled with what was stored of it, or after that.
        """
        failed: list[PendingDelivery] = []
        made: list[str] = []
        entries: list[bytes] = []
        pending, self._pending = _split(self._pending)
        if not self._pending:  # some of them may have been given up meanwhile, or made
            failed, self._failed = _split(self._failed)
        if not (self._pending or self._failed):
            made, self._made = self._made[:_STEP_MAX], self._made[_STEP_MAX:]
            entries, self._entries = self._entries[:_STEP_MAX], self._entries[_STEP_MAX:]
        ids = [*self._holds][:_STEP_MAX]
        holds = [(id, self._holds.pop(id)) for id in ids]
        counted = [*self._counts][:_STEP_MAX]
        counts = [(id, DeliveryCount(*self._counts.pop(id))) for id in counted]
        self.done = 0
        self.is_large = not self.is_empty
        return SettledDeliveries(entries, made, pending, failed, holds, counts)

    def put_back(self, settled: SettledDeliveries) -> None:
        """Takes back what a step has not settled."""
        self._entries[:0] = settled.entries
        self._made[:0] = settled.made
        self._pending[:0] = settled.pending
        self._failed[:0] = settled.failed
        for id, until in settled.holds:
            self._holds.setdefault(id, until)
        for id, count in settled.counts:
            self.count(id, count)


def _split(pending: list[PendingDelivery]) -> tuple[list[PendingDelivery], list[PendingDelivery]]:
    """Returns what one step stores, and the rest."""
    number, size = 0, 0
    while number < min(len(pending), _STEP_MAX) and size < _STEP_BYTES:
        size += pending[number].size
        number += 1
    return pending[:number], pending[number:]
