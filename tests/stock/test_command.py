# SPDX-License-Identifier: Apache-2.0
"""The import command: run once, run twice, interrupted, killed, and refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.stock.harness import (
    CLIENT,
    ImportedStore,
    ImportHarness,
    StockZaqarStorage,
    copy,
    dumped,
)
from tests.support import servers
from tests.support.command_line import RunningCommand, running, without_store
from tests.support.redis_sentinel import SERVICE, redis_sentinel
from zaqar_redis.keyspace import keys
from zaqar_redis.zaqar_import.source import to_redis_uri

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated hmset:DeprecationWarning")

_MANY = 30_000
_BIG = keys.of_queue("shop", "big")
_HEADERS = {"Client-ID": CLIENT, "X-Project-ID": "shop"}


def fill(stock: StockZaqarStorage) -> None:
    """Creates queues of three projects, with every kind of content."""
    for project in ("shop", "bank", None):
        for queue in ("one", "two"):
            stock.make(project, queue, colour="blue")
            stock.post(project, queue, *range(120))
            stock.post(project, queue, "later", delay=500)
            stock.claim(project, queue, 5)
            if project is not None:  # stock's subscriptions need a project
                stock.subscribe(project, queue, "http://a", "http://b")


def fill_big(stock: StockZaqarStorage) -> None:
    stock.make("shop", "big")
    for start in range(0, _MANY, 1000):
        stock.post("shop", "big", *range(start, start + 1000))


@pytest.fixture
def big(harness: ImportHarness, tmp_path: Path) -> Iterator[RunningCommand]:
    """A running import of many messages."""
    fill(harness.stock)
    fill_big(harness.stock)
    with (
        running(harness.shell, tmp_path, *harness.words) as command,
        harness.ours.client() as client,
    ):
        servers.wait_for(lambda: client.hlen(_BIG.bodies.decode()) > 1000, "the import to begin")
        yield command


def test_dry_run_changes_nothing_and_lists_what_would_be_copied(harness: ImportHarness) -> None:
    fill(harness.stock)
    before = harness.content()
    rows, notices = harness.run("--dry-run")
    assert harness.content() == before
    assert len(rows) == 6
    assert rows[0] == {
        "project": "",
        "queue": "one",
        "outcome": "to be copied",
        "messages": 121,
        "claims": 1,
        "subscriptions": 0,
        "expired": 0,
        "left_out": 0,
        "why": "",
    }
    assert "queues: 6 to be copied\nmessages: 726 to be copied" in notices
    assert "reading: 100%" in notices
    assert "6/6" in notices


def test_source_is_unchanged_and_a_second_run_copies_nothing(
    harness: ImportHarness,
) -> None:
    fill(harness.stock)
    theirs, _ = harness.content()
    harness.run()
    before = harness.content()
    assert before[0] == theirs
    rows, notices = harness.run()
    assert {row["outcome"] for row in rows} == {"already there"}
    assert "queues: 6 already there\nmessages: 0 copied" in notices
    assert "left out: 6 queues: copied before" in notices
    assert harness.content() == before
    harness.check()


def test_finished_import_is_recognised_after_the_queue_was_used(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    fill(harness.stock)
    harness.run()
    harness.shell.done("claim", "create", "one", "--project", "shop")
    harness.shell.done("queue", "purge", "one", "--project", "shop", "--yes")
    harness.shell.done("message", "post", "one", "new", "--project", "shop")
    rows, _ = harness.run()
    assert {row["outcome"] for row in rows} == {"already there"}
    assert [message.body for message in ours.messages("shop", "one")] == [b'"new"']
    harness.shell.done("queue", "delete", "two", "--project", "shop", "--yes")
    rows, _ = harness.run()
    assert [row["queue"] for row in rows if row["outcome"] == "copied"] == ["two"]


def test_only_the_given_projects_are_copied(harness: ImportHarness) -> None:
    fill(harness.stock)
    rows, _ = harness.run("--project", "bank", "--project", "")
    assert [row["project"] for row in rows] == ["bank", "bank", "", ""]
    assert harness.shell.shown("queue", "list", "--project", "shop") == []


def test_existing_queue_is_not_changed_and_reported(harness: ImportHarness) -> None:
    fill(harness.stock)
    harness.shell.done("message", "post", "one", "mine", "--project", "shop")
    rows, notices = harness.run(code=1)
    (conflict,) = [row for row in rows if row["outcome"] != "copied"]
    assert (conflict["project"], conflict["queue"]) == ("shop", "one")
    assert conflict["outcome"] == "conflict"
    assert "queues: 5 copied, 1 conflict" in notices
    assert "left out: 1 queues: another queue of this name exists" in notices
    (message,) = harness.shell.shown("message", "list", "one", "--project", "shop")
    assert message["body"] == "mine"
    harness.check()


def test_killed_import_is_restarted_by_the_next_run(
    harness: ImportHarness, ours: ImportedStore, big: RunningCommand
) -> None:
    big.process.send_signal(signal.SIGKILL)
    big.process.wait()
    with harness.ours.client() as client:
        assert client.get(_BIG.move_lock.decode()).startswith(b"into:import-")
        assert 1000 < client.hlen(_BIG.bodies.decode()) < _MANY
        assert not client.exists(_BIG.queue.decode())
    theirs, _ = harness.content()
    rows, _ = harness.run()
    assert harness.content()[0] == theirs
    outcomes = {(row["project"], row["queue"]): row["outcome"] for row in rows}
    assert outcomes["shop", "big"] == "copied"
    assert len(outcomes) == 7
    assert [json.loads(message.body) for message in ours.messages("shop", "big")] == list(
        range(_MANY)
    )
    for project in ("shop", "bank", ""):
        assert len(ours.messages(project, "one")) == 121
    harness.check()
    rows, _ = harness.run()
    assert {row["outcome"] for row in rows} == {"already there"}


def test_leftovers_of_a_killed_import_are_reported_and_repaired(
    harness: ImportHarness, big: RunningCommand
) -> None:
    big.process.send_signal(signal.SIGKILL)
    big.process.wait()
    (found,) = harness.shell.shown("check")
    assert (found["queue"], found["kind"]) == ("big", "leftover")
    assert "import" in found["what"]
    harness.shell.done("check", "--repair")
    harness.check()
    with harness.ours.client() as client:
        assert client.keys("zr:{shop/big}*") == []


@pytest.mark.nightly
def test_interrupted_import_leaves_no_partial_queue(
    harness: ImportHarness, big: RunningCommand
) -> None:
    assert "importing" in big.interrupt()
    with harness.ours.client() as client:
        assert client.keys("zr:{shop/big}*") == []
    harness.check()
    harness.run()
    assert harness.shell.shown("queue", "stats", "big", "--project", "shop")["total"] == _MANY


@pytest.fixture
def service(harness: ImportHarness) -> Iterator[servers.RunningService]:
    # It hardly waits for the lock: meanwhile an import is stopped, which its timeout bounds.
    options: dict[str, dict[str, object]] = {"storage": {"move_timeout": 0.1}}
    with servers.service(harness.ours.uri, options=options) as running:
        yield running


@pytest.mark.nightly
def test_queue_is_locked_until_its_import_is_complete(
    harness: ImportHarness,
    # Before the import: one that is stopped for longer than its timeout fails.
    service: servers.RunningService,
    big: RunningCommand,
) -> None:
    big.process.send_signal(signal.SIGSTOP)
    url = f"{service.url}/v2/queues/big/messages"
    body = {"messages": [{"body": "early", "ttl": 600}]}
    # Without TLS: else each of them reads all certificates of the system first.
    with httpx.Client(headers=_HEADERS, timeout=60, verify=False) as client:
        assert client.get(url).status_code == 503
        assert client.post(url, json=body).status_code == 503
    big.process.send_signal(signal.SIGCONT)
    assert big.process.wait(60) == 0, big.notices
    posted = httpx.post(url, json=body, headers=_HEADERS, timeout=60)
    assert posted.status_code == 201
    assert harness.shell.shown("queue", "stats", "big", "--project", "shop")["total"] == _MANY + 1
    harness.check()


@pytest.mark.nightly
def test_later_of_two_concurrent_imports_wins(harness: ImportHarness, big: RunningCommand) -> None:
    big.process.send_signal(signal.SIGSTOP)
    rows, _ = harness.run()
    assert "copied" in {row["outcome"] for row in rows}
    before = dumped(harness.ours)
    big.process.send_signal(signal.SIGCONT)
    assert big.process.wait(60) == 1
    assert dumped(harness.ours) == before
    harness.check()


def test_queues_go_to_the_pools_of_their_flavors(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    fill(harness.stock)
    harness.stock.make("shop", "quick", _flavor="fast")
    harness.stock.post("shop", "quick", "x")
    harness.stock.make("shop", "odd", _flavor="unknown")
    with servers.redis_server() as one, servers.redis_server() as two:
        harness.shell.done("pool", "create", "one", "--uri", one.uri)
        harness.shell.done("pool", "create", "two", "--uri", two.uri, "--flavor", "fast")
        for outcome, words in (("to be copied", ["--dry-run"]), ("copied", [])):
            rows, notices = harness.run(*words, code=1)
            (failed,) = [row for row in rows if row["outcome"] != outcome]
            assert (failed["queue"], '"unknown" is none' in failed["why"]) == ("odd", True)
        assert "queues: 7 copied, 1 failed" in notices
        located = harness.shell.shown("queue", "locate", "quick", "--project", "shop")
        assert located["pool"] == "two"
        located = harness.shell.shown("queue", "locate", "one", "--project", "shop")
        assert located["pool"] == "one"
        assert not [key for key in dumped(harness.ours) if key.startswith(b"zr:{shop/")]
        harness.check()
        rows, _ = harness.run("--project", "shop", code=1)
        assert {row["outcome"] for row in rows} == {"already there", "failed"}


def test_queue_whose_pool_fails_leaves_no_keys(harness: ImportHarness) -> None:
    fill(harness.stock)
    with servers.redis_server() as gone:
        harness.shell.done("pool", "create", "one", "--uri", gone.uri)
    outcome = harness.shell.run(*harness.words)
    assert outcome.returncode == 1
    assert "one" in outcome.stderr
    assert dumped(harness.ours).keys() <= {
        b"zr:{control}:pools",
        b"zr:{control}:version",
        b"zr:{control}:flavors",
        b"zr:{control}:installation",
        b"zr:owner",
        b"zr:{control}:format",
    }


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("redis://127.0.0.1:1", "cannot be reached"),
        ("mongodb://127.0.0.1", 'unknown scheme "mongodb"'),
        ("redis://127.0.0.1:1,127.0.0.1:2?master=zaqar", "cannot be reached"),
        ("redis://127.0.0.1:1?master=zaqar/1", "must be the name of the primary"),
        ("nonsense", "unknown scheme"),
    ],
)
def test_unusable_source_is_reported(harness: ImportHarness, uri: str, why: str) -> None:
    notices = harness.shell.refused("import-stock", "--from", uri)
    assert "--from" in notices
    assert why in notices


def test_store_behind_sentinels_is_imported_after_a_failover(harness: ImportHarness) -> None:
    with redis_sentinel(sentinels=1) as watched:
        uri = f"redis://127.0.0.1:{watched.sentinels[0].port}?master={SERVICE}&socket_timeout=10"
        stock = StockZaqarStorage(uri)
        stock.make("shop", "one", colour="blue")
        stock.post("shop", "one", *range(3))
        with watched.servers[1].client() as replica:
            servers.wait_for(lambda: replica.zcard("shop.one.messages") == 3, "a copy")
        watched.fail_over()
        (row,) = harness.shell.shown("import-stock", "--from", uri)
    assert (row["queue"], row["outcome"], row["messages"]) == ("one", "copied", 3)
    harness.check()


def test_source_without_stock_queues_is_reported(harness: ImportHarness) -> None:
    assert "it has no queues" in harness.shell.refused(*harness.words)
    harness.stock.make("shop", "one")
    assert "the store has no queues of bank" in harness.shell.refused(
        *harness.words, "--project", "bank"
    )
    with harness.theirs.client() as client:
        client.delete("shop.queues_set")
    assert "its queues are in another store" in harness.shell.refused(*harness.words)


def test_unreachable_target_is_reported(harness: ImportHarness) -> None:
    fill(harness.stock)
    notices = without_store().refused(*harness.words)
    assert "cannot be reached" in notices
    assert "--from" not in notices


def test_import_does_not_need_stock_zaqar(harness: ImportHarness) -> None:
    fill(harness.stock)
    program = (
        "import sys; sys.modules['zaqar'] = None; sys.modules['msgpack'] = None;"
        "from zaqar_redis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program, *harness.words, *harness.shell.target_options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr


def test_import_killed_before_listing_the_queue_is_completed_by_the_next(
    harness: ImportHarness,
) -> None:
    fill(harness.stock)
    harness.run()
    with harness.ours.client() as client:
        client.zrem("zr:queues:shop", "one")
        client.hset("zr:{shop/one}", "unlisted", 1)
    harness.run("--dry-run")
    assert len(harness.shell.shown("queue", "list", "--project", "shop")) == 1
    harness.run()
    assert len(harness.shell.shown("queue", "list", "--project", "shop")) == 2
    harness.check()


@pytest.mark.parametrize(
    ("move_lock", "outcome"),
    [
        ("closed:0", "copied"),  # the queue was moved away or deleted
        ("into:import-0", "copied"),
        ("into:0", "conflict"),
        ("out:0", "conflict"),
        ("gone:0", "conflict"),
    ],
)
def test_queue_with_a_move_lock_of_a_move_is_not_imported(
    harness: ImportHarness, move_lock: str, outcome: str
) -> None:
    harness.stock.make("shop", "one")
    with harness.ours.client() as client:
        client.set("zr:{shop/one}:gate", move_lock)
        rows, _ = harness.run(code=int(outcome == "conflict"))
        assert [row["outcome"] for row in rows] == [outcome]
        assert client.exists("zr:{shop/one}") == (outcome == "copied")


@pytest.mark.nightly
@pytest.mark.parametrize("which", ["theirs", "ours"])
def test_store_that_dies_during_the_import_is_reported(
    which: str, tmp_path: Path, harness: ImportHarness
) -> None:
    fill(harness.stock)
    fill_big(harness.stock)
    with servers.redis_server() as spare:
        mortal = (
            ImportHarness(spare, harness.ours)
            if which == "theirs"
            else ImportHarness(harness.theirs, spare)
        )
        if which == "theirs":
            copy(harness.theirs, spare)
        with (
            running(mortal.shell, tmp_path, *mortal.words) as command,
            mortal.ours.client() as client,
        ):
            servers.wait_for(
                lambda: client.hlen(_BIG.bodies.decode()) > 1000, "the import to begin"
            )
            spare.signal(signal.SIGKILL)
            assert command.process.wait(60) == 1
            assert "Traceback" not in command.notices
            if which == "theirs":
                assert f"--from redis:{spare.socket}" in command.notices
                assert client.keys("zr:{shop/big}*") == []
            else:
                assert "failed" in "\n".join(command.lines)
        if which == "theirs":
            mortal.theirs = harness.theirs
        else:
            spare.start()
        mortal.run()
        assert mortal.shell.shown("queue", "stats", "big", "--project", "shop")["total"] == _MANY
        mortal.check()


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("redis://host:6380", "redis://host:6380"),
        ("redis://host:6380/3", "redis://host:6380/3"),
        ("redis://:secret@host?dbid=2&socket_timeout=1", "redis://:secret@host?db=2"),
        ("redis:/run/redis.sock?dbid=1", "unix:///run/redis.sock?db=1"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis://a,b:26380?master=zaqar", "redis+sentinel://a,b:26380/zaqar?db=0"),
        (
            "redis://u:pw@a:1,b:2?master=zaqar&dbid=3&socket_timeout=1&sentinel_username=s"
            "&sentinel_password=of%20these",
            "redis+sentinel://u:pw@a:1,b:2/zaqar?db=3&sentinel_username=s"
            "&sentinel_password=of+these",
        ),
    ],
)
def test_source_uris_are_parsed_in_stocks_spelling(given: str, plain: str) -> None:
    assert to_redis_uri(given) == plain
