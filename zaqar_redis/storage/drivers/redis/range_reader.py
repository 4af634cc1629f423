# SPDX-License-Identifier: Apache-2.0
"""Read messages of one queue by rank, as they are stored: for those who read very many.

Plain commands: for pages that are only read, Redis hands out bodies twice as fast as
through a script.  A page holds what was in the queue at one moment between two, and
belongs to the life of the queue that was asked for, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import BlockingClient

#: A range with fewer messages than this part of its ranks is asked for its ranks first.
_DENSE = 0.5


class EpochChanged(Exception):
    """The queue was deleted, or made again, or is in another store now."""


@dataclass(frozen=True)
class Content:
    """Some of: which side facts of messages a reader wants."""

    #: claims: who holds it, until when, how often it was claimed
    holds: bool = False
    #: when its delay ends
    delays: bool = False


@dataclass(frozen=True)
class RawPage:
    #: the store's time, ms
    now: int
    ranks: Sequence[int]
    #: None: there is no such message any more
    envelopes: Sequence[bytes | None]
    #: by message, see lua/shared/hold.lua; None: none was asked for, or none of them has one
    holds: Sequence[bytes | None] | None
    #: by message, the end of the claim that holds it, ms
    held_until: Sequence[bytes | None] | None
    #: by message, the end of its delay, ms; None as above
    delayed_until: Sequence[bytes | None] | None


def count(client: BlockingClient, project: str, queue: str, start: int, end: int) -> int:
    """Messages from the rank *start* to before *end*."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).messages, start, f"({end}")
    return int(found)


def bounds(
    client: BlockingClient, project: str, queue: str, start: int, places: Sequence[int]
) -> list[int]:
    """The ranks of some messages, by their place among those from the rank *start* on."""
    messages = keys.of_queue(project, queue).messages
    before = client.command("ZCOUNT", messages, "-inf", f"({start}")
    found = client.commands(
        *[("ZRANGE", messages, before + place, before + place) for place in places]
    )
    return [int(ranks[0]) for ranks in found if ranks]


def ready(client: BlockingClient, project: str, queue: str, end: int) -> int:
    """Messages before the rank *end* that are claimable, as far as that is settled."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).ready, "-inf", f"({end}")
    return int(found)


class RangeReader:
    def __init__(self, client: BlockingClient, project: str, queue: str, epoch: str) -> None:
        self._client = client
        self._keys = keys.of_queue(project, queue)
        self._epoch = epoch.encode()

    def pages(self, start: int, end: int, size: int, content: Content) -> Iterator[RawPage]:
        """Messages from the rank *start* to before *end*, up to *size* at once, in order.

        Raises EpochChanged, Gated and StoreUnavailable; what was yielded is right then
        all the same, and reading may go on behind it.
        """
        at = start
        dense, content = self._look(start, end, content)
        while at < end:
            if dense:
                ranks: Sequence[int] = range(at, min(at + size, end))
                at += len(ranks)
            else:
                ranks = self._ranks(at, end, size)
                at = ranks[-1] + 1 if len(ranks) == size else end
            if ranks:
                yield self._page(ranks, content)

    def _look(self, start: int, end: int, content: Content) -> tuple[bool, Content]:
        """Whether most ranks have their message, and which of the content there can be."""
        known = self._keys
        count, has_holds, has_delays = self._checked(
            ("ZCOUNT", known.messages, start, f"({end}"),
            ("EXISTS", known.holds),
            ("EXISTS", known.delayed),
        )
        there = Content(
            holds=content.holds and bool(has_holds), delays=content.delays and bool(has_delays)
        )
        return count >= _DENSE * (end - start), there

    def _ranks(self, start: int, end: int, size: int) -> Sequence[int]:
        (found,) = self._checked(
            ("ZRANGEBYSCORE", self._keys.messages, start, f"({end}", "LIMIT", 0, size)
        )
        return [int(rank) for rank in found]

    def _page(self, ranks: Sequence[int], content: Content) -> RawPage:
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
        # Behind the reading: epochs never come back, so a queue that has this one now had
        # it all the while.
        known = self._keys
        *answers, epoch, shut = self._client.commands(
            *commands, ("HGET", known.queue, "epoch"), ("GET", known.gate)
        )
        if epoch != self._epoch:
            raise EpochChanged
        if shut is not None and not shut.startswith(b"out:"):
            raise errors.Gated(shut.decode())
        return answers
