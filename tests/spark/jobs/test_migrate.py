# SPDX-License-Identifier: Apache-2.0
"""The job ``migrate``: queues move whole, whoever uses them and whoever dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.faults import load
from tests.spark.jobs import commands
from tests.spark.jobs.stores import House, content, gate, running_servers
from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.spark.jobs import migrate as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.migrate import Chosen
from zaqar_redis.spark.jobs.migrating.between import Between
from zaqar_redis.spark.jobs.migrating.way import Way
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage.drivers.redis.roles import Roles

#: What a queue must have for tasks to copy it.
LARGE = 12_000


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, dict[str, str]]]:
    with running_servers() as made:
        yield made


@pytest.fixture
def house(addresses: tuple[str, dict[str, str]], project: str) -> Iterator[House]:
    made = House(*addresses, project)
    yield made
    made.close()


@pytest.fixture
def elsewhere(project: str) -> Iterator[House]:
    """Another store, which knows nothing of the first."""
    with servers.redis_server() as server:
        made = House(server.uri, {}, project)
        yield made
        made.close()


def move(spark: SparkSession, house: House, *queues: str, **to: Any) -> Report:
    given = {"to_pool": house.other(queues[0])} | to if "to" not in to else to
    return added_up(job.migrate(spark, house.at, Chosen(queues), **given))


def added_up(report: Report) -> Report:
    """The report, if its sums are right."""
    whole, parts = report.counts["messages read"], report.counts["messages"]
    queues = report.counts["queues"]
    assert isinstance(whole, dict)
    assert isinstance(parts, dict)
    assert isinstance(queues, dict)
    assert sum(whole.values()) == sum(parts.values())
    assert sum(queues.values()) == len(report.details["by queue"])
    by_queue = [each for each in report.details["by queue"].values() if isinstance(each, dict)]
    assert sum(each["messages"] for each in by_queue) == next(iter(whole.values()))
    return report


def counts(report: Report, what: str) -> dict[str, int]:
    found = report.counts[what]
    assert isinstance(found, dict)
    return {name: number for name, number in found.items() if number}


def test_a_large_queue_moves_with_everything_it_has(spark: SparkSession, house: House) -> None:
    house.fill("q", LARGE)
    before, source, target = house.content("q"), house.pool("q"), house.other("q")
    report = move(spark, house, "q")
    assert house.pool("q") == target
    assert house.content("q") == before
    assert house.content("q", source) == {}
    assert counts(report, "queues") == {"moved": 1}
    assert counts(report, "messages read") == {"moved": LARGE}
    assert counts(report, "messages") == {"read in use": LARGE}
    about = report.details["by queue"]["q"]
    assert about["seconds frozen"] < 10
    assert about["verified"] == "all counts, and checksums of 1 ranges"
    again = move(spark, house, "q", to_pool=target)
    assert counts(again, "queues") == {"already there": 1}
    assert house.content("q") == before


def test_small_queues_move_without_tasks_and_home_is_a_pool_too(
    spark: SparkSession, house: House
) -> None:
    house.fill("a", 30)
    house.create("empty", colour="red")
    before = house.content("a"), house.content("empty")
    report = added_up(job.migrate(spark, house.at, Chosen(pattern="a|empty"), to_pool="default"))
    assert counts(report, "queues") == {"moved": 2}
    assert counts(report, "messages") == {"read frozen": 30}
    assert (house.pool("a"), house.pool("empty")) == ("default", "default")
    assert (house.content("a"), house.content("empty")) == before


def test_only_queues_of_the_pool_and_of_the_project_move(
    spark: SparkSession, house: House, addresses: tuple[str, dict[str, str]]
) -> None:
    stranger = House(*addresses, f"{house.project}-stranger")
    names = [f"q{number}" for number in range(6)]
    for name in names:
        house.post(name, name)
        stranger.post(name, name)
    places = {name: stranger.pool(name) for name in names}
    mine = [name for name in names if house.pool(name) == "one"]
    report = added_up(job.migrate(spark, house.at, Chosen(pool="one"), to_pool="two"))
    assert set(report.details["by queue"]) == set(mine)
    assert {house.pool(name) for name in names} == {"two"}
    assert {name: stranger.pool(name) for name in names} == places
    stranger.close()


def test_a_queue_in_use_over_http_loses_and_doubles_nothing(
    spark: SparkSession, house: House
) -> None:
    old = [f"old {number}" for number in range(2 * LARGE)]
    with (
        servers.service(house.uri, options=load.OPTIONS) as service,
        load.Load(service, house.project) as clients,
    ):
        house.post("busy", *old)
        clients.posted.update(old)
        clients.wait_for_more()
        for _ in range(2):
            target = house.other("busy")
            report = move(spark, house, "busy")
            assert counts(report, "queues") == {"moved": 1}
            assert house.pool("busy") == target
            clients.wait_for_more()
        clients.stop()
        clients.check()
        assert set(clients.statuses) <= {201, 204, 503}
        last = int(house.content("busy")["queue"][b"rank"])
        assert len(clients.posted) <= last <= len(clients.posted) + len(clients.unsure)


def test_what_is_posted_and_deleted_meanwhile_is_in_the_sums(
    spark: SparkSession, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.post("q", *range(LARGE))
    copy = Way._copy

    def and_then(self: Way, *where: Any) -> Any:
        copied = copy(self, *where)
        house.remove("q", *[message.id for message in house.claim("q", 100).messages])
        house.post("q", *range(LARGE, LARGE + 50))
        return copied

    monkeypatch.setattr(Way, "_copy", and_then)
    report = move(spark, house, "q")
    assert counts(report, "messages read") == {"moved": LARGE - 50, "gone meanwhile": 100}
    assert counts(report, "messages") == {"read in use": LARGE, "read frozen": 50}
    assert house.bodies("q") == list(range(100, LARGE + 50))


def test_a_queue_that_is_made_anew_meanwhile_moves_as_it_is_then(
    spark: SparkSession, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.post("q", *range(LARGE))
    copy = Way._copy

    def and_then(self: Way, *where: Any) -> Any:
        copied = copy(self, *where)
        house.delete("q")
        house.post("q", "new", "newer")
        return copied

    monkeypatch.setattr(Way, "_copy", and_then)
    report = move(spark, house, "q")
    assert counts(report, "messages read") == {"moved": 2}
    assert house.bodies("q") == ["new", "newer"]


def test_a_copy_that_is_not_alike_is_not_relied_upon(
    spark: SparkSession, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.fill("q", 50)
    before, source, target = house.content("q"), house.pool("q"), house.other("q")
    verify = Way._verify

    def tampered(self: Way, project: str, queue: str, staged: int) -> None:
        key = f"zr:{{{project}/{queue}}}:bodies"
        house.client(house.stores.uri_of(target)).command("HDEL", key, 7)
        verify(self, project, queue, staged)

    monkeypatch.setattr(Way, "_verify", tampered)
    report = move(spark, house, "q")
    assert not report.good
    assert "bodies: 50 and 49" in report.details["by queue"]["q"]
    assert house.pool("q") == source
    assert house.content("q") == before
    assert house.content("q", target) == {}
    house.post("q", "as if nothing had been", delay=0)


def test_a_queue_moves_to_another_store(
    spark: SparkSession, house: House, elsewhere: House
) -> None:
    house.fill("q", LARGE)
    before, source = house.content("q"), house.pool("q")
    report = move(spark, house, "q", to=elsewhere.at)
    assert counts(report, "queues") == {"moved": 1}
    assert counts(report, "messages read") == {"moved": LARGE}
    assert elsewhere.content("q") == before
    assert elsewhere.stores.queues() == ["q"]
    assert house.content("q", source) == {}
    assert house.stores.queues() == []
    again = move(spark, house, "q", to=elsewhere.at)
    assert counts(again, "queues") == {"already there": 1}
    assert elsewhere.content("q") == before
    # The name is free again in the old store.
    with servers.service(house.uri) as service, _client(house, service) as client:
        posted = client.post("/v2/queues/q/messages", json={"messages": [{"body": 1}]})
        assert posted.status_code == 201
    both = move(spark, house, "q", to=elsewhere.at)
    assert counts(both, "queues") == {"failed": 1}
    assert "the target has a queue of this name" in both.details["by queue"]["q"]
    assert elsewhere.content("q") == before


def _client(house: House, service: servers.Service) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers=load.headers(house.project))


def test_a_copy_is_the_queue_as_it_was_at_one_moment(
    spark: SparkSession, house: House, elsewhere: House
) -> None:
    house.fill("q", LARGE)
    before = house.content("q")
    report = move(spark, house, "q", to=elsewhere.at, copy=True)
    assert counts(report, "queues") == {"copied": 1}
    assert elsewhere.content("q") == house.content("q") == before
    again = move(spark, house, "q", to=elsewhere.at, copy=True)
    assert counts(again, "queues") == {"already there": 1}
    # When the queue goes on, then nobody takes the copy for it
    house.post("q", "more", delay=0)
    assert len(elsewhere.bodies("q")) == LARGE
    for copy in (True, False):
        late = move(spark, house, "q", to=elsewhere.at, copy=copy)
        assert counts(late, "queues") == {"failed": 1}
        assert "a copy of it, which was made before" in late.details["by queue"]["q"]
    assert len(house.bodies("q")) == LARGE + 1


def test_a_move_to_another_store_that_was_sealed_is_finished_there_only(
    spark: SparkSession, house: House, elsewhere: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.fill("q", 60)
    before, source = house.content("q"), house.pool("q")

    async def cut_off(*_: object) -> None:
        raise errors.StoreUnavailable

    with monkeypatch.context() as dead:
        dead.setattr(Between, "_finish", cut_off)
        report = move(spark, house, "q", to=elsewhere.at)
        assert counts(report, "queues") == {"failed": 1}
    sealed = house.client(house.stores.uri_of(source))
    assert gate(sealed, house.project, "q").startswith("gone:")
    with servers.redis_server() as third:
        wrong = Where(third.uri, third.uri, house.project, 10.0)
        report = move(spark, house, "q", to=wrong)
        assert "it has moved to another store than this one" in report.details["by queue"]["q"]
    assert house.content("q", source) == before
    report = move(spark, house, "q", to=elsewhere.at)
    assert counts(report, "queues") == {"already there": 1}
    assert elsewhere.content("q") == before
    assert gate(elsewhere.there("q"), house.project, "q") == ""
    assert house.content("q", source) == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["pool", "store"])
def test_killed_in_the_middle_and_run_again_nothing_is_lost_or_doubled(
    spark: SparkSession, house: House, elsewhere: House, way: str
) -> None:
    house.fill("q", 8 * LARGE)
    before, source, target = house.content("q"), house.pool("q"), house.other("q")
    to = ["--to-pool", target] if way == "pool" else ["--to-storage", elsewhere.uri]
    there = house.client(house.stores.uri_of(target) if way == "pool" else elsewhere.uri)
    key = f"zr:{{{house.project}/q}}:bodies"
    with commands.running(house, "migrate", "--queue", "q", *to) as process:
        servers.wait_for(
            lambda: there.command("HLEN", key) > LARGE, "some to be copied", commands.PATIENCE
        )
        commands.kill(process)
    assert house.pool("q") == source
    assert house.content("q") == before
    if way == "store":  # the other one waits for its end, twenty seconds
        house.client(house.uri).command("DEL", keys.RoleKeys("mover").role)
    report = move(spark, house, "q", **({"to": elsewhere.at} if way == "store" else {}))
    assert counts(report, "queues") == {"moved": 1}
    assert sum(counts(report, "messages read").values()) == 8 * LARGE
    assert content(there, house.project, "q") == before
    assert house.content("q", source) == {}


def test_while_another_process_moves_queues_it_waits(spark: SparkSession, house: House) -> None:
    house.post("q", 1)
    roles = Roles(house.client(house.uri))
    assert roles.take("mover", "another", 60).run()
    try:
        with pytest.raises(running.Refused, match="another process moves queues now"):
            move(spark, house, "q", wait=0.0)
    finally:
        roles.leave("mover", "another").run()
    assert counts(move(spark, house, "q"), "queues") == {"moved": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue", "nothing", "--to-pool", "two"], '--queue: there is no queue "nothing"'),
        (["--queue", "q", "--to-pool", "three"], '--to-pool: there is no pool "three"'),
        (["--from-pool", "three", "--to-pool", "one"], '--from-pool: there is no pool "three"'),
        (["--queue", "q", "--to-pool", "two", "--copy"], "--copy: within one store"),
        (["--queue", "not a name", "--to-pool", "two"], '"not a name" is no name of a queue'),
        (["--pattern", "(", "--to-pool", "two"], "must be a regular expression"),
        (["--queue", "q", "--to-storage", "HOME"], "--to-storage: it is the store that"),
        (["--queue", "q", "--to-storage", "unix:///nowhere.sock"], "cannot be reached"),
        (["--queue", "q", "--to-storage", "nonsense"], "--to-storage: "),
        (["--queue", "q", "--to-pool", "two", "--to-control", "unix:///x"], "--to-control"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_moves(
    spark: SparkSession,
    house: House,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    house.post("q", 1)
    before = house.pool("q")
    given = [house.uri if word == "HOME" else word for word in words]
    code = running.main(
        job, [*given, "--no-progress", "--storage", house.uri, "--project", house.project]
    )
    assert code == 1
    assert said in capsys.readouterr().err
    assert house.pool("q") == before


def test_a_store_without_pools_has_its_queues_too(spark: SparkSession, elsewhere: House) -> None:
    elsewhere.post("q", 1, 2, 3)
    with servers.redis_server() as server:
        target = Where(server.uri, server.uri, elsewhere.project, 10.0)
        report = added_up(job.migrate(spark, elsewhere.at, Chosen(pattern="q"), to=target))
        with Stores(target) as there:
            assert there.queues() == ["q"]
    assert counts(report, "queues") == {"moved": 1}
