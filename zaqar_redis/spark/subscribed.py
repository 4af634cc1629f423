# SPDX-License-Identifier: Apache-2.0
"""Which queues a reader reads, and between which ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from zaqar_redis import clock, errors
from zaqar_redis.keyspace.client import Refused, printable
from zaqar_redis.records import Top
from zaqar_redis.spark import permissions
from zaqar_redis.spark.options import EARLIEST, FIRST, LAST, Options, Position, Positions
from zaqar_redis.spark.stores import Place, Stores
from zaqar_redis.storage.drivers.redis.ranges import Ranges

#: Seconds between two looks for new queues of a pattern.
_LOOK = 10.0


@dataclass(frozen=True)
class Ends:
    """What a queue holds now."""

    queue: str
    place: Place
    top: Top


class Subscribed:
    """The queues that options name.  Raises BadConfiguration when they do it wrongly."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._stores = stores
        self._pattern = options["subscribePattern"]
        options.one_of("subscribe", "subscribePattern")
        self._names: Sequence[str] = options["subscribe"] or ()
        self._looked = -_LOOK

    def names(self) -> Sequence[str]:
        if self._pattern is not None and time.monotonic() > self._looked + _LOOK:
            self._names = [name for name in self._stores.queues() if self._pattern.fullmatch(name)]
            self._looked = time.monotonic()
        return self._names

    def wants(self, queue: str) -> bool:
        """Whether it would be read, if it were there."""
        if self._pattern is not None:
            return self._pattern.fullmatch(queue) is not None
        return queue in self._names

    def present(self) -> list[Ends]:
        """What is there.

        Raises BadConfiguration when a queue that was named is not, or may not be read.
        """
        found = []
        tried: set[str] = set()
        for queue in self.names():
            ends = self.ends(queue)
            if ends is not None:
                found.append(ends)
                if ends.place.uri not in tried:
                    permissions.check_reading(self._stores, ends.place, queue)
                    tried.add(ends.place.uri)
            elif self._pattern is None:
                raise errors.BadConfiguration(
                    f'option "subscribe": there is no queue "{queue}" in the project '
                    f'"{self._stores.where.project}"'
                )
        return found

    def ends(self, queue: str) -> Ends | None:
        """What the queue holds; None: there is none.

        Raises StoreUnavailable, and BadConfiguration when the store does not let us look.
        """

        def look(place: Place) -> Ends | None:
            ranges = Ranges(self._stores.client(place.uri), clock.store)
            top = ranges.top(self._stores.where.project, queue).run()
            return Ends(queue, place, top) if top is not None else None

        try:
            return self._stores.patiently(queue, look)
        except Refused as error:
            raise errors.BadConfiguration(
                f'option "uri": {printable(self._stores.where.uri)} refuses: {error}'
            ) from error

    def seek(self, ends: Ends, created: int) -> int:
        """The rank of the first message created at this time or later."""

        def look(place: Place) -> int:
            ranges = Ranges(self._stores.client(place.uri), clock.store)
            rank = ranges.seek(self._stores.where.project, ends.queue, created).run()
            return 0 if rank is None else rank

        return self._stores.patiently(ends.queue, look)


def at(positions: Positions, queue: str, otherwise: str) -> Position:
    """Where options say to begin or to end in a queue."""
    given = positions.get(queue) if isinstance(positions, dict) else positions
    if isinstance(given, Position):
        return given
    return Position(None, FIRST if (given or otherwise) == EARLIEST else LAST)


def check_names(name: str, positions: Positions, names: Sequence[str]) -> None:
    """Raises BadConfiguration when positions are given for queues that are not read."""
    odd = sorted(set(positions) - set(names)) if isinstance(positions, dict) else []
    if odd:
        raise errors.BadConfiguration(
            f'option "{name}": {", ".join(odd)} is not among the queues that are read: '
            f"{', '.join(names) or 'none'}"
        )


def rank(position: Position, top: Top) -> int:
    """The rank that a position means in a queue."""
    return {FIRST: top.first, LAST: top.following}.get(position.offset, position.offset)
