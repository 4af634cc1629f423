# SPDX-License-Identifier: Apache-2.0
"""Comparison of a frozen queue and its copy in another Redis: by counts, in O(log n)."""

from __future__ import annotations

from dataclasses import dataclass

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.blocking import BlockingClient

#: Keys of which a queue and its copy have equal counts.
_ZSETS = ("messages", "ready", "claimed", "delayed", "expiry", "leases", "ledger_ends")
_HASHES = (
    *("bodies", "claims", "subscriptions", "ledger"),
    *("idempotency", "idempotency_old", "dead_letters", "dead_letters_old"),
)
#: Scores in `claimed` of parked messages, as in lua/shared/parked.lua: this, and more.
_PARKED = 200_000_000_000_000


@dataclass(frozen=True)
class QueueCounts:
    #: None: the queue does not exist
    epoch: str | None
    #: the last rank given
    rank: int
    #: counts by kind
    things: tuple[tuple[str, int], ...]

    @property
    def size(self) -> tuple[int, int]:
        """Returns the last rank given, and the number of messages."""
        return self.rank, dict(self.things)["messages"]

    def differences(self, other: QueueCounts) -> list[str]:
        """Returns a text for each kind that differs, with both counts."""
        found = [
            f"{kind}: {mine} and {theirs}"
            for (kind, mine), (_, theirs) in zip(self.things, other.things, strict=True)
            if mine != theirs
        ]
        if (self.epoch, self.rank) != (other.epoch, other.rank):
            found.append(f"last rank: {self.rank} and {other.rank}")
        return found


def count_queue(client: BlockingClient, project: str, queue: str) -> QueueCounts:
    """Returns the counts of a queue that does not change meanwhile, whatever its move lock."""
    known = keys.of_queue(project, queue)
    (epoch, rank), parked, *numbers = client.commands(
        ("HMGET", known.queue, "epoch", "rank"),
        ("ZCOUNT", known.claimed, _PARKED, "+inf"),
        *[("ZCARD", getattr(known, kind)) for kind in _ZSETS],
        *[("HLEN", getattr(known, kind)) for kind in _HASHES],
    )
    things = dict(zip(_ZSETS + _HASHES, map(int, numbers), strict=True))
    # A queue has parked messages in no `expiry`; its copy has them, until it parks them again.
    expiring = things["expiry"]
    things["expiry"] = min(expiring + int(parked), max(expiring, things["messages"]))
    return QueueCounts(
        epoch=epoch.decode() if epoch is not None else None,
        rank=int(rank or 0),
        things=tuple(things.items()),
    )


def count_after(client: BlockingClient, project: str, queue: str, rank: int) -> int:
    """Counts messages behind a rank, whatever the queue's move lock."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).messages, f"({rank}", "+inf")
    return int(found)
