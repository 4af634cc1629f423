# SPDX-License-Identifier: Apache-2.0
"""A reader of very many messages of one queue, by rank, as they are stored.

Plain commands: for pages that are only read, Redis returns bodies twice as fast as
through a script.  A page holds what was in the queue at some moment during the read, and
belongs to the requested epoch of the queue, or is refused.

Replicas are asked if the client has some (`BatchSettings.read_replicas`): for what they have all
of, though it may be claimed or deleted meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.records import MoveLock

#: In a range with fewer messages than this part of its ranks, the ranks are read first.
_DENSE = 0.5


class EpochChanged(Exception):
    """The queue was deleted, or created again, or is in another store now."""


@dataclass(frozen=True)
class RangeFields:
    """The optional fields of messages that a reader wants."""

    #: claims: who holds it, until when, how often it was claimed
    holds: bool = False
    #: when its delay ends
    delays: bool = False


@dataclass(frozen=True)
class RawPage:
    #: the store's time, ms
    now: int
    ranks: Sequence[int]
    #: None: the message does not exist any more
    envelopes: Sequence[bytes | None]
    #: by message, see lua/shared/hold.lua; None: not requested, or no message has one
    holds: Sequence[bytes | None] | None
    #: by message, the end of the claim that holds it, ms
    held_until: Sequence[bytes | None] | None
    #: by message, the end of its delay, ms; None as above
    delayed_until: Sequence[bytes | None] | None


def count_range(client: BlockingClient, project: str, queue: str, start: int, end: int) -> int:
    """Counts messages from the rank *start* to before *end*."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).messages, start, f"({end}")
    return int(found)


def ranks_at(
    client: BlockingClient, project: str, queue: str, start: int, places: Sequence[int]
) -> list[int]:
    """Returns the ranks of messages, by their positions among those from *start* on."""
    messages = keys.of_queue(project, queue).messages
    before = client.command("ZCOUNT", messages, "-inf", f"({start}")
    found = client.commands(
        *[("ZRANGE", messages, before + place, before + place) for place in places]
    )
    return [int(ranks[0]) for ranks in found if ranks]


def count_claimable(client: BlockingClient, project: str, queue: str, end: int) -> int:
    """Counts claimable messages before the rank *end*, as far as that is settled."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).ready, "-inf", f"({end}")
    return int(found)


class RangeReader:
    def __init__(self, client: BlockingClient, project: str, queue: str, epoch: str) -> None:
        self._client = client
        self._replicas = client.replicas
        self._keys = keys.of_queue(project, queue)
        self._epoch = epoch.encode()
        #: the last of the range that is read
        self._last_rank = 0

    def pages(self, start: int, end: int, size: int, content: RangeFields) -> Iterator[RawPage]:
        """Yields messages from the rank *start* to before *end*, up to *size* at once, in order.

        Raises EpochChanged, MoveLocked and StoreUnavailable; pages yielded before stay
        valid, and reading may go on behind them.
        """
        at = start
        self._last_rank = end - 1
        dense, content = self._probe(start, end, content)
        while at < end:
            if dense:
                ranks: Sequence[int] = range(at, min(at + size, end))
                at += len(ranks)
            else:
                ranks = self._ranks(at, end, size)
                at = ranks[-1] + 1 if len(ranks) == size else end
            if ranks:
                yield self._page(ranks, content)

    def _probe(self, start: int, end: int, content: RangeFields) -> tuple[bool, RangeFields]:
        """Returns whether most ranks have a message, and which of the content can exist."""
        known = self._keys
        count, has_holds, has_delays = self._checked(
            ("ZCOUNT", known.messages, start, f"({end}"),
            ("EXISTS", known.holds),
            ("EXISTS", known.delayed),
        )
        present = RangeFields(
            holds=content.holds and bool(has_holds), delays=content.delays and bool(has_delays)
        )
        return count >= _DENSE * (end - start), present

    def _ranks(self, start: int, end: int, size: int) -> Sequence[int]:
        (found,) = self._checked(
            ("ZRANGEBYSCORE", self._keys.messages, start, f"({end}", "LIMIT", 0, size)
        )
        return [int(rank) for rank in found]

    def _page(self, ranks: Sequence[int], content: RangeFields) -> RawPage:
        known = self._keys
        commands: list[tuple[bytes | str | int, ...]] = [
            ("TIME",),
            ("HMGET", known.bodies, *ranks),
        ]
        if content.holds:
            commands += [("HMGET", known.holds, *ranks), ("ZMSCORE", known.claimed, *ranks)]
        if content.delays:
            commands.append(("ZMSCORE", known.delayed, *ranks))
        time, envelopes, *rest = self._checked(*commands)
        return RawPage(
            now=int(time[0]) * 1000 + int(time[1]) // 1000,
            ranks=ranks,
            envelopes=envelopes,
            holds=rest[0] if content.holds else None,
            held_until=rest[1] if content.holds else None,
            delayed_until=rest[-1] if content.delays else None,
        )

    def _checked(self, *commands: tuple[bytes | str | int, ...]) -> list[Any]:
        if self._replicas is not None:
            with contextlib.suppress(EpochChanged, errors.Unavailable, CommandRefused):
                # First: a replica that gave the rank before has all messages up to it.
                rank, *answers = self._ask(
                    self._replicas, ("HGET", self._keys.queue, "rank"), *commands
                )
                if int(rank or 0) >= self._last_rank:
                    return answers
            # For the rest of the range: it would cost a trip, or a timeout, for each page.
            self._replicas = None
        return self._ask(self._client, *commands)

    def _ask(self, client: BlockingClient, *commands: tuple[bytes | str | int, ...]) -> list[Any]:
        # The epoch is read last: epochs never come back, so a queue that has this one now
        # had it all the while.
        known = self._keys
        *answers, epoch, lock = client.commands(
            *commands, ("HGET", known.queue, "epoch"), ("GET", known.move_lock)
        )
        if epoch != self._epoch:
            raise EpochChanged
        if lock is not None and not lock.startswith(b"out:"):
            raise errors.MoveLocked(MoveLock.parse(lock.decode()))
        return answers
