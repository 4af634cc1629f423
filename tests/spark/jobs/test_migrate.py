# SPDX-License-Identifier: Apache-2.0
"""The job ``migrate``: queues move completely, also while in use and after crashes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests.faults import load
from tests.spark.jobs import commands
from tests.spark.jobs.stores import TTL, PooledProject, content, move_lock, running_servers
from tests.support import servers
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.records import IMPORT_PREFIX
from zaqar_redis.spark.jobs import migrate as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.migrate import MigrationScope
from zaqar_redis.spark.jobs.migrating import migration, moving
from zaqar_redis.spark.jobs.migrating.queue_copy import QueueCopy
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage.move.queue_move import QueueMove
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.control import RedisRoles
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: Messages that are copied while their queue is in use: twelve pages.
LARGE = 12_000


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, dict[str, str]]]:
    with running_servers() as uris:
        yield uris


@pytest.fixture
def pooled(addresses: tuple[str, dict[str, str]], project: str) -> Iterator[PooledProject]:
    pooled_project = PooledProject(*addresses, project)
    yield pooled_project
    pooled_project.close()


@pytest.fixture
def other_installation(project: str) -> Iterator[PooledProject]:
    """An independent installation with its own store."""
    with servers.redis_server() as server:
        pooled_project = PooledProject(server.uri, {}, project)
        yield pooled_project
        pooled_project.close()


@pytest.fixture
def moving_here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The work of tasks is done in this process, for tests that interfere with it."""
    monkeypatch.setattr(
        migration, "_run_tasks", lambda spark, spec, names, _: moving.move_queues(spec, names)
    )
    return monkeypatch


def move(spark: SparkSession, pooled: PooledProject, *queues: str, **to: Any) -> JobReport:
    given = {"to_pool": pooled.other(queues[0])} | to if "to" not in to else to
    return added_up(job.migrate(spark, pooled.store_config, MigrationScope(queues), **given))


def added_up(report: JobReport) -> JobReport:
    """Checks the sums of a report; returns it."""
    read, parts = report.counts["messages read"], report.counts["messages"]
    queues = report.counts["queues"]
    assert isinstance(read, dict)
    assert isinstance(parts, dict)
    assert isinstance(queues, dict)
    assert sum(read.values()) == sum(parts.values())
    assert sum(queues.values()) == len(report.details["by queue"])
    by_queue = [each for each in report.details["by queue"].values() if isinstance(each, dict)]
    assert sum(each["messages"] for each in by_queue) == next(iter(read.values()))
    return report


def counts(report: JobReport, what: str) -> dict[str, int]:
    found = report.counts[what]
    assert isinstance(found, dict)
    return {name: number for name, number in found.items() if number}


def test_large_queue_moves_completely(spark: SparkSession, pooled: PooledProject) -> None:
    pooled.fill("q", LARGE)
    before, source, target = pooled.content("q"), pooled.pool("q"), pooled.other("q")
    report = move(spark, pooled, "q")
    assert pooled.pool("q") == target
    assert pooled.content("q") == before
    assert pooled.content("q", source) == {}
    assert counts(report, "queues") == {"moved": 1}
    assert counts(report, "messages read") == {"moved": LARGE}
    assert counts(report, "messages")["read in use"] > LARGE // 2
    assert report.details["by queue"]["q"]["seconds frozen"] < 10
    again = move(spark, pooled, "q", to_pool=target)
    assert counts(again, "queues") == {"already there": 1}
    assert pooled.content("q") == before


def test_small_queues_move_also_to_default_pool(spark: SparkSession, pooled: PooledProject) -> None:
    pooled.fill("a", 30)
    pooled.create("empty", colour="red")
    before = pooled.content("a"), pooled.content("empty")
    report = added_up(
        job.migrate(
            spark, pooled.store_config, MigrationScope(pattern="a|empty"), to_pool="default"
        )
    )
    assert counts(report, "queues") == {"moved": 2}
    assert counts(report, "messages") == {"read frozen": 30}
    assert (pooled.pool("a"), pooled.pool("empty")) == ("default", "default")
    assert (pooled.content("a"), pooled.content("empty")) == before


def test_only_queues_of_the_given_pool_and_project_move(
    spark: SparkSession, pooled: PooledProject, addresses: tuple[str, dict[str, str]]
) -> None:
    stranger = PooledProject(*addresses, f"{pooled.project}-stranger")
    names = [f"q{number}" for number in range(6)]
    for name in names:
        pooled.post(name, name)
        stranger.post(name, name)
    pools = {name: stranger.pool(name) for name in names}
    mine = [name for name in names if pooled.pool(name) == "one"]
    report = added_up(
        job.migrate(spark, pooled.store_config, MigrationScope(pool="one"), to_pool="two")
    )
    assert set(report.details["by queue"]) == set(mine)
    assert {pooled.pool(name) for name in names} == {"two"}
    assert {name: stranger.pool(name) for name in names} == pools
    stranger.close()


def test_moved_queue_in_use_has_no_lost_or_duplicate_messages(
    spark: SparkSession, pooled: PooledProject
) -> None:
    old = [f"old {number}" for number in range(2 * LARGE)]
    with (
        servers.service(pooled.uri, options=load.OPTIONS) as service,
        load.QueueLoad(service, pooled.project) as clients,
    ):
        pooled.post("busy", *old)
        clients.posted.update(old)
        clients.wait_for_more()
        for _ in range(2):
            target = pooled.other("busy")
            report = move(spark, pooled, "busy")
            assert counts(report, "queues") == {"moved": 1}
            assert pooled.pool("busy") == target
            clients.wait_for_more()
        clients.stop()
        clients.check()
        assert set(clients.statuses) <= {201, 204, 503}
        last = int(pooled.content("busy")["queue"][b"rank"])
        assert len(clients.posted) <= last <= len(clients.posted) + len(clients.unsure)


def test_posts_and_deletions_during_the_copy_are_counted(
    spark: SparkSession, pooled: PooledProject, moving_here: pytest.MonkeyPatch
) -> None:
    pooled.post("q", *range(LARGE))
    copy = QueueCopy.live

    async def and_then(self: QueueCopy, *where: Any) -> int:
        copied = await copy(self, *where)
        pooled.remove("q", *[claimed.id for claimed in pooled.claim("q", 100).messages])
        pooled.post("q", *range(LARGE, LARGE + 50))
        return copied

    moving_here.setattr(QueueCopy, "live", and_then)
    report = move(spark, pooled, "q")
    assert counts(report, "messages read") == {"moved": LARGE - 50, "gone meanwhile": 100}
    assert counts(report, "messages") == {"read in use": LARGE, "read frozen": 50}
    assert pooled.bodies("q") == list(range(100, LARGE + 50))


def test_queue_recreated_during_the_copy_moves_in_its_new_epoch(
    spark: SparkSession, pooled: PooledProject, moving_here: pytest.MonkeyPatch
) -> None:
    pooled.post("q", *range(LARGE))
    copy = QueueCopy.live

    async def and_then(self: QueueCopy, *where: Any) -> int:
        copied = await copy(self, *where)
        moving_here.setattr(QueueCopy, "live", copy)
        pooled.delete("q")
        pooled.post("q", "new", "newer")
        return copied

    moving_here.setattr(QueueCopy, "live", and_then)
    report = move(spark, pooled, "q")
    assert counts(report, "messages read") == {"moved": 2}
    assert pooled.bodies("q") == ["new", "newer"]


def test_copy_that_fails_verification_is_discarded(
    spark: SparkSession, pooled: PooledProject, moving_here: pytest.MonkeyPatch
) -> None:
    pooled.fill("q", 50)
    before, source, target = pooled.content("q"), pooled.pool("q"), pooled.other("q")
    verify = QueueCopy.verify

    async def tampered(self: QueueCopy, project: str, queue: str, copied_rank: int) -> None:
        key = f"zr:{{{project}/{queue}}}:bodies"
        pooled.client(pooled.stores.uri_of(target)).command("HDEL", key, 7)
        await verify(self, project, queue, copied_rank)

    moving_here.setattr(QueueCopy, "verify", tampered)
    report = move(spark, pooled, "q")
    assert not report.good
    assert "bodies: 50 and 49" in report.details["by queue"]["q"]
    assert pooled.pool("q") == source
    assert pooled.content("q") == before
    assert pooled.content("q", target) == {}
    pooled.post("q", "as if nothing had been", delay=0)


def test_queue_whose_dead_letters_wait_moves(spark: SparkSession, pooled: PooledProject) -> None:
    pooled.create("q", _on_expiry="dead_letter", _dead_letter_queue="dead")
    pooled.post("q", 1, 2, 3, delay=0)
    tomorrow = clock.process() + 24 * TTL * 1000
    RedisQueues(pooled.client_of("q"), lambda: tomorrow).stats(pooled.project, "q").run()
    before = pooled.content("q")
    assert ("expiry" in before, len(before["claimed"])) == (False, 3)
    report = move(spark, pooled, "q")
    assert counts(report, "queues") == {"moved": 1}, report.details
    assert pooled.content("q") == before


def test_queue_moves_to_another_store(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject
) -> None:
    pooled.fill("q", LARGE)
    before, source = pooled.content("q"), pooled.pool("q")
    report = move(spark, pooled, "q", to=other_installation.store_config)
    assert counts(report, "queues") == {"moved": 1}
    assert counts(report, "messages read") == {"moved": LARGE}
    assert other_installation.content("q") == before
    assert other_installation.stores.queues() == ["q"]
    assert pooled.content("q", source) == {}
    assert pooled.stores.queues() == []
    again = move(spark, pooled, "q", to=other_installation.store_config)
    assert counts(again, "queues") == {"already there": 1}
    assert other_installation.content("q") == before
    # The old store can use the name again.
    with servers.service(pooled.uri) as service, _client(pooled, service) as client:
        posted = client.post("/v2/queues/q/messages", json={"messages": [{"body": 1}]})
        assert posted.status_code == 201
    both = move(spark, pooled, "q", to=other_installation.store_config)
    assert counts(both, "queues") == {"failed": 1}
    assert "the target has a queue of this name" in both.details["by queue"]["q"]
    assert other_installation.content("q") == before


def _client(pooled: PooledProject, service: servers.RunningService) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers=load.headers(pooled.project), timeout=60)


def test_copy_is_a_snapshot_and_is_never_taken_for_the_queue(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject
) -> None:
    pooled.fill("q", LARGE)
    before = pooled.content("q")
    report = move(spark, pooled, "q", to=other_installation.store_config, copy=True)
    assert counts(report, "queues") == {"copied": 1}
    assert other_installation.content("q") == pooled.content("q") == before
    again = move(spark, pooled, "q", to=other_installation.store_config, copy=True)
    assert counts(again, "queues") == {"already there": 1}
    # When the queue changes, then the copy is not taken for it
    pooled.post("q", "more", delay=0)
    assert len(other_installation.bodies("q")) == LARGE
    for copy in (True, False):
        late = move(spark, pooled, "q", to=other_installation.store_config, copy=copy)
        assert counts(late, "queues") == {"failed": 1}
        why = late.details["by queue"]["q"]
        assert "an earlier copy of it" in why
        where = f"--storage {other_installation.uri} --project {pooled.project}"
        assert f"zaqar-redis queue delete q {where}" in why
        assert ("keep that one, or" in why) is copy
    assert len(pooled.bodies("q")) == LARGE + 1


class _Killed(BaseException):
    """What ends a task that can settle nothing any more."""


def _kill(spec: moving.MigrationSpec, where: type, step: str) -> None:
    """Moves the queue "q" in a task that is killed before *step*."""

    def killed(*_: object) -> None:
        raise _Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(where, step, killed)
        with pytest.raises(_Killed):
            moving.move_queues(spec, ["q"])


def _spec(pooled: PooledProject, to: str | PooledProject, *, copy: bool = False) -> Any:
    """Returns the specification of a migration to a pool, or to another installation."""
    if isinstance(to, str):
        return moving.MigrationSpec(pooled.store_config, to, None, copy)
    return moving.MigrationSpec(pooled.store_config, None, to.store_config, copy)


@pytest.mark.usefixtures("moving_here")
def test_copy_whose_task_was_killed_is_made_anew(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject
) -> None:
    pooled.fill("q", 60)
    _kill(_spec(pooled, other_installation, copy=True), QueueCopy, "verify")
    lock = keys.of_queue(pooled.project, "q").move_lock
    assert pooled.client_of("q").command("DEL", lock), "it would expire in ten seconds"
    pooled.post("q", "more", delay=0)
    report = move(spark, pooled, "q", to=other_installation.store_config, copy=True)
    assert counts(report, "queues") == {"copied": 1}
    assert other_installation.content("q") == pooled.content("q")


async def _repair(config: StoreConfig) -> None:
    async with moving.opened(config) as driver:
        assert [found async for found in driver.checker.check(repair=True)]


@pytest.mark.usefixtures("moving_here")
def test_sealed_queue_whose_copy_is_lost_is_refused_until_it_is_unlocked(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject
) -> None:
    pooled.fill("q", 60)
    before, source, to = pooled.content("q"), pooled.client_of("q"), other_installation.store_config
    _kill(_spec(pooled, other_installation), QueueMove, "_finish")

    def refusal() -> str:
        report = move(spark, pooled, "q", to=to)
        assert counts(report, "queues") == {"failed": 1}
        assert pooled.content("q") == before
        why: str = report.details["by queue"]["q"]
        assert 'The queue "q" cannot move' in why
        assert f"has locked it in {pooled.stores.uri_of(pooled.pool('q'))}" in why
        return why

    # When another import takes the copy over, and is discarded, as the error says
    other = RedisTransfer(other_installation.client(other_installation.uri))
    assert other.begin_import(pooled.project, "q", f"{IMPORT_PREFIX}other").run()
    assert f"zaqar-redis check --repair --storage {other_installation.uri}" in refusal()
    asyncio.run(_repair(to))
    # Then the queue can be unlocked, as the error says, and moves
    lock = keys.of_queue(pooled.project, "q").move_lock.decode()
    why = refusal()
    assert f"{other_installation.uri} does not have all of it" in why
    assert f"DEL '{lock}'" in why
    source.command("DEL", lock)
    assert counts(move(spark, pooled, "q", to=to), "queues") == {"moved": 1}
    assert other_installation.content("q") == before


@pytest.mark.usefixtures("moving_here")
def test_sealed_queue_whose_copy_is_in_use_is_removed(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject
) -> None:
    pooled.fill("q", 60)
    source, project = pooled.client_of("q"), pooled.project
    _kill(_spec(pooled, other_installation), QueueMove, "_finish")
    token = move_lock(source, project, "q").removeprefix("gone:")
    target = other_installation.client(other_installation.uri)
    assert RedisTransfer(target).commit_import(project, "q", IMPORT_PREFIX + token).run()
    # One that was restored from an older archive is no copy of it
    known = keys.of_queue(project, "q").queue
    rank = target.command("HGET", known, "rank")
    target.command("HSET", known, "rank", 1)
    report = move(spark, pooled, "q", to=other_installation.store_config)
    assert "does not have all of it" in report.details["by queue"]["q"]
    target.command("HSET", known, "rank", rank)
    # One that is just moving on, to a pool of the target, is
    other_installation.post("q", "more", delay=0)
    assert RedisTransfer(target).freeze(project, "q", "another").run()
    report = move(spark, pooled, "q", to=other_installation.store_config)
    assert counts(report, "queues") == {"already there": 1}
    assert move_lock(source, project, "q").startswith("closed:")
    assert content(source, project, "q") == {}
    assert "more" in other_installation.bodies("q")


def test_repeated_task_settles_what_its_killed_attempt_left(pooled: PooledProject) -> None:
    pooled.fill("q", 60)
    before, source, target = pooled.content("q"), pooled.pool("q"), pooled.other("q")
    spec = _spec(pooled, target)
    _kill(spec, QueueMove, "_finish")
    (outcome,) = moving.move_queues(spec, ["q"])
    assert outcome.shown() == "already there"
    assert pooled.pool("q") == target
    assert pooled.content("q") == before
    assert pooled.content("q", source) == {}


@pytest.mark.parametrize("target_kind", ["pool", "store"])
def test_mover_that_spark_stops_unlocks_its_queue(
    pooled: PooledProject,
    other_installation: PooledProject,
    monkeypatch: pytest.MonkeyPatch,
    target_kind: str,
) -> None:
    pooled.fill("q", 60)
    before, source, target = pooled.content("q"), pooled.client_of("q"), pooled.other("q")

    async def stopped(*_: object) -> None:
        signal.raise_signal(signal.SIGHUP)
        await asyncio.Event().wait()

    settle = QueueMove.settle

    def stopped_again(self: QueueMove) -> Any:
        signal.raise_signal(signal.SIGHUP)
        return settle(self)

    monkeypatch.setattr(QueueCopy, "verify", stopped)
    monkeypatch.setattr(QueueMove, "settle", stopped_again)
    with pytest.raises(KeyboardInterrupt):
        moving.move_queues(
            _spec(pooled, target if target_kind == "pool" else other_installation), ["q"]
        )
    assert move_lock(source, pooled.project, "q") == ""
    assert pooled.content("q") == before
    assert (pooled.content("q", target), other_installation.content("q")) == ({}, {})


@pytest.mark.usefixtures("spark")
def test_interrupted_migration_says_what_to_do(
    pooled: PooledProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> JobReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "migrate", interrupted)
    words = ["--queue", "q", "--to-pool", "one", "--storage", pooled.uri]
    assert running.main(job, words) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_sealed_move_can_only_be_finished_at_its_target_store(
    spark: SparkSession,
    pooled: PooledProject,
    other_installation: PooledProject,
    moving_here: pytest.MonkeyPatch,
) -> None:
    pooled.fill("q", 60)
    before, source = pooled.content("q"), pooled.pool("q")

    def cut_off(*_: object) -> None:
        raise errors.StoreUnavailable

    with moving_here.context() as patched:
        patched.setattr(QueueMove, "_finish", cut_off)
        report = move(spark, pooled, "q", to=other_installation.store_config)
        assert counts(report, "queues") == {"failed": 1}
    sealed = pooled.client(pooled.stores.uri_of(source))
    assert move_lock(sealed, pooled.project, "q").startswith("gone:")
    with servers.redis_server() as third:
        wrong = StoreConfig(third.uri, third.uri, pooled.project, 10.0)
        report = move(spark, pooled, "q", to=wrong)
        assert "it was moved to another store than the target" in report.details["by queue"]["q"]
    assert pooled.content("q", source) == before
    report = move(spark, pooled, "q", to=other_installation.store_config)
    assert counts(report, "queues") == {"already there": 1}
    assert other_installation.content("q") == before
    assert move_lock(other_installation.client_of("q"), pooled.project, "q") == ""
    assert pooled.content("q", source) == {}


@pytest.mark.parametrize("keep", [False, True])
def test_queue_whose_copy_another_import_takes_over_stays_until_it_is_moved(
    spark: SparkSession,
    pooled: PooledProject,
    other_installation: PooledProject,
    moving_here: pytest.MonkeyPatch,
    keep: bool,
) -> None:
    pooled.fill("q", 60)
    before = pooled.content("q")
    verify = QueueCopy.verify
    taken: list[str] = []

    async def taken_over(self: QueueCopy, project: str, queue: str, copied_rank: int) -> None:
        await verify(self, project, queue, copied_rank)
        if not taken:
            taken.append(queue)
            other = RedisTransfer(other_installation.client(other_installation.uri))
            assert other.begin_import(project, queue, f"{IMPORT_PREFIX}other").run()

    moving_here.setattr(QueueCopy, "verify", taken_over)
    report = move(spark, pooled, "q", to=other_installation.store_config, copy=keep)
    assert taken
    assert counts(report, "queues") == {"copied" if keep else "moved": 1}
    assert other_installation.content("q") == before
    assert pooled.content("q") == (before if keep else {})


def test_tasks_that_cannot_open_their_stores_fail_by_themselves(
    monkeypatch: pytest.MonkeyPatch, pooled: PooledProject
) -> None:
    def away(*_: object) -> Any:
        raise errors.BadConfiguration("the store is away")

    monkeypatch.setattr(moving, "opened", away)
    spec = moving.MigrationSpec(pooled.store_config, "one", None, False)
    failed = moving.move_queues(spec, ["a", "b"])
    assert [(each.queue, each.shown()) for each in failed] == [
        ("a", "failed: the store is away"),
        ("b", "failed: the store is away"),
    ]


def test_speculative_tasks_are_refused(pooled: PooledProject) -> None:
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "true"))
    with pytest.raises(errors.BadConfiguration, match=r"spark\.speculation"):
        job.migrate(session, pooled.store_config, MigrationScope(("q",)), to_pool="one")


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("target_kind", ["pool", "store"])
def test_next_migration_completes_a_killed_one(
    spark: SparkSession, pooled: PooledProject, other_installation: PooledProject, target_kind: str
) -> None:
    pooled.fill("q", 8 * LARGE)
    before, source, target = pooled.content("q"), pooled.pool("q"), pooled.other("q")
    to = (
        ["--to-pool", target] if target_kind == "pool" else ["--to-storage", other_installation.uri]
    )
    target_client = pooled.client(
        pooled.stores.uri_of(target) if target_kind == "pool" else other_installation.uri
    )
    key = f"zr:{{{pooled.project}/q}}:bodies"
    with commands.running(pooled, "migrate", "--queue", "q", *to) as process:
        servers.wait_for(
            lambda: target_client.command("HLEN", key) > LARGE,
            "some to be copied",
            commands.TIMEOUT_SECONDS,
        )
        target_client.command("CLIENT", "PAUSE", 60_000, "WRITE")
        commands.kill(process)
        target_client.command("CLIENT", "UNPAUSE")
    assert pooled.pool("q") == source
    assert pooled.content("q") == before
    # The next run waits for it: not for the 20 s that it lasts.
    pooled.client(pooled.uri).command("PEXPIRE", control_keys.RoleKeys("mover").role, 1000)
    report = move(
        spark,
        pooled,
        "q",
        **({"to": other_installation.store_config} if target_kind == "store" else {}),
    )
    assert counts(report, "queues") == {"moved": 1}
    assert sum(counts(report, "messages read").values()) == 8 * LARGE
    assert content(target_client, pooled.project, "q") == before
    assert pooled.content("q", source) == {}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_interrupted_migration_settles_its_moves(pooled: PooledProject, tmp_path: Path) -> None:
    pooled.fill("q", 8 * LARGE)
    before, source, target = pooled.content("q"), pooled.pool("q"), pooled.other("q")
    target_client = pooled.client(pooled.stores.uri_of(target))
    copied = keys.of_queue(pooled.project, "q").bodies
    # A worker that stands still for longer than this is killed before it settles its move.
    patient = ("--conf", "spark.python.task.killTimeout=60s")
    words = ("--queue", "q", "--to-pool", target, *patient)
    with commands.running(pooled, "migrate", *words, stderr=tmp_path / "stderr") as process:
        servers.wait_for(
            lambda: target_client.command("HLEN", copied) > LARGE,
            "some to be copied",
            commands.TIMEOUT_SECONDS,
        )
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(commands.TIMEOUT_SECONDS) == 130
        # Its worker ends after it.
        catalogue = RedisCatalogue(pooled.client(pooled.uri))
        servers.wait_for(
            lambda: catalogue.locate(pooled.project, "q").run().move is None,
            "the move to be settled",
        )
    text = (tmp_path / "stderr").read_text()
    assert "run the same command again" in text
    assert "Traceback" not in text, text
    assert pooled.pool("q") == source
    assert pooled.content("q") == before
    assert pooled.content("q", target) == {}


def test_migration_waits_for_another_mover(spark: SparkSession, pooled: PooledProject) -> None:
    pooled.post("q", 1)
    roles = RedisRoles(pooled.client(pooled.uri))
    assert roles.take("mover", "another", 60).run()
    try:
        with pytest.raises(running.JobRefused, match="another process moves queues now"):
            move(spark, pooled, "q", wait=0.0)
    finally:
        roles.leave("mover", "another").run()
    assert counts(move(spark, pooled, "q"), "queues") == {"moved": 1}


def test_target_pool_that_is_draining_is_refused_with_the_reason(
    spark: SparkSession, pooled: PooledProject
) -> None:
    pooled.post("q", 1)
    target = pooled.other("q")
    with (
        pooled.draining(target),
        pytest.raises(errors.BadConfiguration, match=f'the pool "{target}" is draining and takes'),
    ):
        move(spark, pooled, "q", to_pool=target)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queue", "nothing", "--to-pool", "two"], '--queue: there is no queue "nothing"'),
        (["--queue", "q", "--to-pool", "three"], '--to-pool: there is no pool "three"'),
        (["--from-pool", "three", "--to-pool", "one"], '--from-pool: there is no pool "three"'),
        (["--queue", "q", "--to-pool", "two", "--copy"], "--copy: within one store"),
        (["--queue", "not a name", "--to-pool", "two"], '"not a name" is no name of a queue'),
        (["--pattern", "(", "--to-pool", "two"], "must be a regular expression"),
        (["--queue", "q", "--to-storage", "DEFAULT"], "--to-storage: it is the store that"),
        (["--queue", "q", "--to-storage", "unix:///nowhere.sock"], "cannot be reached"),
        (["--queue", "q", "--to-storage", "nonsense"], "--to-storage: "),
        (["--queue", "q", "--to-pool", "two", "--to-control", "unix:///x"], "--to-control"),
    ],
)
def test_invalid_migrate_arguments_are_reported_before_any_move(
    spark: SparkSession,
    pooled: PooledProject,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    pooled.post("q", 1)
    before = pooled.pool("q")
    given = [pooled.uri if word == "DEFAULT" else word for word in words]
    code = running.main(
        job, [*given, "--no-progress", "--storage", pooled.uri, "--project", pooled.project]
    )
    assert code == 1
    assert message in capsys.readouterr().err
    assert pooled.pool("q") == before


def test_queues_of_a_store_without_pools_move(
    spark: SparkSession, other_installation: PooledProject
) -> None:
    other_installation.post("q", 1, 2, 3)
    with servers.redis_server() as server:
        target = StoreConfig(server.uri, server.uri, other_installation.project, 10.0)
        report = added_up(
            job.migrate(
                spark, other_installation.store_config, MigrationScope(pattern="q"), to=target
            )
        )
        with StoreConnections(target) as connections:
            assert connections.queues() == ["q"]
    assert counts(report, "queues") == {"moved": 1}
