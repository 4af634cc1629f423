# SPDX-License-Identifier: Apache-2.0
"""A worker enforces quotas, and shares the rates of requests with the others."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import pytest

from zaqar_redis import errors, rules
from zaqar_redis.records import NewMessage, Quota
from zaqar_redis.service import quota_enforcer
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.quotas import QuotaSettings
from zaqar_redis.service.usage import StoredUsage
from zaqar_redis.storage import pools

T = TypeVar("T")
LIMITS = rules.Limits()
#: Seconds: longer than any test.
_NEVER = 3000.0

pytestmark = pytest.mark.usefixtures("nothing_by_itself")


@pytest.fixture
def nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a worker would report, and be forgotten, between two steps of a test."""
    for name in ("_REPORT_INTERVAL", "_WORKER_TTL", "_LOOK_INTERVAL"):
        monkeypatch.setattr(quota_enforcer, name, _NEVER)


class QuotaWorker:
    """The services of a worker over a store in memory, with a clock for requests."""

    def __init__(self, uri: str, defaults: QuotaSettings) -> None:
        self.now = 0.0
        self.driver = pools.create(uri, uri, {})
        self.store = self.driver.control.quotas
        self.enforcer = QuotaEnforcer(self.driver, self.store, defaults, lambda: self.now)
        polls = LongPoll(None, 0)
        self.messages = MessageService(self.driver, LIMITS, None, polls, self.enforcer)
        self.queues = QueueService(self.driver, LIMITS, False, self.enforcer)

    async def start(self) -> None:
        await self.driver.start()
        await self.enforcer.start()

    async def close(self) -> None:
        await self.enforcer.close()
        await self.driver.close()

    def let_through(self, tries: int = 200, project: str = "p") -> int:
        """Returns how many of so many requests at once are let through."""
        done = 0
        for _ in range(tries):
            try:
                self.enforcer.check_request(project)
            except errors.TooManyRequests:
                continue
            done += 1
        return done

    async def post(self, *bodies: bytes, queue: str = "q", project: str = "p") -> None:
        drafts = [NewMessage(body=body) for body in bodies]
        await self.messages.post(project, queue, drafts, client="c", size=sum(map(len, bodies)))

    async def create(self, queue: str, project: str = "p") -> bool:
        return await self.queues.create(project, queue, {})

    async def measured(self, project: str = "p") -> StoredUsage:
        meter = self.enforcer.meter(project)
        assert meter
        await meter.measure()
        return meter.usage


@contextlib.asynccontextmanager
async def quota_workers(workers: int = 1, **limits: int) -> AsyncIterator[list[QuotaWorker]]:
    """Workers of one installation, whose options set these limits."""
    uri = f"memory://{uuid.uuid4()}"
    started = [QuotaWorker(uri, QuotaSettings(**limits)) for _ in range(workers)]
    for worker in started:
        await worker.start()
    try:
        yield started
    finally:
        for worker in started:
            await worker.close()


async def refused(call: Awaitable[Any], quota: str, limit: int, used: int) -> None:
    with pytest.raises(errors.QuotaExceeded) as error:
        await call
    found = error.value.fields
    assert (found["quota"], found["limit"], found["used"]) == (quota, limit, used)


async def test_without_quotas_everything_is_let_through() -> None:
    async with quota_workers() as (worker,):
        assert not worker.enforcer.limits_requests
        assert not worker.enforcer.limits_storage
        assert worker.let_through(1000) == 1000
        assert worker.enforcer.meter("p") is None
        worker.enforcer.add_socket("p")


async def test_topics_use_the_quotas_of_queues() -> None:
    async with quota_workers(queues=2) as (worker,):
        await worker.post(b"12", b"345")
        await worker.post(b"6", queue=rules.topic("t"))
        found = await worker.measured()
        assert (found.queues, found.messages) == (2, 3)
        await refused(worker.create(rules.topic("u")), "queues", 2, 2)


async def test_requests_beyond_the_rate_are_refused_until_there_is_a_token() -> None:
    async with quota_workers(requests=10) as (worker,):
        assert worker.let_through() == 10
        with pytest.raises(errors.TooManyRequests, match=r'"requests".*\bp\b.*10') as error:
            worker.enforcer.check_request("p")
        assert error.value.retry == 1
        assert worker.let_through(project="other") == 10
        worker.now += 1
        assert worker.let_through() == 10


async def test_workers_share_the_rate_of_a_project() -> None:
    async with quota_workers(workers=4, requests=32) as workers:
        for worker in workers:
            await worker.enforcer.report()
        assert [worker.let_through() for worker in workers] == [8, 8, 8, 8]
        for worker in workers:
            worker.now += 0.5
        assert [worker.let_through() for worker in workers] == [4, 4, 4, 4]


async def test_changed_quota_holds_after_the_next_report() -> None:
    async with quota_workers(requests=10) as (worker,):
        await worker.store.put("p", Quota(requests=-1))
        await worker.store.put("q", Quota(requests=3, messages=1))
        assert worker.let_through() == 10
        await worker.enforcer.report()
        assert (worker.let_through(), worker.let_through(project="q")) == (200, 3)
        await worker.post(b"1", project="q")
        await refused(worker.post(b"2", project="q"), "messages", 1, 1)
        await worker.store.delete("p")
        await worker.store.put("q", Quota(requests=30, messages=2))
        await worker.enforcer.report()
        assert worker.let_through() == 10
        assert worker.let_through(project="q") == 0
        worker.now += 1
        assert worker.let_through(project="q") == 30
        await worker.post(b"2", project="q")
        await refused(worker.post(b"3", project="q"), "messages", 2, 2)


async def test_messages_beyond_the_quota_are_refused_all_or_none() -> None:
    async with quota_workers(messages=5) as (worker,):
        await worker.post(b"1", b"2", b"3")
        await refused(worker.post(b"4", b"5", b"6"), "messages", 5, 3)
        assert (await worker.queues.stats("p", "q")).total == 3
        await worker.post(b"4", b"5", queue="other")
        await refused(worker.post(b"6"), "messages", 5, 5)
        await worker.post(b"1", project="another project")


async def test_bytes_beyond_the_quota_are_refused() -> None:
    async with quota_workers(bytes=1400) as (worker,):
        body = b'"' + b"x" * 498 + b'"'
        await worker.post(body)
        await refused(worker.post(body, body), "bytes", 1400, 500)
        await worker.post(body)
        assert 1000 < (await worker.measured()).bytes < 1400
        with pytest.raises(errors.QuotaExceeded):
            await worker.post(body)


async def test_queues_beyond_the_quota_are_refused_also_to_posts() -> None:
    async with quota_workers(queues=2) as (worker,):
        assert await worker.create("a")
        await worker.post(b"1", queue="b")
        await refused(worker.create("c"), "queues", 2, 2)
        await refused(worker.post(b"1", queue="c"), "queues", 2, 2)
        assert await worker.driver.queues.get("p", "c") is None
        assert not await worker.create("a")
        await worker.post(b"1", queue="b")
        assert (await worker.measured()).queues == 2
        assert not await worker.create("b")
        await worker.post(b"1", queue="a")
        await refused(worker.create("c"), "queues", 2, 2)


async def test_concurrent_posts_do_not_pass_the_quota_together() -> None:
    async with quota_workers(messages=10, queues=5) as (worker,):
        posts = (worker.post(b"1", queue=f"q{number % 7}") for number in range(50))
        answers = await asyncio.gather(*posts, return_exceptions=True)
        assert sum(answer is None for answer in answers) == 10
        assert (await worker.measured()).messages == 10
        assert (await worker.measured()).queues <= 5


async def test_measurement_finds_what_others_store_and_what_is_deleted() -> None:
    async with quota_workers(workers=2, messages=3) as (one, two):
        await one.post(b"1")
        await two.post(b"2", b"3")
        assert (await one.measured()).messages == 3
        await refused(one.post(b"4"), "messages", 3, 3)
        await two.queues.delete("p", "q")
        assert await one.measured() == StoredUsage()
        await one.post(b"1", b"2", b"3")


async def test_first_post_of_a_worker_knows_what_is_stored_already() -> None:
    async with quota_workers(workers=2, messages=2) as (one, two):
        await one.post(b"1", b"2")
        await refused(two.post(b"3"), "messages", 2, 2)


async def test_post_that_fails_uses_nothing_of_the_quota() -> None:
    async with quota_workers(messages=2) as (worker,):
        await worker.queues.create("p", "small", {"_max_messages_post_size": 10})
        drafts = [NewMessage(body=b"1"), NewMessage(body=b"2")]
        for _ in range(3):
            with pytest.raises(errors.BadRequest):
                await worker.messages.post("p", "small", drafts, client="c", size=11)
        await worker.post(b"1", b"2")


async def test_usage_of_many_queues_is_measured_in_pages() -> None:
    async with quota_workers(messages=1000) as (worker,):
        for number in range(250):
            await worker.post(b"1", queue=f"q{number}")
        assert (await worker.measured())[:2] == (250, 250)
        assert (await worker.enforcer.usage("p"))[:2] == (250, 250)


async def test_usage_of_a_project_without_quota_is_measured_when_it_is_asked_for() -> None:
    async with quota_workers() as (worker,):
        await worker.post(b"1")
        assert (await worker.enforcer.usage("p"))[:2] == (1, 1)


async def test_sockets_of_all_workers_count() -> None:
    async with quota_workers(workers=2, sockets=2) as (one, two):
        for worker in (one, two):
            worker.enforcer.add_socket("p")
        one.enforcer.add_socket("other")
        for worker in (one, two, one):
            await worker.enforcer.report()
        for worker in (one, two):
            with pytest.raises(errors.QuotaExceeded, match='"sockets"'):
                worker.enforcer.add_socket("p")
            assert worker.enforcer.sockets("p") == 2
        assert two.enforcer.sockets("other") == 1
        two.enforcer.remove_socket("p")
        two.enforcer.add_socket("p")
        two.enforcer.remove_socket("p")
        await two.enforcer.report()
        await one.enforcer.report()
        one.enforcer.add_socket("p")


async def test_meter_knows_whether_it_was_used_since_the_last_measurement() -> None:
    async with quota_workers(messages=10) as (worker,):
        await worker.post(b"1")
        meter = worker.enforcer.meter("p")
        assert meter
        assert meter.was_used
        for _ in range(2):
            await meter.measure()
            assert not meter.was_used
            await worker.post(b"2")
            assert meter.was_used
