# SPDX-License-Identifier: Apache-2.0
"""Which primary of a Redis Cluster has which slots."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, ResponseError, TryAgainError

from zaqar_redis.keyspace.script import RedisCommand

#: Its answer is for `slots_in`.
SLOTS = RedisCommand("CLUSTER", "SLOTS")
#: Of Redis; Valkey says that it is 7.
_MIN_VERSION = 7
#: Slots of a cluster.
SLOT_COUNT = 16384
#: What a node says of a slot that is elsewhere, or is being moved.
ELSEWHERE = (MovedError, AskError, TryAgainError)
#: First and last slot of each range.
Ranges = tuple[tuple[int, int], ...]


class Primary(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def slots_in(answer: Sequence[Any], host: str) -> Mapping[Primary, Ranges]:
    """Returns the slots of each primary, as a node at *host* has told them; empty: of none."""
    found: dict[Primary, Ranges] = {}
    for first, last, (address, port, *_), *_replicas in answer:
        # A node that does not know its own address says that it is the one that was asked.
        node = Primary((address or b"").decode() or host, port)
        found[node] = (*found.get(node, ()), (first, last))
    return dict(sorted(found.items()))


def replicas_in(answer: Sequence[Any], host: str) -> Mapping[Primary, Sequence[tuple[str, int]]]:
    """Returns the addresses of the replicas of each primary, as `slots_in` gets them."""
    found: dict[Primary, Sequence[tuple[str, int]]] = {}
    for _first, _last, (address, port, *_), *replicas in answer:
        node = Primary((address or b"").decode() or host, port)
        found[node] = sorted(((each[0] or b"").decode() or host, each[1]) for each in replicas)
    return found


def check_version(server: bytes) -> None:
    """Raises ResponseError when a node is too old; *server*: of its INFO.

    Scripts publish by SPUBLISH there, which Redis has since 7.0.
    """
    found = re.search(rb"redis_version:(\d+)", server)
    if found is not None and int(found[1]) < _MIN_VERSION:
        raise ResponseError(
            f"a Redis Cluster needs Redis {_MIN_VERSION} or Valkey, and a node has Redis "
            f"{found[1].decode()}: upgrade it"
        )


def has_slot(ranges: Ranges, slot: int) -> bool:
    return any(first <= slot <= last for first, last in ranges)


def tag_within(ranges: Ranges) -> bytes:
    """Returns the first number that, as a hash tag, puts names into these slots."""
    return next(
        tag for tag in map(b"%d".__mod__, itertools.count()) if has_slot(ranges, key_slot(tag))
    )
