# SPDX-License-Identifier: Apache-2.0
"""What the store has of a lane: deliveries that wait, and when they are due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.target import Result
from zaqar_redis.storage.deliveries import PendingDelivery


class Backlog:
    """Deliveries that wait for one subscription; they are read in the order of their ids."""

    def __init__(
        self, subscription: str, in_flight: InFlight, settlement: DeliverySettlement
    ) -> None:
        self._subscription = subscription
        self._in_flight = in_flight
        self._settlement = settlement
        #: ids of pending deliveries that the lane has, or that the store does not know to be done
        self._read: set[str] = set()
        #: ids of those that the store has not got yet, or as they were before
        self._unstored: set[str] = set()
        #: id of the one that was read last
        self.position = ""
        #: something was added before the position meanwhile
        self._reads_again = False
        #: the store knows when what waits is due
        self.is_due = False

    # -- what is stored ----------------------------------------------------------------------------

    def put_off(self, item: Item, due: int | None, result: Result | None = None) -> None:
        """Stores an item, to be tried at a time of the store; None: with all that waits."""
        base = item.pending or item.new_pending(self._subscription)
        changes: dict[str, Any] = {"attempts": item.attempts, "due": due}
        if result is not None:
            changes |= {"status": result.status, "error": result.error}
        self._in_flight.store(msgspec.structs.replace(base, **changes), failed=False)
        self._unstored.add(base.id)
        self._read.discard(base.id)
        item.pending = None  # it stays

    def keep_failed(self, item: Item, result: Result) -> None:
        """Stores an item as one that is given up, for a replay."""
        pending = item.new_pending(self._subscription, result.status, result.error)
        self._in_flight.store(pending, failed=True)
        item.pending = None  # it stays, as one that failed

    def store_under_way(self, items: Iterable[Item], due: int | None) -> None:
        """Stores items that go on: another notifier makes them if this process dies."""
        for item in items:
            base = item.pending or item.new_pending(self._subscription)
            pending = msgspec.structs.replace(base, attempts=item.attempts, due=due)
            self._read.add(pending.id)
            self._in_flight.store_under_way(item, pending)

    def tell_due(self, until: int | None) -> None:
        """Tells the store when what waits is due; None: nothing is."""
        self.is_due = until is not None
        self._settlement.hold(self._subscription, until)

    def end_due(self) -> None:
        """Nothing is due any more, unless something of it is being delivered: another notifier may
        have to."""
        if self.is_due and not self._read:
            self.tell_due(None)

    # -- what is read ------------------------------------------------------------------------------

    @property
    def first_unstored(self) -> str | None:
        """The first one that the store has not got yet; None: it has all.

        Those behind it are not read before it: they would be delivered before it.
        """
        return min(self._unstored, default=None)

    def begin(self) -> None:
        """Reads from the first one, which is due."""
        self.is_due, self.position = True, ""

    def begin_again(self) -> None:
        """Reads from the first one, when it has read to the last."""
        self._reads_again = True

    def end(self) -> bool:
        """Nothing waits behind the position: returns whether nothing waits at all."""
        if self._reads_again:
            self._reads_again, self.position = False, ""
            return False
        return not self._unstored

    def has(self, id: str) -> bool:
        """Whether the lane has it, or the store is about to get it."""
        return id in self._unstored or id in self._read

    def take(self, id: str) -> None:
        """Notes that the lane has it."""
        self._read.add(id)

    def note_stored(self, pending: PendingDelivery, *, is_reading: bool) -> None:
        """Notes that the store has it; *is_reading*: the lane reads what waits."""
        self._unstored.discard(pending.id)
        if is_reading and pending.due is None and pending.id <= self.position:
            self._reads_again = True

    def forget(self, id: str) -> None:
        """Notes that the store knows what became of it."""
        self._read.discard(id)
