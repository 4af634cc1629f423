# SPDX-License-Identifier: Apache-2.0
"""Commands of a slot of a Redis Cluster that wait until it has been moved."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

from redis.exceptions import RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace.batch import PendingCommand
from zaqar_redis.keyspace.script import RedisCommand

#: Seconds to wait for a slot that is being moved; keys move in less than a millisecond each.
PAUSE_SECONDS = 0.02


class MovingSlot:
    """The commands of a slot, in their order: first those that a node has sent elsewhere."""

    def __init__(self) -> None:
        self.refused: deque[tuple[PendingCommand, RedisError]] = deque()
        self.waiting: deque[PendingCommand] = deque()

    def __len__(self) -> int:
        return len(self.refused) + len(self.waiting)

    def __iter__(self) -> Iterator[PendingCommand]:
        return itertools.chain((held for held, _ in self.refused), self.waiting)


async def until_answered(node: Any, slot: int) -> None:
    """Waits until a node has answered all commands of a slot."""
    # Again: one that was sent without its script is sent once more.
    while any(each.slot() == slot for each in node.batch.unanswered()):
        try:
            await node.batch.send(RedisCommand("PING"))  # replies are in order
        except errors.Overloaded:
            await asyncio.sleep(PAUSE_SECONDS)
        except errors.Unavailable:  # nothing is unanswered any more
            return
