# SPDX-License-Identifier: Apache-2.0
"""What a control store promises: pools, flavors, the catalogue, moves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest

from tests.contract.conftest import BACKENDS
from tests.contract.stores import OwnedClock
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.records import Flavor, Job, Located, Move, Pool
from zaqar_redis.storage.control import DEFAULT, POOLS_MAX
from zaqar_redis.storage.drivers.redis.control import RedisControl

T = TypeVar("T")
P = "a project/with {signs}"


class Operator:
    """A control store whose calls are done when they return."""

    def __init__(self, uri: str, runner: asyncio.Runner) -> None:
        self.clock = OwnedClock()
        self.client = keyspace.client(uri, BatchSettings())
        self.control = RedisControl(self.client, self.clock)
        self.catalogue = self.control.catalogue
        self._runner = runner

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

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


@pytest.fixture(scope="module", params=["memory", "redis", "valkey"])
def own_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as uri:
        yield uri


@pytest.fixture
def operator(own_uri: str) -> Iterator[Operator]:
    with asyncio.Runner() as runner:
        made = Operator(own_uri, runner)
        made.run(made.control.start())
        made.run(made.client.command("FLUSHDB"))
        try:
            yield made
        finally:
            made.run(made.control.close())


def test_a_pool_is_kept_as_it_was_given(operator: Operator) -> None:
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


def test_pools_are_listed_by_name_and_replaced_in_place(operator: Operator) -> None:
    assert [operator.pool(name) for name in ("b", "c", "a", "b")] == [True, True, True, False]
    assert operator.pools() == ["a", "b", "c"]
    operator.run(operator.control.pools.delete("b"))
    operator.run(operator.control.pools.delete("b"))
    assert operator.pools() == ["a", "c"]


def test_two_pools_are_never_one_store(operator: Operator) -> None:
    operator.pool("a")
    same = Pool(name="b", uri="redis://A", weight=1)
    with pytest.raises(errors.UriTaken, match='"a"'):
        operator.run(operator.control.pools.put(same, canonical="redis://a"))
    assert operator.pools() == ["a"]
    operator.run(operator.control.pools.delete("a"))
    assert operator.run(operator.control.pools.put(same, canonical="redis://a"))


def test_a_queue_gets_a_pool_that_was_told_its_epoch(operator: Operator) -> None:
    catalogue = operator.catalogue
    operator.pool("a")
    version = operator.run(operator.control.pools.list()).version

    def assign(told: str | None) -> str | None:
        return operator.run(catalogue.assign(P, "q", "a", version, told))

    assert operator.run(catalogue.locate(P, "q")).promised == ""
    promised = operator.run(catalogue.promise(P, "q"))
    assert promised.pool is None
    assert promised.promised
    assert operator.run(catalogue.promise(P, "q")) == promised
    assert operator.run(catalogue.locate(P, "q")) == promised
    assert [assign(told) for told in ("", "another")] == [None, None]
    assert operator.where("q") is None
    assert assign(promised.promised) == "a"
    assert operator.run(catalogue.promise(P, "q")) == Located("a")
    assert operator.run(catalogue.locate(P, "q")) == Located("a")
    assert assign("") == assign(None) == "a"


def test_what_was_promised_is_over_when_a_queue_gets_a_pool_that_was_not_told(
    operator: Operator,
) -> None:
    catalogue = operator.catalogue
    operator.pool("a")
    for queue in ("is there", "put"):
        operator.run(catalogue.promise(P, queue))
    operator.assign("is there", "a")
    operator.run(catalogue.put(P, "put", "a"))
    for queue in ("is there", "put"):
        assert operator.run(catalogue.locate(P, queue)) == Located("a")


def test_a_change_of_what_has_changed_since_does_not_count(operator: Operator) -> None:
    pools = operator.control.pools
    one = Pool(name="one", uri="redis://one", weight=1)
    known = operator.run(pools.list()).version
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is True
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is None
    known = operator.run(pools.list()).version
    assert operator.run(pools.put(one, canonical=one.uri, version=known)) is False


def test_a_job_is_kept_until_it_ends(operator: Operator) -> None:
    jobs = operator.control.jobs
    assert operator.run(jobs.get("drain:one")) is None
    for job in (Job(running=True), Job(running=False, stayed=3, why=("p/q: full \u2603",))):
        operator.run(jobs.put("drain:one", job))
        assert operator.run(jobs.get("drain:one")) == job
    for _ in range(2):
        operator.run(jobs.end("drain:one"))
    assert operator.run(jobs.get("drain:one")) is None


def test_a_pool_with_queues_stays(operator: Operator) -> None:
    operator.pool("a")
    operator.assign("q", "a")
    with pytest.raises(errors.PoolInUse, match=r"queues \(1\)"):
        operator.run(operator.control.pools.delete("a"))
    assert operator.pools() == ["a"]


def test_a_flavor_is_its_pools(operator: Operator) -> None:
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


def test_a_flavor_of_a_pool_that_is_not_there_changes_nothing(operator: Operator) -> None:
    operator.pool("a")
    with pytest.raises(errors.NoSuchPool, match='"b"'):
        operator.flavor("fast", "a", "b")
    assert operator.run(operator.control.flavors.list()) == []
    assert [pool.flavor for pool in operator.all_pools()] == [""]


def test_a_pool_that_a_flavor_needs_stays_until_it_is_freed(operator: Operator) -> None:
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


def test_a_flavor_may_take_the_last_pool_of_another(operator: Operator) -> None:
    operator.pool("a")
    operator.flavor("fast", "a")
    assert operator.flavor("slow", "a")
    flavors = {
        flavor.name: flavor.pools for flavor in operator.run(operator.control.flavors.list())
    }
    assert flavors == {"fast": (), "slow": ("a",)}
    assert not operator.pool("a", flavor="fast")
    assert operator.run(operator.control.flavors.get("slow")) == Flavor(name="slow", pools=())


def test_there_is_an_end_to_pools(operator: Operator) -> None:
    for number in range(POOLS_MAX):
        operator.pool(f"p{number}")
    with pytest.raises(errors.TooMany, match=str(POOLS_MAX)):
        operator.pool("one more")
    assert not operator.pool("p1")
    assert len(operator.pools()) == POOLS_MAX


def test_whoever_comes_second_gets_the_first_s_pool(operator: Operator) -> None:
    operator.pool("a")
    operator.pool("b")
    assert operator.where("q") is None
    assert operator.assign("q", "a") == "a"
    assert operator.assign("q", "b") == "a"
    assert operator.assign("q", DEFAULT) == "a"
    assert operator.assign("other", DEFAULT) == DEFAULT
    assert operator.assign("q", "b", project="another") == "b"
    assert (operator.where("q"), operator.where("q", "another")) == ("a", "b")
    assert operator.run(operator.catalogue.pools_of(P)) == {"a": 1, DEFAULT: 1}
    assert operator.queues_of("a") == [(P, "q")]


def test_a_choice_among_pools_that_have_changed_does_not_count(operator: Operator) -> None:
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


def test_the_queues_of_a_pool_come_in_pages(operator: Operator) -> None:
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


def test_a_deleted_queue_keeps_its_place_for_a_while(operator: Operator) -> None:
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


def test_a_queue_that_is_made_again_is_not_forgotten(operator: Operator) -> None:
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


def test_a_move_is_committed_once_and_for_all(operator: Operator) -> None:
    operator.pool("a")
    operator.pool("b")
    operator.assign("q", "a")
    move, earlier = operator.begin("q", "a", "b")
    assert earlier is None
    located = operator.run(operator.catalogue.locate(P, "q"))
    assert located == Located(pool="a", move=move)
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


def test_an_earlier_move_is_settled_first(operator: Operator) -> None:
    operator.pool("a")
    operator.pool("b")
    operator.assign("q", "a")
    first, _ = operator.begin("q", "a", "b")
    second, earlier = operator.begin("q", "a", "b")
    assert earlier == first
    assert not operator.run(operator.catalogue.commit(P, "q", second))
    assert operator.where("q") == "a"


def test_a_move_from_or_to_elsewhere_is_refused(operator: Operator) -> None:
    operator.pool("a")
    operator.pool("shut", draining=True)
    operator.assign("q", "a")
    with pytest.raises(errors.NotThere, match='"a"'):
        operator.begin("q", "b", "a")
    for target in ("shut", "gone"):
        with pytest.raises(errors.NoSuchPool, match=target):
            operator.begin("q", "a", target)
    assert operator.run(operator.catalogue.moves()) == []


def test_a_queue_older_than_the_catalogue_moves_from_home(operator: Operator) -> None:
    operator.pool("a")
    move, _ = operator.begin("old", DEFAULT, "a")
    assert operator.where("old") == DEFAULT
    operator.run(operator.catalogue.commit(P, "old", move))
    assert operator.where("old") == "a"
    assert operator.run(operator.catalogue.pools_of(P)) == {"a": 1}


def test_one_process_leads(own_uri: str, operator: Operator) -> None:
    with asyncio.Runner() as runner:
        other = Operator(own_uri, runner)
        other.run(other.control.start())
        try:
            assert operator.run(operator.control.lead("mover", 60))
            assert operator.run(operator.control.lead("mover", 0.05))
            for _ in range(100):
                if other.run(other.control.lead("mover", 60)):
                    break
                other.run(asyncio.sleep(0.01))
            assert not operator.run(operator.control.lead("mover", 60))
            operator.run(operator.control.resign("mover"))  # not its to give up
            assert not operator.run(operator.control.lead("mover", 60))
            other.run(other.control.resign("mover"))
            assert operator.run(operator.control.lead("mover", 60))
            assert operator.run(operator.control.lead("another role", 60))
        finally:
            other.run(other.control.close())


def test_changes_are_news(operator: Operator) -> None:
    heard: list[tuple[str, str] | None] = []
    operator.run(operator.control.watch(heard.append))

    def hears(expected: tuple[str, str] | None) -> None:
        for _ in range(500):
            if heard:
                break
            operator.run(asyncio.sleep(0.01))
        assert heard == [expected]
        heard.clear()

    hears(None)  # to begin with: what was before is not known
    operator.pool("a")
    hears(None)
    operator.pool("b")
    hears(None)
    operator.assign("q", "a")
    hears((P, "q"))
    move, _ = operator.begin("q", "a", "b")
    operator.run(operator.catalogue.commit(P, "q", move))
    hears((P, "q"))
    operator.flavor("fast", "a")
    hears(None)
