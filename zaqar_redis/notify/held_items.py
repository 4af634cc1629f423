# SPDX-License-Identifier: Apache-2.0
"""What a lane has in memory, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.items import Item


class HeldItems:
    """Items whose turn comes, in order, and those that are under way: both count."""

    def __init__(self, in_flight: InFlight, items_max: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._items_max = items_max
        self._waiting: deque[Item] = deque()
        self._number = 0
        self._size = 0

    def __bool__(self) -> bool:
        """Whether one waits for its turn."""
        return bool(self._waiting)

    def has_waited_since(self, time: float) -> bool:
        """Whether one that came until that time of the event loop waits for its turn."""
        return any(item.began <= time for item in self._waiting)

    @property
    def is_half_full(self) -> bool:
        if self._number > self._items_max() // 2:
            return True
        return self._number > 0 and self._size > self._in_flight.bytes_max() // 2

    def has_room(self, items: Sequence[Item]) -> bool:
        """Whether all of them may be taken."""
        if self._number + len(items) > self._items_max():
            return False
        if not self._number and len(items) == 1:
            return True
        return self._size + sum(item.size for item in items) <= self._in_flight.bytes_max()

    def take(self, items: Sequence[Item]) -> None:
        """Counts them, until they end."""
        self._in_flight.take(items)
        self._number += len(items)
        self._size += sum(item.size for item in items)

    def end(self, item: Item) -> None:
        """It was made, was stored as pending, or needs not be made."""
        self._number -= 1
        self._size -= item.size
        self._in_flight.end(item)

    def append(self, items: Sequence[Item]) -> None:
        """Has items that it has taken wait for their turn, the last."""
        self._waiting.extend(items)

    def put_first(self, items: Sequence[Item]) -> None:
        """Has them wait for their turn, the first."""
        self._waiting.extendleft(reversed(items))

    def pop(self) -> Item:
        """Returns the first that waits."""
        return self._waiting.popleft()

    def next_chunk(self, most: int, now: int) -> tuple[list[Item], list[Item]]:
        """Returns what goes into one attempt, *most* items, and those before that have expired."""
        waiting = self._waiting
        chunk: list[Item] = []
        expired: list[Item] = []
        while waiting and len(chunk) < most:
            single = waiting[0].is_single
            if chunk and (single or waiting[0].epoch != chunk[0].epoch):
                break
            item = waiting.popleft()
            if item.expires <= now:
                expired.append(item)
                continue
            chunk.append(item)
            if single:
                break
        return chunk, expired
