# SPDX-License-Identifier: Apache-2.0
"""The shapes of operators' documents: messages and claims that are looked at and moved, pools and
flavors, quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.descriptions import about
from zaqar_redis.api.queries import Marker, MessageLimit
from zaqar_redis.api.schemas import Count, Document, Links, MessageOut, Path
from zaqar_redis.keyspace.settings import unknown_options
from zaqar_redis.pool_records import StoreShare
from zaqar_redis.service.administration import STATES

_IDS = {"minItems": 1, "maxItems": "limits.max_messages_per_page"}
_ClientId = Annotated[
    str | UnsetType, about("The Client-ID of the request that created the claim, if it had one.")
]
_Links = Annotated[
    Links, about("A page may be short, or empty, and still have a next one: follow the link.")
]
_Time = Annotated[str, about(format="date-time")]


class PeekQuery(Struct, frozen=True, kw_only=True):
    state: Annotated[str | None, about("Only messages of this state.", enum=STATES)] = None
    marker: Marker = None
    limit: MessageLimit = None
    contains: Annotated[
        str | None,
        about("Only those whose body has this text: as posted, decoded, or without white space."),
    ] = None


class ClaimListQuery(Struct, frozen=True, kw_only=True):
    marker: Annotated[str | None, about("As in the link to the next page.")] = None
    limit: MessageLimit = None


class PeekedOut(MessageOut, kw_only=True):
    """A message in any state."""

    state: Literal["free", "claimed", "delayed", "expired"]
    claim_count: Annotated[Count, about("How often it was claimed.")]
    claim: Annotated[str | UnsetType, about("That holds it, if it is claimed.")] = UNSET
    claim_client_id: _ClientId = UNSET
    until: Annotated[_Time | UnsetType, about("When its claim or its delay ends.")] = UNSET
    dead_letter_from: Annotated[
        str | UnsetType, about("The queue that it came from, if it is a dead letter.")
    ] = UNSET


class PeekPageOut(Document):
    messages: list[PeekedOut]
    links: _Links


class ClaimSummaryOut(Document):
    id: str
    href: Annotated[str, about(pattern="^/v2/queues/[^/]+/claims/")]
    ttl: Annotated[int, about("Seconds from its creation or renewal until it ends.", minimum=1)]
    age: Annotated[Count, about("Seconds since it was created or renewed.")]
    messages: Annotated[int, about("Those that it still holds.", minimum=1)]
    client_id: _ClientId = UNSET


class ClaimPageOut(Document):
    claims: list[ClaimSummaryOut]
    links: _Links


class MoveIn(Struct, forbid_unknown_fields=True):
    queue: Annotated[
        str | None,
        about(
            "Where to; else each to the queue that it came from as a dead letter.",
            maxLength=rules.QUEUE_NAME_MAX,
            pattern=rules.QUEUE_NAME_PATTERN,
        ),
    ] = None
    ids: Annotated[list[str] | None, about("These, delayed or not.", **_IDS)] = None
    limit: Annotated[
        int | None,
        about(
            "The oldest free ones that can be moved, at most.",
            minimum=1,
            maximum="limits.max_messages_per_page",
        ),
    ] = None
    copy: Annotated[bool, about("They stay where they are, too; claimed ones are copied.")] = False


class MovedOut(Document):
    moved: Annotated[list[str], about("Ids of those that were moved or copied.")]
    left: Annotated[
        list[str],
        about("Ids of those that were not: claimed or missing, or without a queue to go back to."),
    ]
    missing_origins: Annotated[
        dict[str, int] | UnsetType,
        about(
            "Of those that were left, how many came from a queue that does not exist, by its "
            "name; absent if there are none."
        ),
    ] = UNSET


# -- pools and flavors -----------------------------------------------------


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


# -- quotas ----------------------------------------------------------------

_QUOTA = {"minimum": -1, "maximum": rules.INTEGER_MAX}


class QuotaIn(Struct, forbid_unknown_fields=True):
    """What is not given is as the service's options say."""

    requests: Annotated[int | None, about("A second.", **_QUOTA)] = None
    queues: Annotated[int | None, about(**_QUOTA)] = None
    messages: Annotated[int | None, about(**_QUOTA)] = None
    bytes: Annotated[int | None, about("Of stored messages.", **_QUOTA)] = None
    sockets: Annotated[
        int | None, about("Open connections of channels and WebSockets.", **_QUOTA)
    ] = None


class UsageOut(Document):
    """Measured some seconds ago."""

    queues: Count
    messages: Count
    bytes: Count
    sockets: Count


class QuotaOut(Document):
    """-1: without limit."""

    project: str
    href: Path
    requests: int
    queues: int
    messages: int
    bytes: int
    sockets: int
    usage: UsageOut | UnsetType = UNSET


class QuotaPageOut(Document):
    quotas: list[QuotaOut]
    links: Links
