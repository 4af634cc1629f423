# SPDX-License-Identifier: Apache-2.0
"""Recurring posts in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from urllib.parse import unquote

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.control_keys import CONTROL, ScheduleKeys
from zaqar_redis.keyspace.script import Argument, Call, RedisCommand, Script, Steps, verb
from zaqar_redis.records import Page
from zaqar_redis.schedule_records import SET_BACK_MAX, DueSchedules, Schedule, StoredSchedule
from zaqar_redis.storage.control import SCHEDULES_MAX
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.resource import RedisResource
from zaqar_redis.storage.redis.scanning import scan

_PUT = Script("schedule_put")
_GET = Script("schedule_get")
_DELETE = Script("schedule_delete")
_DUE = Script("schedule_due")
_ADVANCE = Script("schedule_advance")
_ACCEPT_CLOCK = Script("schedule_accept_clock")

#: Schedules read in one step: a millisecond or two.
_PAGE = 100


class RedisSchedules(RedisResource):
    @verb
    def put(self, project: str, name: str, schedule: Schedule, next_at: int) -> Steps[bool | None]:
        answer = yield _PUT(
            ScheduleKeys(entry := keys.entry(project, name)),
            now=self._now(),
            entry=entry,
            name=name,
            most=SCHEDULES_MAX,
            version=identity.new_claim(),
            definition=schedule.encode(),
            next=next_at,
        )
        if answer == b"full":
            raise errors.LimitExceeded(most=SCHEDULES_MAX, what="schedules of a project")
        return None if answer == b"past" else bool(answer == b"new")

    @verb
    def get(self, project: str, name: str) -> Steps[tuple[int, StoredSchedule | None]]:
        now, flat = yield _GET(ScheduleKeys(keys.entry(project, name)), now=self._now())
        return now, _stored(project, name, flat) if flat else None

    @verb
    def list(self, project: str, after: str, limit: int) -> Steps[Page[StoredSchedule]]:
        listed = ScheduleKeys(keys.entry(project, "")).schedules
        names = [name.decode() for name in (yield RedisCommand.page(listed, after, limit))]
        items = yield from _read([keys.entry(project, name) for name in names])
        return Page(items, marker=names[-1] if names else "")

    async def projects(self) -> AsyncIterator[str]:
        prefix = ScheduleKeys(b"").schedules
        seen: set[bytes] = set()
        async for page in scan(self.client, prefix + b"*"):
            for key in page - seen:
                yield unquote(key.removeprefix(prefix).decode())
            seen |= page

    @verb
    def delete(self, project: str, name: str) -> Steps[None]:
        entry = keys.entry(project, name)
        yield _DELETE(ScheduleKeys(entry), entry=entry, name=name)

    @verb
    def due(self, limit: int) -> Steps[DueSchedules]:
        now, seen, next_at, *entries = yield _DUE(CONTROL, now=self._now(), limit=limit)
        found = yield from _read(entries)
        if len(found) < len(entries):
            known = {keys.entry(each.project, each.name) for each in found}
            yield [_removal(entry, now) for entry in entries if entry not in known]
        return DueSchedules(
            now,
            found,
            next=int(float(next_at)),
            set_back=now < int(seen) - SET_BACK_MAX,
        )

    @verb
    def advance(self, stored: StoredSchedule, to: StoredSchedule, due: int) -> Steps[bool]:
        advanced = yield _ADVANCE(
            ScheduleKeys(entry := keys.entry(stored.project, stored.name)),
            now=self._now(),
            entry=entry,
            version=stored.version,
            expected=stored.next,
            new_version=to.version,
            next=to.next,
            last=to.last,
            failure=to.failure,
            due=due,
        )
        return bool(advanced)

    @verb
    def scan(self, cursor: str) -> Steps[tuple[str, Sequence[StoredSchedule]]]:
        after, flat = yield RedisCommand("ZSCAN", CONTROL.due_schedules, cursor, "COUNT", _PAGE)
        return "" if after == b"0" else after.decode(), (yield from _read(flat[::2]))

    @verb
    def accept_clock(self) -> Steps[None]:
        yield _ACCEPT_CLOCK(CONTROL, now=self._now())


def _removal(entry: bytes, now: int) -> Call:
    """Returns the call that removes an evicted schedule from the index."""
    values: dict[str, Argument] = dict.fromkeys(_ADVANCE.args, "")
    values.update(now=now, entry=entry)
    return _ADVANCE(ScheduleKeys(entry), **values)


def _read(entries: Sequence[bytes]) -> Steps[Sequence[StoredSchedule]]:
    if not entries:
        return ()
    found = yield [RedisCommand("HGETALL", ScheduleKeys(entry).schedule) for entry in entries]
    # Without fields is what was deleted meanwhile, or evicted.
    return [
        _stored(*keys.queue_of(entry), flat)
        for entry, flat in zip(entries, found, strict=True)
        if flat
    ]


def _stored(project: str, name: str, flat: Sequence[bytes]) -> StoredSchedule:
    stored = dict(zip(flat[::2], flat[1::2], strict=True))
    return StoredSchedule(
        project,
        name,
        Schedule.decode(stored[b"definition"]),
        version=stored[b"version"].decode(),
        next=int(stored[b"next"]),
        planned=int(stored[b"planned"]),
        last=int(stored.get(b"last", 0)),
        failure=stored.get(b"failure", b"").decode(),
    )
