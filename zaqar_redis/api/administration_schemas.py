# SPDX-License-Identifier: Apache-2.0
"""The shapes of the documents with which operators look at messages and claims, and move them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.queries import Marker, MessageLimit
from zaqar_redis.api.schemas import Count, Document, Links, MessageOut, about
from zaqar_redis.service.administration import STATES

_IDS = {"minItems": 1, "maxItems": "limits.max_messages_per_page"}
_ClientId = Annotated[
    str | UnsetType, about("The Client-ID of the request that created the claim, if it had one.")
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
    links: Annotated[
        Links, about("A page may be short, or empty, and still have a next one: follow the link.")
    ]


class ClaimSummaryOut(Document):
    id: str
    href: Annotated[str, about(pattern="^/v2/queues/[^/]+/claims/")]
    ttl: Annotated[int, about("Seconds from its creation or renewal until it ends.", minimum=1)]
    age: Annotated[Count, about("Seconds since it was created or renewed.")]
    messages: Annotated[int, about("Those that it still holds.", minimum=1)]
    client_id: _ClientId = UNSET


class ClaimPageOut(Document):
    claims: list[ClaimSummaryOut]
    links: Annotated[
        Links, about("A page may be short, or empty, and still have a next one: follow the link.")
    ]


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
