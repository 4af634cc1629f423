# SPDX-License-Identifier: Apache-2.0
"""What a control store guarantees: pools, flavors, the catalogue, moves."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Iterator
from importlib import metadata
from typing import Any, Self, TypeVar

import pytest

from tests.support.clock import ManualClock
from tests.support.stores import PATIENT
from zaqar_redis import errors
from zaqar_redis.formats import CURRENT, StoreFormat, WorkerRelease
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import control_keys
from zaqar_redis.pool_records import Flavor, Job, Move, Pool, QueueLocation
from zaqar_redis.records import Quota, QuotaNews
from zaqar_redis.storage.control import DEFAULT_POOL, POOLS_MAX, QUOTAS_MAX
from zaqar_redis.storage.redis.control import RedisControl

T = TypeVar("T")
P = "a project/with {signs}"


class ControlStoreHarness:
    """A control store whose calls block until they are done."""

    def __init__(self, uri: str, runner: asyncio.Runner) -> None:
        self.clock = ManualClock()
        self.client = keyspace.client(uri, PATIENT)
        self.control = RedisControl(self.client, self.clock)
        self.catalogue = self.control.catalogue
        self._runner = runner

    def run(self, awaitable: Awaitable[T]) -> T:
        return self._runner.get_loop().run_until_complete(awaitable)

    def pool(self, name: str, weight: int = 100, **more: Any) -> bool:
        pool = Pool(name=name, uri=f"redis://{name}", weight=weight, **more)
        return bool(self.run(self.control.pools.put(pool, canonical=pool.uri)))

    def all_pools(self) -> list[Pool]:
        return list(self.run(self.control.pools.list()).items)

    def pools(self) -> list[str]:
        return [pool.name for pool in self.all_pools()]

    def flavor(self, name: str, *pools: str) -> bool:
        return self.run(self.control.flavors.put(name, pools))

    def assign(self, queue: str, pool: str, project: str = P) -> str | None:
        version = self.run(self.control.pools.list()).version
        return self.run(self.catalogue.assign(project, queue, pool, version))

    def where(self, queue: str, project: str = P) -> str | None:
        return self.run(self.catalogue.locate(project, queue)).pool

    def begin(self, queue: str, source: str, target: str) -> tuple[Move, Move | None]:
        move = Move(token=uuid.uuid4().hex, source=source, target=target)
        return move, self.run(self.catalogue.begin(P, queue, move))

    def queues_of(self, pool: str) -> list[tuple[str, str]]:
        placed = self.run(self.catalogue.queues_of(pool, "", 1000))
        return [(each.project, each.queue) for each in placed]

    @classmethod
    @contextlib.contextmanager
    def opened(cls, uri: str) -> Iterator[Self]:
        with asyncio.Runner() as runner:
            harness = cls(uri, runner)
            harness.run(harness.control.start())
            try:
                yield harness
            finally:
                harness.run(harness.control.close())


@pytest.fixture
def operator(control_uri: str) -> Iterator[ControlStoreHarness]:
    with ControlStoreHarness.opened(control_uri) as harness:
        harness.run(harness.client.command("FLUSHDB"))
        yield harness


def test_a_pool_is_stored_as_given(operator: ControlStoreHarness) -> None:
    pool = Pool(
        name="p.1",
        uri="redis://h\tx",
        weight=7,
        flavor="fast",
        options={"timeout": 1.5, "ä": [None]},
        draining=True,
    )
    assert operator.run(operator.control.pools.put(pool, canonical="redis://h:6379/0"))
    assert operator.run(operator.control.pools.get("p.1")) == pool
    assert operator.all_pools() == [pool]
    assert operator.run(operator.control.pools.get("p.2")) is None


def test_pools_are_listed_by_name_and_replaced_in_place(operator: ControlStoreHarness) -> None:
    assert [operator.pool(name) for name in ("b", "c", "a", "b")] == [True, True, True, False]
    assert operator.pools() == ["a", "b", "c"]
    operator.run(operator.control.pools.delete("b"))
    operator.run(operator.control.pools.delete("b"))
    assert operator.pools() == ["a", "c"]


def test_two_pools_cannot_share_a_store(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    same = Pool(name="b", uri="redis://A", weight=1)
    with pytest.raises(errors.UriTaken, match='"a"'):
        operator.run(operator.control.pools.put(same, canonical="redis://a"))
    assert operator.pools() == ["a"]
    operator.run(operator.control.pools.delete("a"))
    assert operator.run(operator.control.pools.put(same, canonical="redis://a"))


def test_assignment_of_queue_with_reserved_epoch_needs_that_epoch(
    operator: ControlStoreHarness,
) -> None:
    catalogue = operator.catalogue
    operator.pool("a")
    version = operator.run(operator.control.pools.list()).version

    def assign(expected_epoch: str | None) -> str | None:
        return operator.run(catalogue.assign(P, "q", "a", version, expected_epoch))

    assert operator.run(catalogue.locate(P, "q")).reserved_epoch == ""
    reserved_epoch = operator.run(catalogue.reserve_epoch(P, "q"))
    assert reserved_epoch.pool is None
    assert reserved_epoch.reserved_epoch
    assert operator.run(catalogue.reserve_epoch(P, "q")) == reserved_epoch
    assert operator.run(catalogue.locate(P, "q")) == reserved_epoch
    assert [assign(expected_epoch) for expected_epoch in ("", "another")] == [None, None]
    assert operator.where("q") is None
    assert assign(reserved_epoch.reserved_epoch) == "a"
    assert operator.run(catalogue.reserve_epoch(P, "q")) == QueueLocation("a")
    assert operator.run(catalogue.locate(P, "q")) == QueueLocation("a")
    assert assign("") == assign(None) == "a"


def test_reserved_epoch_is_dropped_when_pool_is_assigned_without_it(
    operator: ControlStoreHarness,
) -> None:
    catalogue = operator.catalogue
    operator.pool("a")
    for queue in ("existing", "put"):
        operator.run(catalogue.reserve_epoch(P, queue))
    operator.assign("existing", "a")
    operator.run(catalogue.put(P, "put", "a"))
    for queue in ("existing", "put"):
        assert operator.run(catalogue.locate(P, queue)) == QueueLocation("a")


def test_pool_update_with_stale_version_is_rejected(operator: ControlStoreHarness) -> None:
    pools = operator.control.pools
    one = Pool(name="one", uri="redis://one", weight=1)
    known = operator.run(pools.list()).version
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is True
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is None
    known = operator.run(pools.list()).version
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is False


def test_a_job_is_stored_until_it_ends(operator: ControlStoreHarness) -> None:
    jobs = operator.control.jobs
    assert operator.run(jobs.get("drain:one")) is None
    for job in (Job(running=True), Job(running=False, stayed=3, why=("p/q: full \u2603",))):
        operator.run(jobs.put("drain:one", job))
        assert operator.run(jobs.get("drain:one")) == job
    for _ in range(2):
        operator.run(jobs.end("drain:one"))
    assert operator.run(jobs.get("drain:one")) is None


def test_pool_with_queues_cannot_be_deleted(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.assign("q", "a")
    with pytest.raises(errors.PoolInUse, match=r"queues \(1\)"):
        operator.run(operator.control.pools.delete("a"))
    assert operator.pools() == ["a"]


def test_pools_of_a_move_cannot_be_deleted_before_it_ends(operator: ControlStoreHarness) -> None:
    """What settles a move whose mover died needs both stores."""
    operator.pool("a")
    operator.pool("b")

    def in_use() -> dict[str, int]:
        return {name: operator.run(operator.catalogue.count(name)) for name in ("a", "b")}

    def expect_in_use() -> None:
        assert in_use() == {"a": 1, "b": 1}
        for name in ("a", "b"):
            with pytest.raises(errors.PoolInUse, match=r"queues \(1\)"):
                operator.run(operator.control.pools.delete(name))

    operator.assign("q", "a")
    for end in ("withdraw", "commit"):
        move, _ = operator.begin("q", "a", "b")
        expect_in_use()
        if end == "withdraw":
            assert operator.run(operator.catalogue.withdraw(P, "q", move.token))
        else:
            assert operator.run(operator.catalogue.commit(P, "q", move))
        expect_in_use()
        operator.run(operator.catalogue.end(P, "q", move.token))
        assert in_use() == ({"a": 1, "b": 0} if end == "withdraw" else {"a": 0, "b": 1})
    operator.run(operator.control.pools.delete("a"))
    assert operator.pools() == ["b"]


def test_flavor_lists_its_pools_and_frees_them_when_replaced_or_deleted(
    operator: ControlStoreHarness,
) -> None:
    for name in ("a", "b", "c"):
        operator.pool(name)
    assert operator.flavor("fast", "b", "a")
    fast = Flavor(name="fast", pools=("a", "b"))
    assert operator.run(operator.control.flavors.get("fast")) == fast
    assert not operator.flavor("fast", "c")
    assert operator.run(operator.control.flavors.list()) == [Flavor(name="fast", pools=("c",))]
    flavors = [pool.flavor for pool in operator.all_pools()]
    assert flavors == ["", "", "fast"]
    operator.run(operator.control.flavors.delete("fast"))
    operator.run(operator.control.flavors.delete("fast"))
    assert operator.run(operator.control.flavors.get("fast")) is None
    assert not any(pool.flavor for pool in operator.all_pools())


def test_flavor_of_a_missing_pool_is_refused_and_changes_nothing(
    operator: ControlStoreHarness,
) -> None:
    operator.pool("a")
    with pytest.raises(errors.NoSuchPool, match='"b"'):
        operator.flavor("fast", "a", "b")
    assert operator.run(operator.control.flavors.list()) == []
    assert [pool.flavor for pool in operator.all_pools()] == [""]


def test_last_pool_of_a_flavor_cannot_be_deleted_before_it_leaves_the_flavor(
    operator: ControlStoreHarness,
) -> None:
    operator.pool("a")
    operator.pool("b")
    operator.flavor("fast", "a", "b")
    operator.run(operator.control.pools.delete("b"))
    with pytest.raises(errors.FlavorEmptied, match='"fast"'):
        operator.run(operator.control.pools.delete("a"))
    assert not operator.pool("a", flavor="")
    assert operator.run(operator.control.flavors.list()) == [Flavor(name="fast", pools=())]
    operator.run(operator.control.pools.delete("a"))
    assert operator.pools() == []


def test_a_flavor_may_take_the_last_pool_of_another(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.flavor("fast", "a")
    assert operator.flavor("slow", "a")
    flavors = {
        flavor.name: flavor.pools for flavor in operator.run(operator.control.flavors.list())
    }
    assert flavors == {"fast": (), "slow": ("a",)}
    assert not operator.pool("a", flavor="fast")
    assert operator.run(operator.control.flavors.get("slow")) == Flavor(name="slow", pools=())


def test_number_of_pools_is_limited(operator: ControlStoreHarness) -> None:
    for number in range(POOLS_MAX):
        operator.pool(f"p{number}")
    with pytest.raises(errors.LimitExceeded, match=str(POOLS_MAX)):
        operator.pool("one more")
    assert not operator.pool("p1")
    assert len(operator.pools()) == POOLS_MAX


def test_second_assignment_of_a_queue_returns_the_pool_of_the_first(
    operator: ControlStoreHarness,
) -> None:
    operator.pool("a")
    operator.pool("b")
    assert operator.where("q") is None
    assert operator.assign("q", "a") == "a"
    assert operator.assign("q", "b") == "a"
    assert operator.assign("q", DEFAULT_POOL) == "a"
    assert operator.assign("other", DEFAULT_POOL) == DEFAULT_POOL
    assert operator.assign("q", "b", project="another") == "b"
    assert (operator.where("q"), operator.where("q", "another")) == ("a", "b")
    assert operator.run(operator.catalogue.pools_of(P)) == {"a": 1, DEFAULT_POOL: 1}
    assert operator.queues_of("a") == [(P, "q")]


def test_assignment_with_stale_pool_version_is_rejected(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    changes = (
        lambda: operator.pool("a", weight=0),
        lambda: operator.pool("a", draining=True),
        lambda: operator.pool("b"),
        lambda: operator.flavor("fast", "a"),
        lambda: operator.run(operator.control.flavors.delete("fast")),
        lambda: operator.run(operator.control.pools.delete("a")),
    )
    for change in changes:
        version = operator.run(operator.control.pools.list()).version
        change()
        assert operator.run(operator.catalogue.assign(P, "q", "a", version)) is None
        assert operator.where("q") is None
    assert operator.run(operator.catalogue.pools_of(P)) == {}


def test_the_queues_of_a_pool_come_in_pages(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    for number in range(25):
        operator.assign(f"q{number:02}", "a")
    found: list[str] = []
    after = ""
    while page := operator.run(operator.catalogue.queues_of("a", after, 10)):
        found += [placed.queue for placed in page]
        after = page[-1].marker
    assert found == [f"q{number:02}" for number in range(25)]
    assert operator.run(operator.catalogue.count("a")) == 25


def test_names_of_a_project_in_a_pool_come_in_pages_without_deleted_ones(
    operator: ControlStoreHarness,
) -> None:
    operator.pool("a")
    operator.pool("b")
    names = [f"q{number:02}" for number in range(7)]
    for name in names:
        operator.assign(name, "a")
    operator.assign("elsewhere", "b")
    version = operator.run(operator.control.pools.list()).version
    for project in (f"{P}-", f"{P}0", P[:-1], f"{P}/{P}"):  # entries beside those of P
        operator.run(operator.catalogue.assign(project, "other", "a", version))
    operator.run(operator.catalogue.deleted(P, "q01"))

    def page(after: str, limit: int) -> tuple[list[str], str]:
        found = operator.run(operator.catalogue.names(P, "a", after, limit))
        return list(found.items), found.marker

    assert page("", 3) == (["q00", "q02"], "q02")
    assert page("q02", 3) == (names[3:6], "q05")
    assert page("q05", 3) == (["q06"], "")
    assert page("q03a", 100) == (names[4:], "")
    assert page("q06", 1) == ([], "")
    operator.assign("topic:t", "a")
    operator.assign("topic-1", "a")
    assert page("q06", 1) == (["topic-1"], "topic-1")
    assert page("topic-1", 1) == ([], "topic:t")


def test_deleted_queue_keeps_its_catalogue_entry_for_a_while(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.assign("q", "a")
    operator.run(operator.catalogue.deleted(P, "q"))
    operator.run(operator.catalogue.deleted(P, "never was"))
    assert operator.where("q") == "a"
    assert operator.run(operator.catalogue.deleted_since(1000, 0, 10)) == []
    operator.clock.tick(2)
    (placed,) = operator.run(operator.catalogue.deleted_since(1000, 0, 10))
    assert (placed.project, placed.queue, placed.pool) == (P, "q", "a")
    assert not operator.run(operator.catalogue.release(P, "q", "b"))
    assert operator.run(operator.catalogue.release(P, "q", "a"))
    assert not operator.run(operator.catalogue.release(P, "q", "a"))
    assert operator.where("q") is None
    assert operator.run(operator.catalogue.pools_of(P)) == {}
    operator.run(operator.control.pools.delete("a"))


def test_catalogue_entry_of_recreated_queue_is_not_released(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    for queue in ("again", "alive"):
        operator.assign(queue, "a")
        operator.run(operator.catalogue.deleted(P, queue))
    operator.clock.tick(2)
    assert operator.assign("again", "b") == "a"
    operator.run(operator.catalogue.alive(P, "alive"))
    for queue in ("again", "alive"):
        assert not operator.run(operator.catalogue.release(P, queue, "a"))
        assert operator.where(queue) == "a"


def test_a_move_is_committed_once_and_for_all(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.pool("b")
    operator.assign("q", "a")
    move, earlier = operator.begin("q", "a", "b")
    assert earlier is None
    located = operator.run(operator.catalogue.locate(P, "q"))
    assert located == QueueLocation(pool="a", move=move)
    for _ in range(2):
        assert operator.run(operator.catalogue.commit(P, "q", move))
    located = operator.run(operator.catalogue.locate(P, "q"))
    assert located.pool == "b"
    assert located.move
    assert located.move.committed
    assert operator.run(operator.catalogue.pools_of(P)) == {"b": 1}
    assert (operator.queues_of("a"), operator.queues_of("b")) == ([], [(P, "q")])
    ((placed, listed),) = operator.run(operator.catalogue.moves())
    assert (placed.queue, listed.token) == ("q", move.token)
    operator.run(operator.catalogue.end(P, "q", "another"))
    assert len(operator.run(operator.catalogue.moves())) == 1
    operator.run(operator.catalogue.end(P, "q", move.token))
    assert operator.run(operator.catalogue.moves()) == []


def test_unfinished_move_blocks_commit_of_a_later_one(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.pool("b")
    operator.assign("q", "a")
    first, _ = operator.begin("q", "a", "b")
    second, earlier = operator.begin("q", "a", "b")
    assert earlier == first
    assert not operator.run(operator.catalogue.commit(P, "q", second))
    assert operator.where("q") == "a"


def test_move_from_wrong_pool_or_to_unusable_pool_is_refused(operator: ControlStoreHarness) -> None:
    operator.pool("a")
    operator.pool("shut", draining=True)
    operator.assign("q", "a")
    with pytest.raises(errors.QueueNotInPool, match='"a"'):
        operator.begin("q", "b", "a")
    for target in ("shut", "gone"):
        with pytest.raises(errors.NoSuchPool, match=target):
            operator.begin("q", "a", target)
    assert operator.run(operator.catalogue.moves()) == []


def test_queue_without_catalogue_entry_moves_from_default_pool(
    operator: ControlStoreHarness,
) -> None:
    operator.pool("a")
    move, _ = operator.begin("old", DEFAULT_POOL, "a")
    assert operator.where("old") == DEFAULT_POOL
    operator.run(operator.catalogue.commit(P, "old", move))
    assert operator.where("old") == "a"
    assert operator.run(operator.catalogue.pools_of(P)) == {"a": 1}


def test_leader_role_is_held_by_one_process_at_a_time(
    control_uri: str, operator: ControlStoreHarness
) -> None:
    with ControlStoreHarness.opened(control_uri) as other:
        assert operator.run(operator.control.lead("mover", 60))
        assert operator.run(operator.control.lead("mover", 0.05))
        for _ in range(100):
            if other.run(other.control.lead("mover", 60)):
                break
            other.run(asyncio.sleep(0.01))
        assert not operator.run(operator.control.lead("mover", 60))
        operator.run(operator.control.resign("mover"))  # it does not hold the role
        assert not operator.run(operator.control.lead("mover", 60))
        other.run(other.control.resign("mover"))
        assert operator.run(operator.control.lead("mover", 60))
        assert operator.run(operator.control.lead("another role", 60))


def test_changes_of_pools_and_queues_notify_watchers(operator: ControlStoreHarness) -> None:
    events: list[tuple[str, str] | None] = []
    operator.run(operator.control.watch(events.append))

    def expect(expected: tuple[str, str] | None) -> None:
        for _ in range(6000):
            if events:
                break
            operator.run(asyncio.sleep(0.01))
        assert events == [expected]
        events.clear()

    expect(None)  # the first event: earlier changes are unknown
    operator.pool("a")
    expect(None)
    operator.pool("b")
    expect(None)
    operator.assign("q", "a")
    expect((P, "q"))
    move, _ = operator.begin("q", "a", "b")
    operator.run(operator.catalogue.commit(P, "q", move))
    expect((P, "q"))
    operator.flavor("fast", "a")
    expect(None)


def test_quota_is_stored_as_given_replaced_and_deleted(operator: ControlStoreHarness) -> None:
    quotas = operator.control.quotas
    first, second = Quota(requests=5, messages=-1), Quota(queues=0, bytes=2**62, sockets=1)
    assert operator.run(quotas.get(P)) is None
    operator.run(quotas.put(P, first))
    operator.run(quotas.put("other", second))
    assert operator.run(quotas.get(P)) == first
    assert operator.run(quotas.list()) == {P: first, "other": second}
    operator.run(quotas.put(P, second))
    assert operator.run(quotas.get(P)) == second
    for _ in range(2):
        operator.run(quotas.delete(P))
    assert operator.run(quotas.list()) == {"other": second}


def test_number_of_quotas_is_limited(operator: ControlStoreHarness) -> None:
    quotas = operator.control.quotas
    stored = [part for number in range(QUOTAS_MAX) for part in (f"p{number}", "{}")]
    operator.run(operator.client.command("HSET", control_keys.CONTROL.quotas, *stored))
    with pytest.raises(errors.LimitExceeded, match=str(QUOTAS_MAX)):
        operator.run(quotas.put("one more", Quota()))
    operator.run(quotas.put("p0", Quota(queues=1)))
    assert operator.run(quotas.get("one more")) is None
    assert operator.run(quotas.get("p0")) == Quota(queues=1)


def test_report_returns_quotas_when_they_have_changed(operator: ControlStoreHarness) -> None:
    quotas = operator.control.quotas

    def report(version: int | None) -> QuotaNews:
        return operator.run(quotas.report("w", 5.0, {}, version))

    news = report(None)
    assert news.quotas == {}
    assert report(news.version) == QuotaNews(news.version, [], None)
    operator.run(quotas.put(P, Quota(queues=3)))
    changed = report(news.version)
    assert changed.quotas == {P: Quota(queues=3)}
    operator.run(quotas.delete(P))
    assert report(changed.version).quotas == {}


def test_report_returns_sockets_of_other_live_workers(operator: ControlStoreHarness) -> None:
    def report(worker: str, seconds: float, sockets: dict[str, int]) -> list[dict[str, int]]:
        news = operator.run(operator.control.quotas.report(worker, seconds, sockets, None))
        return list(news.others)

    assert report("one", 5.0, {P: 2}) == []
    assert report("two", 60.0, {}) == [{P: 2}]
    assert report("one", 5.0, {P: 3, "q": 1}) == [{}]
    assert report("two", 60.0, {}) == [{P: 3, "q": 1}]
    operator.clock.tick(4.9)
    assert report("two", 60.0, {}) == [{P: 3, "q": 1}]
    operator.clock.tick(0.2)
    assert report("two", 60.0, {}) == []
    assert report("one", 5.0, {}) == [{}]


def test_format_without_a_mark_is_the_first_and_is_only_raised(
    operator: ControlStoreHarness,
) -> None:
    mark = operator.control.format
    assert operator.run(mark.get()) == StoreFormat(1, 1)
    for each in ((5, 2), (4, 3), (3, 1)):
        operator.run(mark.raise_to(*each))
    assert operator.run(mark.get()) == StoreFormat(5, 3)


def test_workers_are_listed_with_their_releases_until_they_are_silent(
    operator: ControlStoreHarness,
) -> None:
    quotas = operator.control.quotas
    operator.run(quotas.report("one", 5.0, {}, None))
    release = metadata.version("zaqar-redis")
    assert operator.run(quotas.workers()) == [WorkerRelease(release, CURRENT.version)]
    report = f"{operator.clock() + 10_000} {{}}"
    operator.run(operator.client.command("HSET", control_keys.CONTROL.workers, "old", report))
    assert WorkerRelease("", 1) in operator.run(quotas.workers())
    operator.clock.tick(6)
    assert operator.run(quotas.workers()) == [WorkerRelease("", 1)]
    operator.clock.tick(6)
    assert operator.run(quotas.workers()) == []
