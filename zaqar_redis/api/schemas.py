# SPDX-License-Identifier: Apache-2.0
"""The shapes of the JSON documents of the v2 API: how they are read, written and described."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from zaqar_redis import message_fields, rules, schedules
from zaqar_redis.api.descriptions import DELAY, TTL, about
from zaqar_redis.api.metadata_schemas import ShownMetadata, ShownTopicMetadata
from zaqar_redis.auth import signed_urls

#: API: what a purge may name; all of it without a body.
PURGEABLE = ["messages", "subscriptions"]

_CLAIM_TTL = {"minimum": 1, "maximum": "limits.max_claim_ttl"}
_IDS = {"minItems": 1, "maxItems": "limits.max_messages_per_page"}
_GRACE = {"minimum": rules.GRACE_MIN, "maximum": "limits.max_claim_grace"}

# -- of requests: unknown fields are ignored, unless a Struct forbids them -


class BinaryIn(Struct, forbid_unknown_fields=True):
    binary: Annotated[bytes, about("In base64.")]


class MessageFieldsIn(Struct):
    ttl: Annotated[int | None, about("Seconds; else what the queue or service says.", **TTL)] = None
    delay: Annotated[int | None, about("Seconds until it can be claimed.", **DELAY)] = None
    deliver_at: Annotated[
        str | None,
        about(
            "In the place of `delay`: when it can be claimed and its `ttl` begins.  ISO 8601, in "
            f"UTC if it names no zone; at most {schedules.DAYS_MAX} days from now."
        ),
    ] = None
    group: Annotated[
        str | None,
        about(
            "Queues with `_group_mode` go by it; others only show it.",
            minLength=1,
            maxLength=message_fields.GROUP_MAX,
        ),
    ] = None
    priority: Annotated[
        int | None,
        about(
            "Queues with `_priorities` claim the highest first; others only show it.",
            minimum=0,
            maximum=message_fields.PRIORITY_MAX,
        ),
    ] = None
    dedup_id: Annotated[
        str | None,
        about(
            "Within the queue's `_dedup_window` it is posted once, however often it comes.",
            minLength=1,
            maxLength=message_fields.DEDUP_ID_MAX,
        ),
    ] = None


class MessageIn(MessageFieldsIn, kw_only=True):
    body: Annotated[Raw, about("Any JSON value; with `content_type` a string.")]
    attributes: Annotated[
        dict[str, str | int | float | BinaryIn] | None,
        about("Strings, numbers and bytes, by name.", maxProperties=rules.ATTRIBUTES_MAX),
    ] = None
    content_type: Annotated[
        str | None,
        about(
            "The media type of a body that is text or bytes.",
            maxLength=message_fields.CONTENT_TYPE_MAX,
        ),
    ] = None
    body_encoding: Annotated[
        str | None,
        about("Of bytes, which `body` has in base64.", enum=[message_fields.BASE64, None]),
    ] = None


class PostIn(Struct):
    messages: Annotated[list[MessageIn] | UnsetType, about(minItems=1)] = UNSET


class ClaimIn(Struct):
    ttl: Annotated[
        int | None,
        about(
            "Seconds until the claim ends; else limits.default_claim_ttl. "
            f"{rules.CLAIM_TTL_MIN} at least, or the queue's `_min_claim_ttl`.",
            **_CLAIM_TTL,
        ),
    ] = None
    grace: Annotated[
        int | None,
        about(
            "Seconds that the messages live on after the claim, at least; else "
            "limits.default_claim_grace.",
            **_GRACE,
        ),
    ] = None


class RenewalIn(ClaimIn):
    ids: Annotated[
        list[str] | None, about("Only these messages of the claim; else all.", **_IDS)
    ] = None


class ReleaseIn(Struct, forbid_unknown_fields=True):
    ids: Annotated[
        list[str] | None, about("Only these messages of the claim; else all.", **_IDS)
    ] = None
    delay: Annotated[
        int | None,
        about("Seconds until they can be claimed again; else what the queue says.", **DELAY),
    ] = None
    reason: Annotated[
        str | None,
        about(
            "Shown with them and their dead letters.",
            minLength=1,
            maxLength=message_fields.REASON_MAX,
        ),
    ] = None


class PurgeIn(Struct):
    resource_types: list[Annotated[str, about(enum=PURGEABLE)]]


class ShareIn(Struct, forbid_unknown_fields=True):
    paths: Annotated[
        list[str] | None,
        about("Else its messages.", items={"enum": signed_urls.RESOURCES}, minItems=1),
    ] = None
    methods: Annotated[
        list[str] | None, about("Else GET.", items={"enum": signed_urls.METHODS}, minItems=1)
    ] = None
    expires: Annotated[
        str | None, about("ISO 8601, in UTC if it names no zone.  Else a day from now.")
    ] = None


class TopicShareIn(ShareIn, forbid_unknown_fields=True):
    paths: Annotated[
        list[str] | None,
        about("Else its messages.", items={"enum": signed_urls.TOPIC_RESOURCES}, minItems=1),
    ] = None


# -- of answers ------------------------------------------------------------

Count = Annotated[int, about(minimum=0)]
_PositiveCount = Annotated[int, about(minimum=1)]
Path = Annotated[str, about(pattern="^/v2/")]
_MessagePath = Annotated[
    str, about(pattern="^/v2/(queues|topics)/[^/]+/messages/[^/?]+([?]claim_id=[0-9a-f]+)?$")
]
_Ttl = Annotated[int, about("Seconds.", minimum=1)]
_Age = Annotated[int, about("Seconds since it was posted.", minimum=0)]
_Body = Annotated[Raw, about("As it was posted.")]
_ClaimCount = Annotated[Count, about("How often it was claimed.")]
_Checksum = Annotated[str, about("If `enable_checksum` was set.", pattern="^MD5:[0-9a-f]{32}$")]


class Document(Struct, forbid_unknown_fields=True, gc=False):
    """Base of all answers; what is UNSET is absent."""


class NothingOut(Document):
    pass


class ProblemOut(Document):
    title: Annotated[str, about("The kind of the problem.", minLength=1)]
    description: Annotated[str | UnsetType, about("What it is this time.", minLength=1)] = UNSET


class VersionsOut(Document):
    versions: list[dict[str, Any]]


class VersionOut(Document):
    version: dict[str, Any]


class HomeOut(Document):
    resources: Annotated[dict[str, dict[str, Any]], about("By relation.")]


class LinkOut(Document):
    rel: Literal["next"]
    href: Path


Links = Annotated[list[LinkOut], about("To the next page; none on an empty one.", maxItems=1)]


class TopicOut(Document):
    name: str
    href: Annotated[str, about(pattern="^/v2/topics/[^/]+$")]
    metadata: ShownTopicMetadata | UnsetType = UNSET


class TopicPageOut(Document):
    topics: list[TopicOut]
    links: Links


class EndOut(Document):
    """A message at an end of the queue."""

    href: _MessagePath
    age: _Age
    created: Annotated[str, about(format="date-time")]


class CountsOut(Document):
    claimed: Count
    free: Annotated[Count, about("All that are not claimed.")]
    total: Count
    oldest: EndOut | UnsetType = UNSET
    newest: EndOut | UnsetType = UNSET
    delayed: Annotated[Count | UnsetType, about("Of the free ones; with `detailed`.")] = UNSET
    bytes: Annotated[
        Count | UnsetType,
        about("As they are stored, by a sample of 32 of them; of one queue, with `detailed`."),
    ] = UNSET


class CountersOut(Document):
    posted: Count
    claimed: Annotated[Count, about("By claims; each time counts.")]
    released: Annotated[Count, about("Their claim was deleted or expired; each time counts.")]
    deleted: Annotated[Count, about("By id or popped.")]
    expired: Count
    purged: Count
    dead_lettered: Annotated[Count, about("Moved to the dead-letter queue.")]
    dropped: Annotated[Count, about("Deleted to make room in a full queue.")]
    refused: Annotated[Count, about("As the queue was full or paused; each time counts.")]


class StatsOut(Document):
    messages: Annotated[
        CountsOut, about(dependentRequired={"oldest": ["newest"], "newest": ["oldest"]})
    ]
    idempotency_records: Annotated[
        _PositiveCount | UnsetType, about("Stored keys and dedup ids; absent if there are none.")
    ] = UNSET
    counters: Annotated[
        CountersOut | UnsetType, about("Since the queue was created; with `detailed`.")
    ] = UNSET


class QueueOut(Document):
    name: str
    href: Annotated[str, about(pattern="^/v2/queues/[^/]+$")]
    metadata: ShownMetadata | UnsetType = UNSET
    stats: Annotated[StatsOut | UnsetType, about("With `with_stats`.")] = UNSET
    unavailable: Annotated[
        str | UnsetType, about("The store that it is in, which is unavailable; with `partial`.")
    ] = UNSET


class QueuePageOut(Document):
    queues: list[QueueOut]
    links: Links
    count: Annotated[
        _PositiveCount | UnsetType, about("All of the project; absent if it has none.")
    ] = UNSET
    unavailable: Annotated[
        list[str] | UnsetType,
        about("With `partial`: stores that could not be read; there may be more queues in them."),
    ] = UNSET


class PostedOut(Document):
    resources: Annotated[list[_MessagePath], about("In the order of the request.", minItems=1)]
    duplicates: Annotated[
        list[int] | UnsetType,
        about(
            "Places in `messages`, from 0, of those that had been posted before; their resources "
            "are those of the first ones."
        ),
    ] = UNSET


class BinaryOut(Document):
    binary: Annotated[str, about("In base64.")]


AttributesOut = Annotated[
    dict[str, str | int | float | BinaryOut] | UnsetType,
    about("If the message has some, and the request asks for them."),
]
_IF_IT_HAS_ONE = about("If the message has one.")


class PostedFieldsOut(Document, kw_only=True):
    """What a post may have said of a message, beside its body."""

    attributes: AttributesOut = UNSET
    group: Annotated[str | UnsetType, _IF_IT_HAS_ONE] = UNSET
    priority: Annotated[int | UnsetType, _IF_IT_HAS_ONE] = UNSET
    content_type: Annotated[
        str | UnsetType, about("If the body is no JSON value but text or bytes of this type.")
    ] = UNSET
    body_encoding: Annotated[
        Literal["base64"] | UnsetType, about("If the body is bytes: how `body` has them.")
    ] = UNSET


class MessageFieldsOut(PostedFieldsOut, kw_only=True):
    """What only some messages have."""

    dedup_id: Annotated[str | UnsetType, _IF_IT_HAS_ONE] = UNSET
    reason: Annotated[
        str | UnsetType,
        about("For which it was given back last: of a dead letter, and with `detailed` of others."),
    ] = UNSET
    first_claimed: Annotated[
        str | UnsetType, about("With `detailed`, if it was claimed.", format="date-time")
    ] = UNSET


class MessageOut(MessageFieldsOut):
    id: str
    href: Annotated[_MessagePath, about("With its claim, if it has one.")]
    ttl: _Ttl
    age: _Age
    body: _Body
    checksum: _Checksum | UnsetType = UNSET
    claim_count: _ClaimCount | UnsetType = UNSET


class MessagePageOut(Document):
    messages: list[MessageOut]
    links: Links | UnsetType = UNSET


class PoppedMessageOut(MessageFieldsOut):
    id: str
    ttl: _Ttl
    age: _Age
    body: _Body
    claim_id: None
    claim_count: _ClaimCount
    checksum: _Checksum | UnsetType = UNSET


class PoppedOut(Document):
    messages: list[PoppedMessageOut]


class ClaimedOut(Document):
    messages: Annotated[list[MessageOut], about(minItems=1)]


class RenewedOut(Document):
    renewed: Annotated[list[str], about("Ids of those whose lease starts anew.")]
    left: Annotated[list[str], about("Ids of those that the claim does not hold.")]


class ReleasedOut(Document):
    released: Annotated[list[str], about("Ids of those that the claim does not hold any more.")]
    left: Annotated[list[str], about("Ids of those that it did not hold.")]


class ClaimOut(Document):
    age: Annotated[Count, about("Seconds since it was created or renewed.")]
    ttl: Annotated[int, about("Seconds from then until it ends.", minimum=1)]
    messages: Annotated[list[MessageOut], about("Those that it still holds.")]
    href: Annotated[str, about(pattern="^/v2/queues/[^/]+/claims/")]
