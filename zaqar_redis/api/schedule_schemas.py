# SPDX-License-Identifier: Apache-2.0
"""The documents of recurring posts."""

from __future__ import annotations

from typing import Annotated, get_args

from msgspec import UNSET, Raw, Struct, UnsetType, field

from zaqar_redis import cron, rules
from zaqar_redis.api.descriptions import about
from zaqar_redis.api.schemas import Document, Links, MessageIn, PostedFieldsOut
from zaqar_redis.schedule_records import Missed

_NAME = {"pattern": rules.QUEUE_NAME_PATTERN, "maxLength": rules.QUEUE_NAME_MAX}
_Queue = Annotated[str, about("The queue that it posts to.", **_NAME)]
_Cron = Annotated[
    str,
    about(
        "When: minute, hour, day of month, month, day of week, as in `30 9 * * MON-FRI`; or "
        "`@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`.",
        maxLength=cron.EXPRESSION_MAX,
    ),
]
_Zone = Annotated[str, about("IANA's name of the time zone of `cron`.", maxLength=cron.ZONE_MAX)]
_MISSED = (
    "Of times at which the service could not post: the `latest` is posted, late (the default); or "
    "those are left out (`skip`) that are more than a minute late."
)
_ISO = "ISO 8601, in UTC if it names no zone."


class ScheduledMessageIn(MessageIn, forbid_unknown_fields=True):
    """The message of a schedule."""


class ScheduleIn(Struct, rename={"start": "from"}, forbid_unknown_fields=True):
    queue: _Queue
    cron: _Cron
    message: Annotated[
        ScheduledMessageIn, about("As in a post, but no `deliver_at` or `dedup_id`.")
    ]
    timezone: _Zone | None = None
    start: Annotated[str | None, about(f"Not before this time.  {_ISO}")] = None
    until: Annotated[str | None, about(f"Not after this time.  {_ISO}")] = None
    paused: Annotated[
        bool | None, about("It posts nothing; what is missed is not posted later.")
    ] = None
    missed: Annotated[str | None, about(_MISSED, enum=[*get_args(Missed), None])] = None


class ScheduledMessageOut(PostedFieldsOut):
    body: Raw
    ttl: int | UnsetType = UNSET
    delay: int | UnsetType = UNSET


_Time = Annotated[str, about(format="date-time")]


class ScheduleOut(Document):
    name: str
    href: Annotated[str, about(pattern="^/v2/schedules/[^/]+$")]
    queue: str
    cron: str
    timezone: str
    message: ScheduledMessageOut
    paused: bool
    missed: Missed
    start: _Time | UnsetType = field(name="from", default=UNSET)
    until: _Time | UnsetType = UNSET
    next: Annotated[
        _Time | UnsetType, about("When it posts next; absent while it is paused, and at the end.")
    ] = UNSET
    last: Annotated[_Time | UnsetType, about("The last time for which it has posted.")] = UNSET
    failure: Annotated[str | UnsetType, about("Why the last post was refused.")] = UNSET


class SchedulePageOut(Document):
    schedules: list[ScheduleOut]
    links: Links
