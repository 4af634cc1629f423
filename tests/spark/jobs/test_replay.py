# SPDX-License-Identifier: Apache-2.0
"""What was archived comes back: in order, once, or as it was."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.spark.jobs import commands
from tests.spark.support import Batch, Store
from zaqar_redis import errors
from zaqar_redis.spark.jobs import archive, replay
from zaqar_redis.spark.jobs.archiving import settings as archiving
from zaqar_redis.spark.jobs.replaying.settings import Settings
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.jobs.running import Refused
from zaqar_redis.storage.drivers.redis.transfer import Transfer

#: By rank, in the two lives of the queue "q"; and in "r".
FIRST, SECOND, OTHER = list(range(1500)), list(range(1500, 2000)), ["r1", "r2", "r3"]
DAYS = 3


class Archived:
    """An archive, and the store that it is of."""

    def __init__(self, spark: SparkSession, store: Store, folder: Path) -> None:
        self._spark = spark
        self.store = store
        self.folder = folder

    @property
    def where(self) -> dict[str, str]:
        return {"uri": self.store.uri, "project": self.store.project}

    def take(self, *queues: str) -> None:
        source = self.where | {"subscribe": ",".join(queues)}
        how = archiving.Settings(go_on_after_loss=True)
        archive.archive(self._spark, str(self.folder), source, how)

    def replay(self, **how: Any) -> Report:
        return replay.replay(self._spark, str(self.folder), self.where, Settings(**how))


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession,
    redis_server: servers.RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Archived]:
    store = Store(redis_server.uri, f"project-{uuid.uuid4()}")
    made = Archived(spark, store, tmp_path_factory.mktemp("archive"))
    store.post(*FIRST, ago=DAYS * 86400, ttl=DAYS * 86400 + 3600)
    store.post(*OTHER, queue="r")
    made.take("q", "r")
    store.delete()
    store.post(*SECOND)
    made.take("q")
    yield made
    store.close()


@pytest.fixture
def target() -> str:
    return f"target-{uuid.uuid4().hex[:8]}"


def read(report: Report) -> int:
    parts = report.counts["messages read"]
    assert isinstance(parts, dict)
    return sum(parts.values())


def counts(report: Report) -> dict[str, int]:
    parts = report.counts["messages read"]
    assert isinstance(parts, dict)
    return {fate: number for fate, number in parts.items() if number}


def test_messages_come_in_their_order_life_by_life(archived: Archived, target: str) -> None:
    report = archived.replay(queues=["q"], target=target)
    assert counts(report) == {"written": 2000}
    assert archived.store.bodies(target) == FIRST + SECOND
    assert archived.store.last_rank(target) == 2000


def test_a_second_run_writes_nothing(archived: Archived, target: str) -> None:
    archived.replay(target=target)
    archived.store.remove(1, 2, 900, queue=target)
    before = archived.store.bodies(target)
    assert counts(archived.replay(target=target)) == {"already there": 2003}
    assert archived.store.bodies(target) == before
    assert archived.store.last_rank(target) == 2003


def test_queues_go_back_where_they_came_from(archived: Archived) -> None:
    store = archived.store
    elsewhere = Store(store.uri, store.project)
    before = {queue: store.bodies(queue) for queue in ("q", "r")}
    report = archived.replay()
    assert counts(report) == {"written": 2003}
    assert elsewhere.bodies("q") == before["q"] + FIRST + SECOND
    assert elsewhere.bodies("r") == before["r"] + OTHER


def test_messages_are_new_but_for_what_they_say(archived: Archived, target: str) -> None:
    store = archived.store
    archived.replay(queues=["r"], target=target)
    assert archived.replay(queues=["r"], target=f"{target}-b", ttl=90).good
    was, now, short = (
        Batch(store.source(subscribe=queue)).rows() for queue in ("r", target, f"{target}-b")
    )
    for old, new, brief in zip(was, now, short, strict=False):
        assert [new[name] for name in ("ttl", "delay", "client_id", "body")] == [
            old[name] for name in ("ttl", "delay", "client_id", "body")
        ]
        assert new["created"] > old["created"]
        assert brief["ttl"] == 90


def test_filters_choose(archived: Archived, target: str) -> None:
    day = date.today() - timedelta(days=1)
    assert counts(archived.replay(target=f"{target}-a", dates=(None, day))) == {"written": 1500}
    assert archived.store.bodies(f"{target}-a") == FIRST
    report = archived.replay(queues=["q"], target=f"{target}-b", ranks=(499, 501))
    assert counts(report) == {"written": 5}
    assert archived.store.bodies(f"{target}-b") == [*FIRST[498:501], *SECOND[498:501]]
    with pytest.raises(errors.BadConfiguration, match=r'--queue: the queue "none" .* archived'):
        archived.replay(queues=["none"], target=f"{target}-c")


def test_a_dry_run_writes_nothing(archived: Archived, target: str) -> None:
    for preserve in (False, True):
        report = archived.replay(queues=["r"], target=target, dry_run=True, preserve=preserve)
        assert counts(report) == {"would be written": 3}
        assert report.details["target queues"] == {target: {"would be written": 3}}
    assert archived.store.queues.get(archived.store.project, target).run() is None


def test_other_messages_under_the_same_name_are_refused(archived: Archived, target: str) -> None:
    how = {"queues": ["r"], "target": target, "write_id": "mine"}
    archived.replay(**how)
    with pytest.raises(Refused, match="not what came the first time"):
        archived.replay(**how, ttl=75)
    assert archived.store.bodies(target) == OTHER


def test_a_queue_that_wants_bodies_encrypted_is_refused(archived: Archived, target: str) -> None:
    archived.store.create(target, _enable_encrypt_messages=True)
    with pytest.raises(Refused, match="wants bodies encrypted"):
        archived.replay(queues=["r"], target=target)


def test_a_queue_is_restored_as_it_was(archived: Archived, target: str) -> None:
    store = archived.store
    store.post("a", "b", "c", queue=target)
    store.remove(2, queue=target)
    archived.take(target)
    columns = "rank,id,body,created,expires,ttl,delay,client_id"
    before = Batch(store.source(subscribe=target, columns=columns)).rows()
    with pytest.raises(Refused, match="already"):
        archived.replay(queues=[target], preserve=True)

    store.delete(target)
    assert counts(archived.replay(queues=[target], preserve=True)) == {"written": 2}
    assert Batch(store.source(subscribe=target, columns=columns)).rows() == before
    assert store.last_rank(target) == 3

    assert counts(archived.replay(queues=[target], preserve=True)) == {"already there": 2}
    assert store.last_rank(target) == 3


def test_what_expired_is_not_restored(archived: Archived, target: str) -> None:
    store = archived.store
    store.post("old", queue=target, ttl=2)
    store.post("new", queue=target)
    archived.take(target)
    servers.wait_for(lambda: not store.ids(target).get(1), "a message to expire")
    store.delete(target)
    how = {"queues": [target], "preserve": True}
    planned = counts(archived.replay(**how, dry_run=True))
    assert planned == {"would be written": 1, "expired": 1}
    assert counts(archived.replay(**how)) == {"written": 1, "expired": 1}
    assert counts(archived.replay(**how)) == {"already there": 1, "expired": 1}
    assert store.bodies(target) == ["new"]


def test_two_lives_cannot_be_restored_as_one(archived: Archived, target: str) -> None:
    with pytest.raises(Refused, match=r"2000 rows .* 1500 ranks only"):
        archived.replay(queues=["q"], target=target, preserve=True)
    store = archived.store
    assert Transfer(store.client).gate(store.project, target).run() == ""
    with pytest.raises(Refused, match="one --queue only"):
        archived.replay(target=target, preserve=True)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"queues": ["a b"]}, "--queue"),
        ({"queues": []}, "queues: there is none"),
        ({"target": "a b"}, "--target-queue"),
        ({"ttl": 5}, "--ttl"),
        ({"rate": 0}, "--rate"),
        ({"ranks": (-1, None)}, "--rank-from"),
        ({"write_id": "a b"}, "--write-id"),
        ({"preserve": True, "ttl": 60}, "--ttl"),
        ({"preserve": True, "rate": 60}, "--rate"),
    ],
)
def test_bad_arguments_are_named(archived: Archived, how: dict[str, Any], why: str) -> None:
    with pytest.raises(errors.BadConfiguration, match=why):
        archived.replay(**how)


def test_a_folder_that_is_no_archive_is_told(
    archived: Archived, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(errors.BadConfiguration, match="is no archive"):
        replay.replay(spark, str(tmp_path), archived.where)


@pytest.mark.timeout(300)
def test_what_a_killed_replay_left_is_written_by_the_next(
    archived: Archived, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = archived.store
    arguments = (archived.folder, "--queue", "q", "--target-queue", target)
    with commands.running(store, "replay", *arguments, "--rate", 300) as process:
        servers.wait_for(lambda: store.last_rank(target) >= 400, "some messages", commands.PATIENCE)
        commands.kill(process)
    there = store.last_rank(target)
    assert there < 2000

    told = commands.report(capsys, store, replay, *arguments)
    assert told["counts"] == {"messages read": {"written": 2000 - there, "already there": there}}
    assert store.bodies(target) == FIRST + SECOND
    assert store.last_rank(target) == 2000
