# SPDX-License-Identifier: Apache-2.0
"""The shapes of what is in frames: names and fields are those of stock Zaqar.

Unknown fields are ignored, as in the REST API.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from zaqar_redis.api.metadata_schemas import Metadata
from zaqar_redis.api.queries import MessageDeleteQuery
from zaqar_redis.api.schedule_schemas import ScheduleIn
from zaqar_redis.api.schemas import (
    PURGEABLE,
    ClaimIn,
    Document,
    MessageFieldsOut,
    PostIn,
    PurgeIn,
    ReleaseIn,
    RenewalIn,
)
from zaqar_redis.api.subscription_schemas import ConfirmationIn, SubscriptionChangeIn

#: What a header of HTTP may hold, too.
_Text = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]*\Z")]

_EMPTY, _NULL = Raw(b"{}"), Raw(b"null")

# -- frames ----------------------------------------------------------------


class RequestFrame(Struct):
    action: Raw = _NULL
    headers: Raw = _EMPTY
    body: Raw = _EMPTY


class FrameHeaders(Struct):
    project: _Text | None = field(default=None, name="X-Project-ID")
    client: _Text | None = field(default=None, name="Client-ID")
    token: _Text | None = field(default=None, name="X-Auth-Token")
    authorization: _Text | None = field(default=None, name="Authorization")
    signature: _Text | None = field(default=None, name="URL-Signature")
    expires: _Text = field(default="", name="URL-Expires")
    methods: list[_Text] = field(default_factory=list, name="URL-Methods")
    paths: list[_Text] = field(default_factory=list, name="URL-Paths")


class RequestEcho(Document):
    action: Raw
    body: Raw
    headers: Raw
    api: Literal["v2"] = "v2"


class ResponseHeaders(Document):
    status: int
    #: seconds
    retry: int | UnsetType = field(default=UNSET, name="Retry-After")
    #: names in the request that have no effect
    ignored: list[str] | UnsetType = field(default=UNSET, name="Ignored")


class ResponseFrame(Document):
    request: RequestEcho
    body: Any
    headers: ResponseHeaders


class ErrorOut(Document):
    error: str
    exception: str | UnsetType = UNSET


class PushOut(MessageFieldsOut):
    """A message, as a subscriber gets it."""

    id: str
    body: Raw
    ttl: int
    queue_name: str
    delay: int | UnsetType = UNSET
    type: Literal["Notification"] = field(default="Notification", name="Message_Type")


# -- bodies of requests; fields that a route has in its path have the same name --


class QueuesIn(Struct):
    marker: str | None = None
    limit: int | None = None
    detailed: bool | None = None


class QueueIn(Struct, kw_only=True):
    queue: str = field(name="queue_name")


class StatsIn(QueueIn, kw_only=True):
    detailed: bool | None = None


class MessagesIn(StatsIn, kw_only=True):
    with_attributes: bool | None = None


class QueueCreateIn(QueueIn, kw_only=True):
    metadata: Metadata = field(default_factory=dict)


class QueuePurgeIn(PurgeIn, kw_only=True):
    queue: str = field(name="queue_name")
    resource_types: list[str] = field(default_factory=PURGEABLE.copy)


class MessagePostIn(PostIn, kw_only=True):
    queue: str = field(name="queue_name")


class MessageListIn(MessagesIn, kw_only=True):
    marker: str | None = None
    limit: int | None = None
    echo: bool | None = None
    include_claimed: bool | None = None
    include_delayed: bool | None = None


class MessageIdIn(MessagesIn, kw_only=True):
    message: str = field(name="message_id")


class MessageIdsIn(MessagesIn, kw_only=True):
    ids: list[str] = field(name="message_ids")


class MessageDeleteIn(MessageIdIn, kw_only=True):
    claim_id: str | None = None


class MessageDeleteManyIn(MessageDeleteQuery, frozen=True, kw_only=True):
    queue: str = field(name="queue_name")
    ids: list[str] | None = field(default=None, name="message_ids")


class ClaimCreateIn(ClaimIn, kw_only=True):
    queue: str = field(name="queue_name")
    limit: int | None = None
    detailed: bool | None = None
    with_attributes: bool | None = None


class ClaimIdIn(MessagesIn, kw_only=True):
    claim: str = field(name="claim_id")


class ClaimUpdateIn(RenewalIn, kw_only=True):
    queue: str = field(name="queue_name")
    claim: str = field(name="claim_id")
    ids: list[str] | None = field(default=None, name="message_ids")


class ClaimReleaseIn(ReleaseIn, kw_only=True, forbid_unknown_fields=True):
    queue: str = field(name="queue_name")
    claim: str = field(name="claim_id")
    ids: list[str] | None = field(default=None, name="message_ids")


class SubscriptionCreateIn(QueueIn, kw_only=True):
    #: None, or '': the socket
    subscriber: str | None = None
    ttl: int | None = None
    options: dict[str, Any] | None = None
    paused: bool | None = None
    #: of the socket's pushes
    with_attributes: bool | None = None


class SubscriptionListIn(QueueIn, kw_only=True):
    marker: str | None = None
    limit: int | None = None


class SubscriptionIdIn(QueueIn, kw_only=True):
    subscription: str = field(name="subscription_id")


class SubscriptionUpdateIn(SubscriptionChangeIn, kw_only=True):
    queue: str = field(name="queue_name")
    subscription: str = field(name="subscription_id")


class SubscriptionConfirmIn(ConfirmationIn, kw_only=True):
    queue: str = field(name="queue_name")
    subscription: str = field(name="subscription_id")


class ScheduleNameIn(Struct, kw_only=True):
    schedule: str = field(name="schedule_name")


class ScheduleCreateIn(ScheduleIn, kw_only=True):
    schedule: str = field(name="schedule_name")


# -- of responses ----------------------------------------------------------


class HeldMessageOut(MessageFieldsOut):
    id: str
    claim_id: str | None
    ttl: int
    age: int
    body: Raw
    claim_count: int | UnsetType = UNSET
