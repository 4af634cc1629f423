# SPDX-License-Identifier: Apache-2.0
"""Recurring posts: what their store guarantees, and that each is made once whoever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.stores import PATIENT, POOLED, PooledContractStore
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.control_keys import CONTROL, RoleKeys
from zaqar_redis.keyspace.script import Steps
from zaqar_redis.records import NewMessage
from zaqar_redis.rules import Limits
from zaqar_redis.schedule_records import Schedule, StoredSchedule
from zaqar_redis.service.encryption import BodyCipher
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.schedules import ScheduleService
from zaqar_redis.storage import control
from zaqar_redis.storage.redis import schedules
from zaqar_redis.storage.redis.control import RedisControl

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TICK = Schedule("q", "* * * * *", NewMessage(b'"tick"', ttl=86_400))


class Killed(BaseException):
    """The worker dies here."""


class ScheduleWorker:
    """A process that posts what is due; it may die at a step."""

    def __init__(self, store: PooledContractStore, cipher: BodyCipher | None = None) -> None:
        self._store = store
        self.control = RedisControl(keyspace.client(_control_uri(store), PATIENT), store.clock)
        store.run(self.control.start())
        self.messages = MessageService(store.driver, Limits(), cipher, LongPoll(None, 1))
        self.service = ScheduleService(self.control, self.messages, Limits(), cipher)

    def put(self, name: str = "s", schedule: Schedule = TICK, **changes: Any) -> StoredSchedule:
        self._store.run(self.service.put(self._store.project, name, replace(schedule, **changes)))
        return self.get(name)

    def get(self, name: str = "s") -> StoredSchedule:
        return self._store.run(self.service.get(self._store.project, name))

    def delete(self, name: str = "s") -> None:
        self._store.run(self.service.delete(self._store.project, name))

    def round(self) -> float:
        return self._store.run(self.service.round())

    def dies(self, resource: object, method: str, *, after: bool) -> None:
        """Dies in its next round before or *after* it calls the method."""
        call = getattr(resource, method)

        async def dying(*args: Any, **how: Any) -> Any:
            if after:
                await call(*args, **how)
            raise Killed

        setattr(resource, method, dying)
        with pytest.raises(Killed):
            self.round()
        # As it ends some seconds later.
        self._store.run(self.control.resign("schedules"))


def _control_uri(store: PooledContractStore) -> str:
    return store.uri.removeprefix(POOLED).partition("|")[0]


@pytest.fixture
def store(pools: PooledContractStore) -> PooledContractStore:
    pools.reset()
    return pools


NewWorker = Callable[..., ScheduleWorker]


@pytest.fixture
def new_worker(store: PooledContractStore) -> Iterator[NewWorker]:
    workers: list[ScheduleWorker] = []

    def create(cipher: BodyCipher | None = None) -> ScheduleWorker:
        workers.append(ScheduleWorker(store, cipher))
        return workers[-1]

    yield create
    for each in workers:
        store.run(each.control.close())


@pytest.fixture
def worker(new_worker: NewWorker) -> ScheduleWorker:
    return new_worker()


def test_schedules_are_stored_listed_replaced_and_deleted(
    store: PooledContractStore, worker: ScheduleWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = store.clock.now
    message = NewMessage(b'{"a":1}', ttl=60, delay=1, attributes={"b": b"\0\xff", "n": 1.5})
    schedule = Schedule("q", "0 12 * * *", message, "Asia/Tokyo", now + DAY, now + 3 * DAY)
    stored = worker.put("a.b", schedule)
    assert stored.schedule == schedule
    assert stored.next == now - now % DAY + DAY + 3 * HOUR + DAY  # 12 in Tokyo is 3
    assert (stored.last, stored.failure) == (0, "")
    names = [f"s{number}" for number in range(5)]
    for name in names:
        worker.put(name)
    project = store.project
    listed = store.run(worker.control.schedules.list(project, "", 3))
    assert [each.name for each in listed.items] == ["a.b", *names[:2]]
    listed = store.run(worker.control.schedules.list(project, listed.marker, 9))
    assert [each.name for each in listed.items] == names[2:]
    assert store.run(worker.control.schedules.list("other", "", 9)).items == ()

    async def projects() -> set[str]:
        return {each async for each in worker.control.schedules.projects()}

    store.run(worker.control.schedules.put("ä/*", "s", TICK, 0))
    assert store.run(projects()) == {project, "ä/*"}
    store.run(worker.control.schedules.delete("ä/*", "s"))

    monkeypatch.setattr("zaqar_redis.storage.redis.schedules.SCHEDULES_MAX", 6)
    with pytest.raises(errors.LimitExceeded, match="6 schedules"):
        worker.put("more")
    assert worker.put("s0", paused=True).next == 0
    assert not store.run(worker.service.put(project, "s0", TICK))
    for name in ("a.b", *names, "a.b"):
        worker.delete(name)
    with pytest.raises(errors.NotFound):
        worker.get("s0")
    assert store.run(worker.control.schedules.due(9)).next == 0
    leftovers = store.run(worker.control._client.command("KEYS", "zr:{control}:*schedule*"))
    assert leftovers == [CONTROL.schedule_clock]
    assert control.SCHEDULES_MAX == 1000


def test_a_time_is_not_stored_when_it_is_past(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    put, now = worker.control.schedules.put, store.clock.now
    assert store.run(put(store.project, "s", TICK, now)) is None
    assert store.run(put(store.project, "s", TICK, now + 1)) is True
    assert store.run(put(store.project, "s", TICK, now)) is None
    assert store.run(put(store.project, "s", TICK, 0)) is False


@pytest.mark.parametrize("step", ["before the post", "after the post", "after all"])
def test_each_time_is_posted_once_when_a_worker_dies(
    store: PooledContractStore, worker: ScheduleWorker, new_worker: NewWorker, step: str
) -> None:
    other = new_worker()
    # A queue that forgets idempotency keys soon.
    store.run(store.driver.queues.create(store.project, "q", {"_idempotency_window": 1}))
    first = worker.put()
    assert first.next == store.clock.now + MINUTE
    assert 0 < worker.round() <= 5
    store.clock.tick(60)
    if step == "after all":
        worker.dies(worker.control.schedules, "advance", after=True)
    else:
        worker.dies(worker.messages, "post", after=step == "after the post")
    store.clock.tick(5)
    other.round()
    assert store.listed() == ["tick"]
    assert other.get().last == first.next
    assert other.get().next == first.next + MINUTE
    store.clock.tick(55)
    assert other.round() <= 5
    assert store.listed() == ["tick"] * 2


def test_one_worker_posts_and_a_stalled_one_does_not_post_again(
    store: PooledContractStore, worker: ScheduleWorker, new_worker: NewWorker
) -> None:
    stalled = new_worker()
    worker.put()
    store.clock.tick(60)
    due = store.run(stalled.control.schedules.due(9))
    worker.round()
    # It has read what was due, and goes on when another has posted this time, and the next.
    store.run(stalled.service._fire(due.items[0], due.now))
    store.clock.tick(60)
    worker.round()
    store.run(stalled.service._fire(due.items[0], due.now))
    assert store.listed() == ["tick"] * 2
    store.clock.tick(60)
    assert stalled.round() == 1.0  # the other one does it
    assert store.listed() == ["tick"] * 2

    async def together() -> None:
        await asyncio.gather(worker.service.round(), stalled.service.round())

    worker.round()
    store.clock.tick(60)
    store.run(together())
    assert store.listed() == ["tick"] * 4


def test_what_was_replaced_or_deleted_does_not_post(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    worker.put()
    worker.put("gone")
    store.clock.tick(60)
    due = store.run(worker.control.schedules.due(9))
    changed = worker.put(message=NewMessage(b'"changed"', ttl=86_400))
    worker.delete("gone")
    assert changed.next == due.now + MINUTE
    for each in due.items:
        assert not store.run(worker.control.schedules.advance(each, each, due.now))
    worker.round()
    assert store.listed() == []
    store.clock.tick(60)
    worker.round()
    assert store.listed() == ["changed"]


@pytest.mark.parametrize("change", ["posted", "replaced", "paused", "deleted"])
def test_what_changes_between_the_index_and_the_schedule_does_not_post(
    store: PooledContractStore,
    worker: ScheduleWorker,
    new_worker: NewWorker,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    other = new_worker()
    due = worker.put().next
    store.clock.tick(60)

    async def changed() -> None:
        if change == "posted":
            await other.service.round()
            await other.service.resign()
        elif change == "deleted":
            await other.service.delete(store.project, "s")
        else:
            schedule = replace(TICK, paused=change == "paused")
            await other.service.put(store.project, "s", schedule)

    def slowly(entries: Sequence[bytes]) -> Steps[Sequence[StoredSchedule]]:
        monkeypatch.undo()
        yield changed()
        return (yield from read(entries))

    read = schedules._read
    monkeypatch.setattr(schedules, "_read", slowly)
    worker.round()
    posted = ["tick"] if change == "posted" else []
    assert store.listed() == posted
    if change == "deleted":
        return
    found = worker.get()
    assert (found.last, found.next) == (
        due if posted else 0,
        0 if change == "paused" else due + MINUTE,
    )
    indexed = 0 if change == "paused" else due + MINUTE
    assert store.run(worker.control.schedules.due(9)).next == indexed
    store.clock.tick(60)
    worker.round()
    assert store.listed() == [*posted, *(["tick"] if indexed else [])]


@pytest.mark.parametrize(
    ("missed", "late", "posts"),
    [
        ("latest", 0, 1),
        ("latest", DAY, 1),
        ("skip", DAY + 2 * MINUTE, 0),
        ("skip", DAY + MINUTE, 1),
    ],
)
def test_missed_times_are_posted_by_the_policy(
    store: PooledContractStore, worker: ScheduleWorker, missed: str, late: int, posts: int
) -> None:
    stored = worker.put(cron="0 * * * *", missed=missed)
    store.clock.now = stored.next + late
    worker.round()
    worker.round()
    assert len(store.listed()) == posts
    latest = stored.next + late - late % HOUR
    assert worker.get().last == (latest if posts else 0)
    assert worker.get().next == latest + HOUR


def test_paused_and_ended_schedules_post_nothing(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    now = store.clock.now
    worker.put(paused=True)
    worker.put("ended", until=now + 2 * MINUTE)
    store.clock.tick(3600)
    worker.round()  # what was missed before the end
    assert store.listed() == ["tick"]
    assert (worker.get("ended").last, worker.get("ended").next) == (now + 2 * MINUTE, 0)
    assert worker.put(paused=False).next == store.clock.now + MINUTE
    worker.round()
    assert store.listed() == ["tick"]


def test_refused_posts_are_noted_and_not_repeated(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    store.run(store.driver.queues.create(store.project, "q", {"_max_messages": 1}))
    worker.put()
    for _ in range(2):
        store.clock.tick(60)
        worker.round()
    found = worker.get()
    assert "takes at most 1 messages" in found.failure
    assert (found.last, found.next) == (store.clock.now, store.clock.now + MINUTE)
    worker.round()
    assert store.listed() == ["tick"]
    store.run(store.driver.queues.purge(store.project, "q"))
    store.clock.tick(60)
    worker.round()
    assert worker.get().failure == ""


def test_stores_that_are_away_are_asked_again(
    store: PooledContractStore, worker: ScheduleWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.put()
    worker.put("other", queue="there", message=NewMessage(b'"there"', ttl=86_400))
    post: Callable[..., Any] = worker.messages.post

    def away(project: str, queue: str, *args: Any, **how: Any) -> Any:
        if queue == "q":
            raise errors.StoreUnavailable(store="p1")
        return post(project, queue, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(worker.messages, "post", away)
        store.clock.tick(60)
        due = store.clock.now
        worker.round()  # it does not hold up others
        assert (store.listed(), store.listed("there")) == ([], ["there"])
        store.clock.tick(5)
        worker.round()
        assert (worker.get().next, worker.get().last) == (due, 0)
    store.clock.tick(5)
    worker.round()
    assert store.listed() == ["tick"]
    assert worker.get().last == due


def test_queue_that_moves_gets_each_post_once(
    store: PooledContractStore, worker: ScheduleWorker, new_worker: NewWorker
) -> None:
    worker.put()
    store.clock.tick(60)
    worker.dies(worker.messages, "post", after=True)
    source, target = store.route()
    store.run(store.driver.mover.move(store.project, "q", source, target))
    other = new_worker()
    other.round()
    assert store.listed() == ["tick"]
    store.clock.tick(60)
    other.round()
    assert (store.listed(), store.pool_of()) == (["tick"] * 2, target)


def test_clock_that_is_set_back_a_little_posts_nothing_twice(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    worker.put()
    for _ in range(3):
        store.clock.tick(60)
        worker.round()
    last = store.clock.now
    store.clock.tick(-150)
    worker.round()
    assert worker.put().next == last + MINUTE  # replaced, e.g. resumed
    for _ in range(4):
        store.clock.tick(50)
        worker.round()
    assert store.listed() == ["tick"] * 3
    store.clock.tick(10)
    worker.round()
    assert store.listed() == ["tick"] * 4


def test_clock_that_was_far_ahead_stops_nothing(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    worker.put()
    worker.put("daily", cron="@daily", queue="there")
    worker.put("skipping", cron="@daily", queue="skipped", missed="skip")
    now = store.clock.now
    store.clock.tick(365 * 86_400)
    worker.round()
    worker.put("new", cron="@daily")
    assert (len(store.listed()), len(store.listed("there"))) == (1, 1)
    store.clock.now = now + 30_000
    worker.round()
    store.clock.tick(30)
    worker.round()
    assert len(store.listed()) == 2
    assert worker.get().next == now + 2 * MINUTE
    for name in ("daily", "skipping", "new"):
        assert (worker.get(name).next, worker.get(name).last) == (now - now % DAY + DAY, 0)
    assert not store.run(worker.control.schedules.due(9)).set_back


def test_bodies_are_stored_encrypted(store: PooledContractStore, new_worker: NewWorker) -> None:
    worker = new_worker(BodyCipher("a key for tests"))
    store.run(store.driver.queues.create(store.project, "q", {"_enable_encrypt_messages": True}))
    assert worker.put().schedule.message.body == b'"tick"'
    listed = store.run(worker.control.schedules.list(store.project, "", 9))
    assert b"tick" not in listed.items[0].schedule.message.body
    store.clock.tick(60)
    worker.round()
    page = store.run(worker.messages.pop(store.project, "q", 1))
    assert [message.body for message in page] == [b'"tick"']


def test_evicted_schedules_leave_the_index(
    store: PooledContractStore, worker: ScheduleWorker
) -> None:
    worker.put()
    client = worker.control._client
    for key in store.run(client.command("KEYS", "zr:{control}:schedule:*")):
        store.run(client.command("DEL", key))
    store.clock.tick(60)
    worker.round()
    assert store.run(client.command("EXISTS", CONTROL.due_schedules)) == 0
    assert store.run(client.command("EXISTS", RoleKeys("schedules").role)) == 0
