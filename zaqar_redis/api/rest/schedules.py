# SPDX-License-Identifier: Apache-2.0
"""/v2/schedules."""

from __future__ import annotations

from typing import cast, get_args

from msgspec import UNSET, Raw, UnsetType

from zaqar_redis import errors, message_fields, schedules
from zaqar_redis.api import decoding, documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import PageQuery
from zaqar_redis.api.schedule_schemas import (
    ScheduledMessageOut,
    ScheduleIn,
    ScheduleOut,
    SchedulePageOut,
)
from zaqar_redis.api.schemas import PostIn
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.schedule_records import Missed, Schedule, StoredSchedule
from zaqar_redis.service.schedules import ScheduleService

#: The last second of the year 9999, in ms.
_TIME_MAX = 253_402_300_799_000


class ScheduleHandlers:
    def __init__(self, service: ScheduleService, policy: PolicyEnforcer, checksums: bool) -> None:
        self._schedules = service
        self._policy = policy
        self._checksums = checksums

    async def list(self, request: Request[PageQuery, None]) -> Answer:
        """Lists recurring posts, by name."""
        query = request.query
        page = await self._schedules.list(request.project, query.marker, query.limit)
        links = documents.next_link(request.path, query, page.marker)
        return Answer(
            documents.encode(SchedulePageOut([_shown(each) for each in page.items], links))
        )

    async def get(self, request: Request[None, None], schedule: str) -> Answer:
        """Shows a recurring post, when it is due, and when it has posted."""
        return Answer(
            documents.encode(_shown(await self._schedules.get(request.project, schedule)))
        )

    async def put(self, request: Request[None, ScheduleIn], schedule: str) -> Answer:
        """Creates or replaces a recurring post.

        Each time it posts once, however many workers run or stop.  A replaced one counts from now:
        what it has missed is not posted.
        """
        given = _given(request.document, self._checksums)
        self._policy.authorize(request.identity, "messages:create", request.project, given.queue)
        created = await self._schedules.put(request.project, schedule, given)
        found = await self._schedules.get(request.project, schedule)
        return Answer(documents.encode(_shown(found)), 201 if created else 200)

    async def delete(self, request: Request[None, None], schedule: str) -> Answer:
        """Cancels a recurring post."""
        await self._schedules.delete(request.project, schedule)
        return DONE


def _given(document: ScheduleIn, checksums: bool) -> Schedule:
    """Raises BadRequest."""
    if document.message.deliver_at is not None:
        raise errors.BadRequest(
            why='"message" of a schedule may have no "deliver_at": "cron" says when it is posted.'
        )
    if document.message.dedup_id is not None:
        raise errors.BadRequest(
            why='"message" of a schedule may have no "dedup_id": each time is posted once.'
        )
    missed = document.missed or "latest"
    if missed not in get_args(Missed):
        raise errors.BadRequest(
            why=f'The value of "missed" must be one of {", ".join(get_args(Missed))}.'
        )
    [message] = decoding.drafts(PostIn([document.message]), checksums)
    return Schedule(
        queue=document.queue,
        cron=document.cron,
        message=message,
        timezone="UTC" if document.timezone is None else document.timezone,
        start=_time("from", document.start),
        until=_time("until", document.until),
        paused=bool(document.paused),
        missed=cast(Missed, missed),
    )


def _time(field: str, text: str | None) -> int:
    if text is None:
        return 0
    try:
        return min(max(1, round(schedules.moment(text).timestamp() * 1000)), _TIME_MAX)
    except (ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, ValueError) else "is no time of a calendar"
        raise errors.BadRequest(why=f'The value of "{field}" {why}.') from None


def _shown(stored: StoredSchedule) -> ScheduleOut:
    schedule = stored.schedule
    message = schedule.message
    return ScheduleOut(
        stored.name,
        f"/v2/schedules/{stored.name}",
        schedule.queue,
        schedule.cron,
        schedule.timezone,
        ScheduledMessageOut(
            Raw(message.body),
            UNSET if message.ttl is None else message.ttl,
            UNSET if message.delay is None else message.delay,
            attributes=documents.attribute_values(message.attributes),
            **message_fields.shown(message.attributes or {}),
        ),
        schedule.paused,
        schedule.missed,
        start=_iso(schedule.start),
        until=_iso(schedule.until),
        next=_iso(stored.next),
        last=_iso(stored.last),
        failure=stored.failure or UNSET,
    )


def _iso(milliseconds: int) -> str | UnsetType:
    return documents.iso(milliseconds) if milliseconds else UNSET
