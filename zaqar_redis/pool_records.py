# SPDX-License-Identifier: Apache-2.0
"""Pools and flavors, where queues are, and how they move: frozen values, as in `records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis.records import Record


class Pool(Record, frozen=True):
    """A store that queues are spread over."""

    name: str
    uri: str
    #: its share of the new queues, relative to other pools; 0: none
    weight: int
    #: the group it belongs to; empty: none
    flavor: str = ""
    #: settings of its driver that differ from the operator's for all
    options: dict[str, Any] = {}
    #: it takes no new queues, and its queues move to other pools
    draining: bool = False


class PoolsSnapshot(Record, frozen=True):
    """All pools at one moment."""

    #: changes whenever a pool or a flavor does
    version: int
    #: in order of name
    items: tuple[Pool, ...]


class Flavor(Record, frozen=True):
    name: str
    #: names of its pools
    pools: tuple[str, ...]
    #: what it can do, as stock Zaqar stored it; else ``{}``
    capabilities: Any = msgspec.field(default_factory=dict)


class Move(Record, frozen=True):
    """The move of a queue from one pool to another."""

    #: 32 hexadecimal digits, new for each attempt
    token: str
    source: str
    target: str
    #: the queue lives in the target now; the source is yet to be cleaned up
    committed: bool = False


class TransferChunk(Record, frozen=True):
    """Part of a queue that moves to another store; only drivers know its content."""

    kind: str
    #: in the format of the two drivers
    items: Sequence[Any]
    #: of messages: the rank before the first one
    after: int = 0
    #: where the next chunk begins; None: this is the last one
    next_cursor: str | None = None


class Job(Record, frozen=True):
    """Work on many queues that a service does in the background, and its progress."""

    #: False: its last round is over
    running: bool
    #: how many queues could not move in the last round
    stayed: int = 0
    #: why, of the first few of them
    why: tuple[str, ...] = ()


class StoreShare(Record, frozen=True, forbid_unknown_fields=True):
    """How many queues a store has, and how many it is due by weight."""

    name: str
    queues: int
    due: int


class QueueLocation(Record, frozen=True):
    #: None: the catalogue has no entry for the queue
    pool: str | None
    move: Move | None = None
    #: the queue was deleted; its entry is kept for a while
    deleted: bool = False
    #: the epoch that the queue will have when it gets a pool; empty: none is reserved
    reserved_epoch: str = ""


class CatalogueEntry(Record, frozen=True):
    """A queue, and the pool that it lives in."""

    project: str
    queue: str
    pool: str
    #: pass it as *after* to go on behind this entry
    marker: str = ""
