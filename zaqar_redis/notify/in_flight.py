# SPDX-License-Identifier: Apache-2.0
"""What a source has in memory: deliveries, and the bytes of their messages."""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis.notify.items import EntryWork, Item
from zaqar_redis.notify.limits import MessageMemory
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.storage.deliveries import DeliveryEntry, PendingDelivery, SettledDeliveries

#: Deliveries in memory: some megabytes, and enough for all attempts of a process.
_OUTSTANDING_MAX = 10_000
#: Of these, of one subscription: enough for ten attempts with batches of 100 while more are read.
_LANE_MAX = 2000
#: Entries that are read at once.
_ENTRIES = 64


class InFlight:
    """Counts what is taken until it ends, each once, and settles it then.

    Nothing else counts: the lanes take their items here, and the memory of the process is asked
    by it alone.
    """

    def __init__(self, settlement: DeliverySettlement, memory: MessageMemory) -> None:
        self._settlement = settlement
        self._memory = memory
        #: deliveries
        self.number = 0
        #: how many lanes share the room
        self.lanes = 0
        #: nothing more is read
        self.is_stopped = False
        #: bytes of messages
        self._size = 0
        self._has_ended = False

    @property
    def has_memory(self) -> bool:
        """Whether more messages may be read: the first ones whatever others have."""
        return not self._size or self._memory.has_room

    def room(self) -> int:
        """Returns how many entries may be read now."""
        most = max(_OUTSTANDING_MAX, 4 * self.lanes)
        if self.is_stopped or self.number >= most or self._settlement.is_large:
            return 0
        if not self._memory.has_room:
            return 0 if self._size else 1
        return max(1, min(_ENTRIES, (most - self.number) // max(1, self.lanes)))

    def items_max(self, *, internal: bool) -> int:
        """Returns how many messages a lane may have."""
        # Internal ones are fast, and many.
        if internal:
            return _LANE_MAX
        return max(1, min(_LANE_MAX, _OUTSTANDING_MAX // (2 * max(1, self.lanes))))

    def bytes_max(self) -> int:
        """Returns how many bytes of messages a lane may have, beside a first message."""
        return self._memory.lane_max

    def begin_entry(self, entry: DeliveryEntry, now: float) -> EntryWork:
        """Takes the messages of an entry, until `end_part`; *now*: the event loop's time."""
        work = EntryWork(entry.id, entry.size, now)
        work.left = 1
        self.take_bytes(work.size)
        return work

    def take(self, items: Sequence[Item]) -> None:
        self.number += len(items)
        for item in items:
            if item.entry is None:
                self.take_bytes(item.size)
            else:
                item.entry.left += 1

    def end(self, item: Item) -> None:
        """Ends a delivery: it was made, was stored as pending, or needs not be made."""
        self.number -= 1
        if item.pending is not None:
            self._settlement.end_pending(item.pending.id)
        if item.entry is None:
            self.give_back_bytes(item.size)
        else:
            self.end_part(item.entry)
        self._settlement.note_done()

    def end_part(self, entry: EntryWork) -> None:
        """Settles an entry as soon as no delivery of it is left."""
        entry.left -= 1
        if not entry.left:
            self.give_back_bytes(entry.size)
            self._settlement.end_entry(entry.id)

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        """Stores a delivery as pending, or as one that is given up, with the next step."""
        self.take_bytes(pending.size)
        self._settlement.store(pending, failed=failed)

    def store_under_way(self, item: Item, pending: PendingDelivery) -> None:
        """Stores a delivery that is under way, so that its entry needs not wait for it."""
        self.store(pending, failed=False)
        entry, item.entry, item.pending = item.entry, None, pending
        if entry is not None:
            self.take_bytes(item.size)
            self.end_part(entry)

    def note_stored(self, settled: SettledDeliveries) -> None:
        """Notes that the store has them."""
        self.give_back_bytes(sum(each.size for each in (*settled.pending, *settled.failed)))

    def take_bytes(self, size: int) -> None:
        if self._has_ended:
            return  # nobody would give it back
        self._size += size
        self._memory.take(size)

    def give_back_bytes(self, size: int) -> None:
        size = min(size, self._size)  # nothing is left when an attempt outlasts its source
        self._size -= size
        self._memory.give_back(size)

    def close(self) -> None:
        """Gives back all memory; what attempts that outlast it have done is nobody's."""
        self.give_back_bytes(self._size)
        self._has_ended = True
