# SPDX-License-Identifier: Apache-2.0
"""The job ``replay``: archived messages are posted in order and once, or restored."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.support import servers
from tests.support.backends import Backend
from tests.support.spark_reads import BatchRead, SparkTestStore
from zaqar_redis import errors
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import Attributes, Queue
from zaqar_redis.spark.jobs import archive, replay
from zaqar_redis.spark.jobs.archiving import settings as archiving
from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.running import JobRefused
from zaqar_redis.storage.move.queue_import import QueueImport
from zaqar_redis.storage.redis.identity import new_epoch
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: Bodies by rank: in the two epochs of the queue "q", and in "r".
FIRST, SECOND, OTHER = list(range(1500)), list(range(1500, 2000)), ["r1", "r2", "r3"]
#: of the messages in "r"
ATTRIBUTES: Attributes = {
    "kind": "ü",
    "n": 2**64 - 1,
    "price": 1e300,
    "photo": b"\0\xff",
    "_group": "g",
    "_priority": 7,
    "_content_type": "text/plain",
}
DAYS = 3


class Archived:
    """An archive, and the store of its queues."""

    def __init__(self, spark: SparkSession, store: SparkTestStore, folder: Path) -> None:
        self._spark = spark
        self.store = store
        self.folder = folder

    @property
    def where(self) -> dict[str, str]:
        return {"uri": self.store.uri, "project": self.store.project}

    def archive_queues(self, *queues: str) -> None:
        source = self.where | {"subscribe": ",".join(queues)}
        how = archiving.ArchiveSettings(go_on_after_loss=True)
        archive.archive(self._spark, str(self.folder), source, how)

    def replay(self, **how: Any) -> JobReport:
        return replay.replay(self._spark, str(self.folder), self.where, ReplaySettings(**how))


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Archived]:
    store = SparkTestStore(redis_server.uri, f"project-{uuid.uuid4()}")
    result = Archived(spark, store, tmp_path_factory.mktemp("archive"))
    store.post(*FIRST, ago=DAYS * 86400, ttl=DAYS * 86400 + 3600)
    store.post(*OTHER, queue="r", attributes=ATTRIBUTES)
    result.archive_queues("q", "r")
    store.delete()
    store.post(*SECOND)
    result.archive_queues("q")
    yield result
    store.close()


@pytest.fixture
def target() -> str:
    return f"target-{uuid.uuid4().hex[:8]}"


def test_messages_are_replayed_in_order_epoch_by_epoch(archived: Archived, target: str) -> None:
    report = archived.replay(queues=["q"], target=target)
    assert commands.parts(report) == {"written": 2000}
    assert archived.store.bodies(target) == FIRST + SECOND
    assert archived.store.last_rank(target) == 2000


def test_second_replay_writes_nothing(archived: Archived, target: str) -> None:
    archived.replay(target=target)
    archived.store.remove(1, 2, 900, queue=target)
    before = archived.store.bodies(target)
    assert commands.parts(archived.replay(target=target)) == {"already there": 2003}
    assert archived.store.bodies(target) == before
    assert archived.store.last_rank(target) == 2003


def test_replay_without_target_writes_to_the_original_queues(archived: Archived) -> None:
    store = archived.store
    elsewhere = SparkTestStore(store.uri, store.project)
    before = {queue: store.bodies(queue) for queue in ("q", "r")}
    report = archived.replay()
    assert commands.parts(report) == {"written": 2003}
    assert elsewhere.bodies("q") == before["q"] + FIRST + SECOND
    assert elsewhere.bodies("r") == before["r"] + OTHER


def test_replayed_messages_are_as_they_were(archived: Archived, target: str) -> None:
    fields = ("group", "priority", "content_type")
    store, kept = archived.store, ("ttl", "delay", "client_id", "body", "attributes", *fields)
    archived.replay(queues=["r"], target=target)
    assert archived.replay(queues=["r"], target=f"{target}-b", ttl=90).good
    was, now, short = (
        BatchRead(store.source(subscribe=queue, columns=",".join((*kept, "created")))).rows()
        for queue in ("r", target, f"{target}-b")
    )
    assert (now[0]["group"], now[0]["priority"], now[0]["content_type"]) == ("g", 7, "text/plain")
    assert dict(now[0]["attributes"])["n"]["number"] == str(2**64 - 1)
    for old, new, brief in zip(was, now, short, strict=False):
        assert [new[name] for name in kept] == [old[name] for name in kept]
        assert new["created"] > old["created"]
        assert brief["ttl"] == 90


def test_date_and_rank_filters_select_messages(archived: Archived, target: str) -> None:
    day = date.today() - timedelta(days=1)
    assert commands.parts(archived.replay(target=f"{target}-a", date_to=day)) == {"written": 1500}
    assert archived.store.bodies(f"{target}-a") == FIRST
    report = archived.replay(queues=["q"], target=f"{target}-b", rank_from=499, rank_to=501)
    assert commands.parts(report) == {"written": 5}
    assert archived.store.bodies(f"{target}-b") == [*FIRST[498:501], *SECOND[498:501]]
    with pytest.raises(errors.BadConfiguration, match=r'--queue: the queue "none" .* archived'):
        archived.replay(queues=["none"], target=f"{target}-c")


def test_replay_dry_run_writes_nothing(archived: Archived, target: str) -> None:
    for preserve in (False, True):
        report = archived.replay(queues=["r"], target=target, dry_run=True, preserve=preserve)
        assert commands.parts(report) == {"would be written": 3}
        assert report.details["target queues"] == {target: {"would be written": 3}}
    assert archived.store.queues.get(archived.store.project, target).run() is None


def test_messages_that_were_posted_are_not_restored_into_the_same_queue(
    archived: Archived, target: str
) -> None:
    archived.replay(queues=["r"], target=target)
    for dry_run in (True, False):
        with pytest.raises(JobRefused, match=f'the queue "{target}" exists already: delete it'):
            archived.replay(queues=["r"], target=target, preserve=True, dry_run=dry_run)
    assert archived.store.bodies(target) == OTHER


def test_restore_that_died_before_its_last_step_is_taken_over(
    archived: Archived, target: str
) -> None:
    store = archived.store
    died = QueueImport(RedisTransfer(store.client), store.project, target)
    died.begin().run()
    record = Queue(name=target, metadata={}, created=1)
    died.add(TransferChunk(kind="queue", items=[record, new_epoch()], after=9)).run()
    how = {"queues": ["r"], "target": target, "preserve": True}
    assert commands.parts(archived.replay(**how, dry_run=True)) == {"would be written": 3}
    assert commands.parts(archived.replay(**how)) == {"written": 3}
    assert store.bodies(target) == OTHER


def test_other_messages_under_the_same_write_id_are_refused(
    archived: Archived, target: str
) -> None:
    how = {"queues": ["r"], "target": target, "write_id": "mine"}
    archived.replay(**how)
    with pytest.raises(JobRefused, match="differ from those of the first replay"):
        archived.replay(**how, ttl=75)
    assert archived.store.bodies(target) == OTHER


def test_target_queue_with_encryption_is_refused(archived: Archived, target: str) -> None:
    archived.store.create(target, _enable_encrypt_messages=True)
    with pytest.raises(JobRefused, match="wants bodies encrypted"):
        archived.replay(queues=["r"], target=target)


def test_preserve_restores_the_original_queue(archived: Archived, target: str) -> None:
    store = archived.store
    store.post("a", "b", "c", queue=target, attributes=ATTRIBUTES)
    store.remove(2, queue=target)
    archived.archive_queues(target)
    columns = "rank,id,body,created,expires,ttl,delay,client_id,attributes"
    before = BatchRead(store.source(subscribe=target, columns=columns)).rows()
    with pytest.raises(JobRefused, match="already"):
        archived.replay(queues=[target], preserve=True)

    store.delete(target)
    assert commands.parts(archived.replay(queues=[target], preserve=True)) == {"written": 2}
    assert BatchRead(store.source(subscribe=target, columns=columns)).rows() == before
    assert store.last_rank(target) == 3

    assert commands.parts(archived.replay(queues=[target], preserve=True)) == {"already there": 2}
    assert store.last_rank(target) == 3


@pytest.mark.nightly
def test_expired_messages_are_not_restored(archived: Archived, target: str) -> None:
    store = archived.store
    store.post("old", queue=target, ttl=10)  # a busy machine archives it before it expires
    store.post("new", queue=target)
    archived.archive_queues(target)
    servers.wait_for(lambda: not store.ids(target).get(1), "a message to expire")
    store.delete(target)
    how = {"queues": [target], "preserve": True}
    planned = commands.parts(archived.replay(**how, dry_run=True))
    assert planned == {"would be written": 1, "expired": 1}
    assert commands.parts(archived.replay(**how)) == {"written": 1, "expired": 1}
    assert commands.parts(archived.replay(**how)) == {"already there": 1, "expired": 1}
    assert store.bodies(target) == ["new"]


def test_two_epochs_cannot_be_restored_as_one_queue(archived: Archived, target: str) -> None:
    with pytest.raises(JobRefused, match=r"2000 rows .* only 1500 ranks"):
        archived.replay(queues=["q"], target=target, preserve=True)
    store = archived.store
    assert RedisTransfer(store.client).move_lock(store.project, target).run() is None
    with pytest.raises(JobRefused, match="one --queue only"):
        archived.replay(target=target, preserve=True)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"queues": ["a b"]}, "--queue"),
        ({"queues": []}, "queues: it is empty"),
        ({"target": "a b"}, "--target-queue"),
        ({"ttl": 5}, "--ttl"),
        ({"rate": 0}, "--rate"),
        ({"rank_from": -1}, "--rank-from"),
        ({"write_id": "a b"}, "--write-id"),
        ({"preserve": True, "ttl": 60}, "--ttl"),
        ({"preserve": True, "rate": 60}, "--rate"),
    ],
)
def test_invalid_replay_arguments_are_named(
    archived: Archived, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(errors.BadConfiguration, match=why):
        archived.replay(**how)


def test_folder_without_archive_is_reported(
    archived: Archived, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(errors.BadConfiguration, match="is no archive"):
        replay.replay(spark, str(tmp_path), archived.where)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_next_replay_completes_a_killed_one(
    archived: Archived, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = archived.store
    arguments = (archived.folder, "--queue", "q", "--target-queue", target)
    with commands.running(store, "replay", *arguments, "--rate", 100) as process:
        servers.wait_for(
            lambda: store.last_rank(target) >= 400, "some messages", commands.TIMEOUT_SECONDS
        )
        commands.kill(process)
    written = store.last_rank(target)
    assert written < 2000

    document = commands.report(capsys, store, replay, *arguments)
    assert document["counts"] == {
        "messages read": {"written": 2000 - written, "already there": written}
    }
    assert store.bodies(target) == FIRST + SECOND
    assert store.last_rank(target) == 2000
