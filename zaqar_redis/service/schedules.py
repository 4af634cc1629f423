# SPDX-License-Identifier: Apache-2.0
"""Recurring posts: one worker of the installation posts what is due."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid

from msgspec.structs import replace

from zaqar_redis import errors, rules
from zaqar_redis.cron import Cron
from zaqar_redis.metrics.definitions import SCHEDULED_POSTS
from zaqar_redis.records import Page
from zaqar_redis.schedule_records import SET_BACK_MAX, OccurrenceKey, Schedule, StoredSchedule
from zaqar_redis.service.encryption import BodyCipher
from zaqar_redis.service.messages import MessageService, check_draft
from zaqar_redis.storage.control import Control

LOG = logging.getLogger(__name__)

#: The role of the process that posts.
_ROLE = "schedules"
#: Seconds for which it has the role after a round: so late are posts when it dies.
_LEASE_SECONDS = 5.0
#: Seconds between looks when nothing is due before.
_INTERVAL = 5.0
#: Seconds between looks while something is due that this process does not post.
_SHORT_INTERVAL = 1.0
#: Posts that are made at once: more have to wait for the slowest of these.
_PAGE = 50
#: Milliseconds until a store that is away is asked again.
_RETRY_MS = 5000
#: Milliseconds by which a post may be late that is no missed one.
_LATE_MS = 60 * 1000
#: That of nobody, so that no client misses the messages as its own.
_CLIENT = "00000000-0000-0000-0000-000000000000"
_NAME = f"1 to {rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, dashes and dots"


class ScheduleService:
    def __init__(
        self,
        control: Control,
        messages: MessageService,
        limits: rules.Limits,
        cipher: BodyCipher | None,
    ) -> None:
        self._control = control
        self._store = control.schedules
        self._messages = messages
        self._limits = limits
        self._cipher = cipher
        self._changed = asyncio.Event()
        #: whether it has, or had not long ago, the role
        self._leads = False

    async def put(self, project: str, name: str, schedule: Schedule) -> bool:
        """Creates or replaces a schedule; returns whether it is new.

        Raises BadRequest, LimitExceeded.
        """
        _check_name(name)
        if not rules.is_queue_name(schedule.queue):
            raise errors.BadRequest(why=f'"queue" must have {_NAME}.')
        check_draft(schedule.message, self._limits)
        cron = Cron(schedule.cron, schedule.timezone)
        if schedule.until and schedule.until < schedule.start:
            raise errors.BadRequest(why='"until" must not be before "from".')
        if self._cipher is not None:
            body = self._cipher.encrypt(project, schedule.message.body)
            # A checksum of the plain body would reveal short ones.
            message = replace(schedule.message, body=body, encrypted=True, checksum=b"")
            schedule = replace(schedule, message=message)
        while True:
            now, stored = await self._store.get(project, name)
            last = 0 if stored is None else stored.last
            if last > now + SET_BACK_MAX:
                last = 0
            due = 0 if schedule.paused else next_time(schedule, cron, max(now, last))
            if not due and not schedule.paused:
                raise errors.BadRequest(
                    why='"cron" is not due any more between "from" and "until": correct them.'
                )
            created = await self._store.put(project, name, schedule, due)
            if created is not None:
                self._changed.set()
                return created

    async def get(self, project: str, name: str) -> StoredSchedule:
        """Raises NotFound."""
        _check_name(name)
        _, found = await self._store.get(project, name)
        if found is None:
            raise errors.NotFound(why=f"Schedule {name} does not exist.")
        return self._shown(found)

    async def list(
        self, project: str, marker: str | None, limit: int | None
    ) -> Page[StoredSchedule]:
        most = rules.limit(limit, self._limits.max_queues_per_page)
        page = await self._store.list(project, marker or "", most)
        return replace(page, items=[self._shown(each) for each in page.items])

    async def delete(self, project: str, name: str) -> None:
        """Idempotent."""
        _check_name(name)
        await self._store.delete(project, name)

    def _shown(self, stored: StoredSchedule) -> StoredSchedule:
        return replace(stored, schedule=self._decrypted(stored.project, stored.schedule))

    def _decrypted(self, project: str, schedule: Schedule) -> Schedule:
        """Raises WrongEncryptionKey."""
        message = schedule.message
        if not message.encrypted:
            return schedule
        body = self._messages.require_cipher().decrypt(project, message.body)
        return replace(schedule, message=replace(message, body=body, encrypted=False))

    async def run(self) -> None:
        """Posts what is due, again and again, if this process is the one that does."""
        pause = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)
            self._changed.clear()
            try:
                pause = await self.round()
            except errors.Unavailable:
                pause = _SHORT_INTERVAL
            except Exception:  # e.g. a user without the right to a command
                LOG.exception("cannot post schedules", extra={"action": "schedules_failed"})
                pause = _INTERVAL

    async def round(self) -> float:
        """Posts what is due, if no other process does; returns the seconds until the next look."""
        while True:
            found = await self._store.due(_PAGE)
            if not found.items and not found.set_back:
                wait = (found.next - found.now) / 1000 if found.next else _INTERVAL
                return min(max(wait, 0.0), _INTERVAL)
            self._leads = await self._control.lead(_ROLE, _LEASE_SECONDS)
            if not self._leads:
                return _SHORT_INTERVAL
            if found.set_back:
                await self._go_back(found.now)
            else:
                fired = (self._fire(each, found.now) for each in found.items)
                for failure in filter(None, await asyncio.gather(*fired, return_exceptions=True)):
                    raise failure

    async def resign(self) -> None:
        """Lets another process post."""
        if self._leads:
            with contextlib.suppress(errors.Unavailable):
                await self._control.resign(_ROLE)

    async def _fire(self, stored: StoredSchedule, now: int) -> None:
        if not 0 < stored.next <= now:  # advanced or replaced since the index was read
            await self._store.advance(stored, stored, stored.next)
            return
        schedule = stored.schedule
        try:
            cron = Cron(schedule.cron, schedule.timezone)
        except errors.BadRequest as problem:  # a time zone that this machine does not know
            failed = replace(stored, failure=problem.text)
            await self._store.advance(stored, failed, now + _LATE_MS)
            return
        at = cron.latest(stored.next, min(now, schedule.until or now))
        due = next_time(schedule, cron, max(now, at))
        advanced = replace(stored, next=due)
        if schedule.missed == "latest" or now - at <= _LATE_MS:
            try:
                failure = await self._post(stored, at)
            except errors.Unavailable:
                await self._store.advance(stored, stored, now + _RETRY_MS)
                return
            SCHEDULED_POSTS.add("refused" if failure else "posted")
            advanced = replace(stored, next=due, last=at, failure=failure)
        await self._store.advance(stored, advanced, due)

    async def _post(self, stored: StoredSchedule, at: int) -> str:
        """Posts for a time, once; returns why it was refused.  Raises Unavailable."""
        try:
            message = self._decrypted(stored.project, stored.schedule).message
            await self._messages.post(
                stored.project,
                stored.schedule.queue,
                [message],
                client=_CLIENT,
                size=len(message.body),
                idempotency_key=OccurrenceKey.of(stored.version, at),
            )
        except errors.Unavailable:
            raise
        except errors.Problem as problem:
            return problem.text
        except Exception as error:  # else it were tried for ever
            LOG.exception("cannot post a schedule", extra={"action": "schedule_failed"})
            return errors.reason(error)
        return ""

    async def _go_back(self, now: int) -> None:
        """Plans schedules anew that were planned in what was taken for the future."""
        LOG.warning(
            "the clock of the control store was set back: schedules go on from the present time",
            extra={"action": "clock_set_back"},
        )
        cursor = "0"
        while cursor:
            cursor, found = await self._store.scan(cursor)
            for each in found:
                if each.next and each.planned > now:  # 0: it was paused since the index was read
                    with contextlib.suppress(errors.BadRequest):
                        cron = Cron(each.schedule.cron, each.schedule.timezone)
                        due = next_time(each.schedule, cron, now)
                        # Queues take no times of a version before the last one.
                        last = each.last if each.last <= now else 0
                        anew = replace(each, version=uuid.uuid4().hex, next=due, last=last)
                        await self._store.advance(each, anew, due)
        await self._store.accept_clock()


def _check_name(name: str) -> None:
    """Raises BadRequest."""
    if not rules.is_queue_name(name):
        raise errors.BadRequest(why=f"The name of a schedule must have {_NAME}.")


def next_time(schedule: Schedule, cron: Cron, after: int) -> int:
    """Returns the first time of a schedule after another; 0: there is none any more."""
    found = cron.next(max(after, schedule.start - 1))
    return 0 if found is None or (schedule.until and found > schedule.until) else found
