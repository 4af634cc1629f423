# SPDX-License-Identifier: Apache-2.0
"""What a lane knows of the deliveries that wait for it in the store."""

from __future__ import annotations

from zaqar_redis.storage.deliveries import PendingDelivery


class Backlog:
    """Deliveries that wait for one subscription; they are read in the order of their ids."""

    def __init__(self) -> None:
        #: ids of pending deliveries that the lane has, or that the store does not know to be done
        self._read: set[str] = set()
        #: ids of those that the store has not got yet, or as they were before
        self._unstored: set[str] = set()
        #: id of the one that was read last
        self.position = ""
        #: something was added before the position meanwhile
        self._reads_again = False

    @property
    def first_unstored(self) -> str | None:
        """The first one that the store has not got yet; None: it has all.

        Those behind it are not read before it: they would be delivered before it.
        """
        return min(self._unstored, default=None)

    @property
    def is_read(self) -> bool:
        """Whether the lane has some of it."""
        return bool(self._read)

    def begin(self) -> None:
        """Reads from the first one."""
        self.position = ""

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

    def put_back(self, id: str) -> None:
        """Notes that the store is to get it."""
        self._unstored.add(id)
        self._read.discard(id)

    def note_stored(self, pending: PendingDelivery, *, is_reading: bool) -> None:
        """Notes that the store has it; *is_reading*: the lane reads what waits."""
        self._unstored.discard(pending.id)
        if is_reading and pending.due is None and pending.id <= self.position:
            self._reads_again = True

    def forget(self, id: str) -> None:
        """Notes that the store knows what became of it."""
        self._read.discard(id)
