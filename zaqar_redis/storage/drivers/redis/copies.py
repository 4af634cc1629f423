# SPDX-License-Identifier: Apache-2.0
"""Whether a frozen queue and its copy in another Redis are alike: by counts, in O(log n)."""

from __future__ import annotations

from dataclasses import dataclass

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import BlockingClient

#: What a queue and its copy have as many of.
_ZSETS = ("messages", "ready", "claimed", "delayed", "expiry", "leases", "ledger_ends")
_HASHES = (
    *("bodies", "claims", "subscriptions", "ledger"),
    *("idempotency", "idempotency_old", "letters", "letters_old"),
)


@dataclass(frozen=True)
class Counts:
    """What a queue holds."""

    #: None: there is no such queue
    epoch: str | None
    #: the last one given
    rank: int
    #: by kind
    things: tuple[tuple[str, int], ...]

    @property
    def size(self) -> tuple[int, int]:
        """The last rank given, and how many messages there are."""
        return self.rank, dict(self.things)["messages"]

    def differences(self, other: Counts) -> list[str]:
        """What is not alike, and how many each has."""
        found = [
            f"{kind}: {mine} and {theirs}"
            for (kind, mine), (_, theirs) in zip(self.things, other.things, strict=True)
            if mine != theirs
        ]
        if (self.epoch, self.rank) != (other.epoch, other.rank):
            found.append(f"last rank: {self.rank} and {other.rank}")
        return found


def counts(client: BlockingClient, project: str, queue: str) -> Counts:
    """Of a queue that stays as it is meanwhile, whatever its gate."""
    known = keys.of_queue(project, queue)
    (epoch, rank), *numbers = client.commands(
        ("HMGET", known.queue, "epoch", "rank"),
        *[("ZCARD", getattr(known, kind)) for kind in _ZSETS],
        *[("HLEN", getattr(known, kind)) for kind in _HASHES],
    )
    return Counts(
        epoch=epoch.decode() if epoch is not None else None,
        rank=int(rank or 0),
        things=tuple(zip(_ZSETS + _HASHES, map(int, numbers), strict=True)),
    )


def behind(client: BlockingClient, project: str, queue: str, rank: int) -> int:
    """Messages behind a rank, whatever the queue's gate."""
    found = client.command("ZCOUNT", keys.of_queue(project, queue).messages, f"({rank}", "+inf")
    return int(found)
