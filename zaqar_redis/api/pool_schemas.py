# SPDX-License-Identifier: Apache-2.0
"""The shapes of the documents of pools and flavors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.schemas import Count, Document, Links, Path, about
from zaqar_redis.keyspace.settings import unknown_options
from zaqar_redis.pool_records import StoreShare


class PoolChangeIn(Struct):
    uri: Annotated[
        str | UnsetType,
        about("With `***` for a password that is known.", minLength=1, maxLength=rules.URI_MAX),
    ] = UNSET
    weight: Annotated[
        int | UnsetType,
        about("Its share of new queues; 0 for none.", minimum=0, maximum=rules.WEIGHT_MAX),
    ] = UNSET
    flavor: Annotated[str | UnsetType, about("Its group; empty for none.")] = UNSET
    options: Annotated[
        dict[str, Any] | UnsetType, about("Settings of the pool's driver, by name.")
    ] = UNSET
    draining: Annotated[
        bool | UnsetType, about("It gets no new queues, and its queues move out.")
    ] = UNSET
    adopt: Annotated[
        bool | UnsetType,
        about("Take over a store of another installation, or with queues that are in no pool."),
    ] = UNSET


def ignored(pool: PoolChangeIn) -> Iterator[str]:
    """Yields the names of options that have no effect, such as those of stock Zaqar's stores."""
    return unknown_options(pool.options if isinstance(pool.options, dict) else {})


class PoolIn(PoolChangeIn, forbid_unknown_fields=True):
    pass


class FlavorChangeIn(Struct):
    pool_list: Annotated[list[str], about("Just these pools.", minItems=1)]


class FlavorIn(FlavorChangeIn, forbid_unknown_fields=True):
    #: API: accepted, and without effect
    capabilities: Annotated[dict[str, Any] | None, about("Of no effect.")] = None


class StayedOut(Document):
    """Queues that could not move in the last round."""

    queues: Count
    why: Annotated[Sequence[str], about("Of the first few: project/queue and the reason.")]


class PoolOut(Document):
    name: str
    href: Path
    uri: Annotated[str, about("Without its password.")]
    weight: int
    flavor: str
    draining: bool
    options: dict[str, Any] | UnsetType = UNSET
    queues: Annotated[
        Count | UnsetType, about("One that moves counts in both pools until its move has ended.")
    ] = UNSET
    stayed: StayedOut | UnsetType = UNSET


class PoolPageOut(Document):
    pools: list[PoolOut]
    links: Links


class QueuePoolOut(Document):
    queue: str
    pool: Annotated[str | None, about("`default` is the service's own store.")]
    moving_to: str | None


class RebalanceOut(Document):
    running: bool
    stores: Sequence[StoreShare]
    stayed: StayedOut


class FlavorOut(Document):
    name: str
    href: Path
    pool_list: Sequence[str]
    capabilities: list[str] | UnsetType = UNSET


class FlavorPageOut(Document):
    flavors: list[FlavorOut]
    links: Links
