# SPDX-License-Identifier: Apache-2.0
"""Backup and restore by command: whole files and broken ones, interrupted and killed commands."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support import processes, servers
from tests.support.backends import Backend, NewStore
from tests.support.command_line import CommandLine, RunningCommand, running
from zaqar_redis.backup import backup_records
from zaqar_redis.backup.backup_records import BackupHeader, frame
from zaqar_redis.keyspace import keys

_MANY = 30_000
_BIG = keys.of_queue("shop", "big")


class Stores:
    """A store to save, and one to restore into."""

    def __init__(self, source: Backend, target: Backend, folder: Path) -> None:
        self.source, self.target = source, target
        self.file = folder / "zaqar.backup"
        self.ours = CommandLine(["--storage", source.uri])
        self.theirs = CommandLine(["--storage", target.uri])

    def restored(self, *words: str, code: int = 0) -> tuple[dict[str, str], str]:
        """Restores; returns the outcome of each queue, and the notices."""
        found = self.theirs.run("restore", "--from", str(self.file), *words, "-f", "json")
        assert found.returncode == code, found.stderr
        assert "Traceback" not in found.stderr
        rows = json.loads(found.stdout)
        return {f"{row['project']}/{row['queue']}": row["outcome"] for row in rows}, found.stderr

    def save(self, *words: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ours.shown("backup", "--to", str(self.file), *words)
        return rows

    def bodies(self, queue: str, project: str = "shop") -> list[str]:
        found = self.theirs.shown("message", "list", queue, "--project", project, "--limit", "99")
        return [row["body"] for row in found]

    def assert_clean(self) -> None:
        assert self.theirs.shown("check") == []


@pytest.fixture(scope="module")
def backends(new_store: NewStore) -> Iterator[tuple[Backend, Backend]]:
    with new_store() as source, new_store() as target:
        yield source, target


@pytest.fixture
def stores(backends: tuple[Backend, Backend], tmp_path: Path) -> Stores:
    for backend in backends:
        with backend.client() as client:
            client.flushall()
    return Stores(*backends, tmp_path)


def fill(stores: Stores) -> None:
    for project in ("shop", "bank"):
        for queue in ("one", "two", "three"):
            stores.ours.done("message", "post", queue, "a", "b", "--project", project)
    stores.ours.done("topic", "publish", "news", "c", "--project", "shop")


def fill_big(stores: Stores) -> None:
    with stores.source.client() as client:
        stores.ours.done("message", "post", "big", "first", "--project", "shop")
        # As a post of each would have left it.
        (envelope,) = client.hvals(_BIG.bodies.decode())
        expiry = client.zscore(_BIG.expiry.decode(), 1)
        pipeline = client.pipeline(transaction=False)
        for start in range(2, _MANY + 1, 1000):
            ranks = range(start, min(start + 1000, _MANY + 1))
            pipeline.hset(_BIG.bodies.decode(), mapping={str(rank): envelope for rank in ranks})
            for key in (_BIG.messages, _BIG.ready):
                pipeline.zadd(key.decode(), {str(rank): rank for rank in ranks})
            pipeline.zadd(_BIG.expiry.decode(), {str(rank): expiry for rank in ranks})
        pipeline.hset(_BIG.queue.decode(), "rank", _MANY)
        pipeline.execute()


@pytest.mark.parametrize("name", ["zaqar.backup", "zaqar.backup.gz"])
def test_queues_and_topics_are_saved_and_restored(stores: Stores, name: str) -> None:
    fill(stores)
    stores.file = stores.file.with_name(name)
    outcome = stores.ours.run("backup", "--to", str(stores.file), "-f", "json")
    assert outcome.returncode == 0, outcome.stderr
    rows = sorted(
        (row["project"], row["queue"], row["outcome"]) for row in json.loads(outcome.stdout)
    )
    assert len(rows) == 7
    assert rows[-1] == ("shop", "two", "saved")
    assert "saving: 100%" in outcome.stderr
    assert "7 queues with 13 messages saved" in outcome.stderr
    assert (stores.file.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert stat.S_IMODE(stores.file.stat().st_mode) == 0o600
    assert list(stores.file.parent.iterdir()) == [stores.file]
    found, notices = stores.restored()
    assert len(found) == 7
    assert set(found.values()) == {"copied"}
    assert "restoring: 100%" in notices
    assert "7 queues with 13 messages copied" in notices
    assert f"UTC, of {stores.source.uri}" in notices
    assert stores.bodies("one") == ["a", "b"]
    assert [row["name"] for row in stores.theirs.shown("topic", "list", "--project", "shop")] == [
        "news"
    ]
    stores.assert_clean()
    found, notices = stores.restored()
    assert set(found.values()) == {"already there"}
    assert "already there: 7 queues: it exists; what changed in it since the backup" in notices
    assert "left out" not in notices


def test_schedules_of_the_named_queues_come_back_and_count_from_now(stores: Stores) -> None:
    fill(stores)
    when = ("--project", "shop", "--cron", "@yearly", "hello")
    stores.ours.done("schedule", "create", "report", "--queue", "jobs", *when)
    stores.ours.done("schedule", "create", "other", "--queue", "one", *when, "--paused")
    rows = stores.save("--queue", "jobs")  # which does not exist yet
    assert [(row["queue"], row["outcome"]) for row in rows] == [("schedule:report", "saved")]
    found, notices = stores.restored()
    assert found == {"shop/schedule:report": "copied"}
    assert "1 schedules copied" in notices
    [shown] = stores.theirs.shown("schedule", "list", "--project", "shop")
    assert shown == stores.ours.shown("schedule", "list", "--project", "shop")[1]
    assert stores.restored()[0] == {"shop/schedule:report": "already there"}
    stores.theirs.done("schedule", "pause", "report", "--project", "shop")
    found, notices = stores.restored(code=1)
    assert found == {"shop/schedule:report": "conflict"}
    assert "left out: 1 schedules: a schedule of this name exists" in notices
    stores.assert_clean()


def test_only_the_named_projects_and_queues_are_saved_and_restored(stores: Stores) -> None:
    fill(stores)
    rows = stores.save("--project", "shop", "--queue", "one", "--queue", "two")
    assert sorted(row["queue"] for row in rows) == ["one", "two"]
    found, _ = stores.restored("--queue", "two")
    assert found == {"shop/two": "copied"}
    stores.theirs.refused("restore", "--from", str(stores.file), "--project", "bank")
    assert stores.theirs.shown("queue", "list", "--project", "bank") == []


def test_dry_run_reads_the_file_and_changes_nothing(stores: Stores) -> None:
    fill(stores)
    stores.save()
    found, notices = stores.restored("--dry-run", "--control")
    assert set(found.values()) == {"to be copied"}
    assert "reading: 100%" in notices
    assert "0 quotas and 0 access keys" in notices
    with stores.target.client() as client:
        assert client.keys("zr:{shop/*") == []


def test_queue_of_this_name_is_left_alone_and_is_a_conflict(stores: Stores) -> None:
    fill(stores)
    stores.save()
    stores.theirs.done("message", "post", "one", "mine", "--project", "shop")
    found, notices = stores.restored(code=1)
    assert found.pop("shop/one") == "conflict"
    assert set(found.values()) == {"copied"}
    assert "left out: 1 queues: another queue of this name exists" in notices
    assert stores.bodies("one") == ["mine"]
    stores.assert_clean()


def test_quotas_come_back_when_they_are_asked_for(stores: Stores) -> None:
    fill(stores)
    stores.ours.done("quota", "set", "shop", "--messages", "7")
    stores.save()
    _, notices = stores.restored("--control")
    assert "restored 1 of 1 quotas and 0 of 0 access keys" in notices
    (quota,) = stores.theirs.shown("quota", "list")
    assert (quota["project"], quota["messages"]) == ("shop", 7)


def test_queues_are_saved_from_all_pools_and_restored_by_flavor(stores: Stores) -> None:
    with servers.redis_server() as pool, servers.redis_server() as new_pool:
        stores.ours.done("pool", "create", "p", "--uri", pool.uri, "--flavor", "fast")
        stores.ours.done(
            "queue", "create", "quick", "--metadata", '{"_flavor": "fast"}', "--project", "shop"
        )
        stores.ours.done("message", "post", "quick", "a", "--project", "shop")
        stores.save()
        for words in (("--dry-run",), ()):
            found, notices = stores.restored(*words, code=1)
            assert found == {"shop/quick": "failed"}
            assert 'no pool has its flavor "fast": first "zaqar-redis flavor create' in notices
        stores.theirs.done("pool", "create", "n", "--uri", new_pool.uri, "--flavor", "fast")
        found, _ = stores.restored()
        assert found == {"shop/quick": "copied"}
        with new_pool.client() as client:
            assert client.exists("zr:{shop/quick}") == 1
        assert stores.bodies("quick") == ["a"]
        stores.assert_clean()


def test_existing_file_is_not_overwritten(stores: Stores) -> None:
    fill(stores)
    stores.file.write_text("mine")
    refused = stores.ours.refused("backup", "--to", str(stores.file))
    assert f"{stores.file} exists, and is not overwritten" in refused
    assert stores.file.read_text() == "mine"


def test_unfinished_file_is_replaced_unless_its_writer_lives(stores: Stores) -> None:
    fill(stores)
    part = stores.file.with_name("zaqar.backup.part")
    with part.open("wb") as other:
        other.write(b"-" * 100_000)
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = stores.ours.refused("backup", "--to", str(stores.file))
        assert f"{part} is being written by another process" in refused
        assert part.exists()
    stores.save()
    assert not part.exists()
    assert len(stores.restored()[0]) == 7


def _truncated(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def _flipped(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0x40
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["zaqar.backup", "zaqar.backup.gz"])
@pytest.mark.parametrize("damage", [_truncated, _flipped])
def test_queues_before_a_damage_are_restored_and_its_queue_is_named(
    stores: Stores, damage: Callable[[Path, int], None], name: str
) -> None:
    fill(stores)
    stores.file = stores.file.with_name(name)
    stores.save()
    whole = stores.file.read_bytes()
    # The last record of the last queue; in a compressed file the checksum of all.
    place = len(whole) - 3 if name.endswith(".gz") else whole.rindex(b"messages")
    damage(stores.file, place)
    found, notices = stores.restored(code=1)
    assert f"{stores.file} is damaged before byte" in notices
    assert set(found.values()) == {"copied"}
    assert 1 <= len(found) <= 7
    stores.assert_clean()
    stores.file.write_bytes(whole)
    again, _ = stores.restored()
    assert len(again) == 7
    assert {key for key, outcome in again.items() if outcome == "already there"} == set(found)


def test_damaged_queue_is_named_and_nothing_of_it_is_restored(stores: Stores) -> None:
    fill_big(stores)
    stores.save()
    _truncated(stores.file, stores.file.stat().st_size // 2)
    found, notices = stores.restored(code=1)
    assert found == {}
    assert "in big of project shop: it ends too early" in notices
    with stores.target.client() as client:
        assert client.keys("zr:{shop/big}*") == []
    stores.assert_clean()


def test_damage_between_two_queues_names_the_one_before(stores: Stores) -> None:
    fill(stores)
    saved = stores.save()
    place = stores.file.read_bytes().rindex(f"{saved[-1]['queue']}".encode())
    _truncated(stores.file, place)
    found, notices = stores.restored(code=1)
    assert len(found) == 6
    before = saved[-2]
    assert f", behind {before['queue']} of project {before['project']}: it ends" in notices


def test_restore_of_queues_that_the_file_does_not_have_is_refused(stores: Stores) -> None:
    fill(stores)
    stores.save()
    for words in (["--queue", "none"], ["--project", "none"], ["--queue", "none", "--control"]):
        refused = stores.theirs.refused("restore", "--from", str(stores.file), *words)
        assert f"{stores.file} has no such queues: none was restored" in refused
    assert stores.restored("--queue", "one")[0].keys() == {"shop/one", "bank/one"}


def _newer() -> bytes:
    header = BackupHeader(backup_records.FORMAT_VERSION + 1, 0, "")
    return backup_records.MAGIC + frame(header)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"", "is not a backup", id="empty"),
        pytest.param(b"zaqar", "is not a backup", id="short"),
        pytest.param(b"REDIS0011" + b"\x00" * 100, "is not a backup", id="snapshot"),
        pytest.param(backup_records.MAGIC, "is not a backup", id="no header"),
        pytest.param(backup_records.MAGIC + b"\xff" * 50, "is not a backup", id="no record"),
        pytest.param(gzip.compress(b"something else"), "is not a backup", id="other gzip"),
        pytest.param(b"\x1f\x8bnot gzip", "is not a backup", id="damaged gzip"),
        pytest.param(
            _newer(), "has format 4; this version of zaqar-redis reads up to 3", id="newer"
        ),
    ],
)
def test_file_that_is_no_backup_is_refused(stores: Stores, content: bytes, why: str) -> None:
    stores.file.write_bytes(content)
    refused = stores.theirs.refused("restore", "--from", str(stores.file))
    assert f"{stores.file} {why}" in refused


def test_file_that_cannot_be_read_or_written_is_refused(stores: Stores, tmp_path: Path) -> None:
    fill(stores)
    for name, why in (("none", "No such file"), (".", "Is a directory")):
        refused = stores.theirs.refused("restore", "--from", str(tmp_path / name))
        assert why in refused
    refused = stores.ours.refused("backup", "--to", str(tmp_path / "none" / "backup"))
    assert "cannot be written: No such file or directory" in refused


def test_store_without_such_queues_is_refused_and_no_file_is_written(stores: Stores) -> None:
    for words in ([], ["--project", "none"], ["--queue", "none"]):
        refused = stores.ours.refused("backup", "--to", str(stores.file), *words)
        assert "no such queues: nothing was written" in refused
    assert list(stores.file.parent.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["backup"],
        ["restore"],
        ["backup", "--to", "x", "--queue", "no name"],
        ["restore", "--from", "x", "--queue", ""],
    ],
)
def test_wrong_command_line_is_refused(stores: Stores, words: list[str]) -> None:
    stores.ours.misused(*words)


def test_full_disk_leaves_no_file_and_no_lock(stores: Stores, tmp_path: Path) -> None:
    fill_big(stores)
    done = processes.run(
        [*processes.ZAQAR_REDIS, "backup", "--to", stores.file, "--storage", stores.source.uri],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)),
    )
    assert done.returncode == 1
    assert f"{stores.file} cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    with stores.source.client() as client:
        assert client.get(_BIG.move_lock.decode()) is None


@contextlib.contextmanager
def begun_restore(stores: Stores, folder: Path) -> Iterator[tuple[RunningCommand, Any]]:
    """A running restore of the many messages, and a client of its target."""
    with (
        running(stores.theirs, folder, "restore", "--from", str(stores.file)) as command,
        stores.target.client() as client,
    ):
        servers.wait_for(lambda: client.hlen(_BIG.bodies.decode()) > 1000, "the restore to begin")
        yield command, client


def test_killed_restore_is_repeated_and_completes(stores: Stores, tmp_path: Path) -> None:
    fill_big(stores)
    fill(stores)
    stores.save()
    with begun_restore(stores, tmp_path) as (command, client):
        command.process.send_signal(signal.SIGKILL)
        command.process.wait()
        assert client.get(_BIG.move_lock.decode()).startswith(b"into:import-")
    (leftover,) = stores.theirs.shown("check")
    assert leftover["what"] == "its import or restore was not finished"
    found, _ = stores.restored()
    assert found["shop/big"] == "copied"
    assert len(found) == 8
    with stores.target.client() as client:
        assert client.zcard(_BIG.ready.decode()) == _MANY
    stores.assert_clean()
    assert set(stores.restored()[0].values()) == {"already there"}


def test_interrupted_restore_leaves_no_part_of_a_queue(stores: Stores, tmp_path: Path) -> None:
    fill_big(stores)
    stores.save()
    with begun_restore(stores, tmp_path) as (command, client):
        assert "restoring" in command.interrupt()
        assert client.keys("zr:{shop/big}*") == []
    stores.assert_clean()


@contextlib.contextmanager
def waiting_backup(stores: Stores, folder: Path) -> Iterator[RunningCommand]:
    """A running backup, which waits for a queue that another process has locked."""
    lock = _BIG.move_lock.decode()
    with stores.source.client() as client:
        client.set(lock, "out:another", ex=600)
        with running(stores.ours, folder, "backup", "--to", str(stores.file)) as command:
            part = stores.file.with_name("zaqar.backup.part")
            servers.wait_for(part.exists, "the backup to begin")
            yield command
        assert client.get(lock) == b"out:another"
        client.delete(lock)


def _monitor(client: Any, key: str) -> Any:
    """Watches the commands of the server that has a key."""
    of_cluster = isinstance(client, redis.RedisCluster)
    return client.monitor(*[client.get_node_from_key(key)] if of_cluster else [])


def test_interrupted_backup_leaves_no_file_and_counts_no_queues(
    stores: Stores, tmp_path: Path
) -> None:
    fill_big(stores)
    stores.ours.done("message", "post", "a", "saved before it", "--project", "shop")
    with (
        waiting_backup(stores, tmp_path) as command,
        stores.source.client() as client,
        _monitor(client, _BIG.move_lock.decode()) as commands,
    ):
        # It tries again and again to lock the queue.
        next(each for each in commands.listen() if "{shop/big}" in each["command"])
        notices = command.interrupt()
    assert "saving" in notices
    assert "messages saved" not in notices
    assert {each.name for each in tmp_path.iterdir()} == {"out", "err"}


def test_killed_backup_is_repeated_and_completes(stores: Stores, tmp_path: Path) -> None:
    fill_big(stores)
    with waiting_backup(stores, tmp_path) as command:
        command.process.send_signal(signal.SIGKILL)
        command.process.wait()
    assert not stores.file.exists()
    (row,) = stores.save()
    assert (row["outcome"], row["messages"]) == ("saved", _MANY)


@pytest.mark.nightly
def test_backup_waits_for_a_lock_that_expires(stores: Stores) -> None:
    fill(stores)
    with stores.source.client() as client:
        of_queue = keys.of_queue("shop", "one")
        client.set(of_queue.move_lock.decode(), "out:dead", px=300)
    assert {row["outcome"] for row in stores.save()} == {"saved"}
