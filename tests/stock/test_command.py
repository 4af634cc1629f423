# SPDX-License-Identifier: Apache-2.0
"""The command: once, twice, interrupted, killed, and where it must not be let."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.cli.conftest import Running, Shell, running
from tests.stock.house import CLIENT, House, Ours, Stock, dumped
from zaqar_redis.keyspace import keys
from zaqar_redis.stock.source import understood

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated hmset:DeprecationWarning")

_MANY = 30_000
_BIG = keys.of_queue("shop", "big")
_HEADERS = {"Client-ID": CLIENT, "X-Project-ID": "shop"}


def fill(stock: Stock) -> None:
    """Queues of three projects, with something of everything."""
    for project in ("shop", "bank", None):
        for queue in ("one", "two"):
            stock.make(project, queue, colour="blue")
            stock.post(project, queue, *range(120))
            stock.post(project, queue, "later", delay=500)
            stock.claim(project, queue, 5)
            if project is not None:  # which stock's subscriptions cannot do without
                stock.subscribe(project, queue, "http://a", "http://b")


def fill_big(stock: Stock) -> None:
    stock.make("shop", "big")
    for start in range(0, _MANY, 1000):
        stock.post("shop", "big", *range(start, start + 1000))


@pytest.fixture
def big(house: House, tmp_path: Path) -> Iterator[Running]:
    """An import of many messages that has begun."""
    fill(house.stock)
    fill_big(house.stock)
    with running(house.shell, tmp_path, *house.words) as command, house.ours.client() as client:
        servers.wait_for(lambda: client.hlen(_BIG.bodies.decode()) > 1000, "the import to begin")
        yield command


def test_a_dry_run_changes_nothing_and_says_what_would_be_copied(house: House) -> None:
    fill(house.stock)
    before = house.content()
    rows, said = house.run("--dry-run")
    assert house.content() == before
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
    assert "queues: 6 to be copied\nmessages: 726 to be copied" in said
    assert "reading: 100%" in said
    assert "6/6" in said


def test_stocks_store_stays_as_it_is_and_a_second_run_copies_nothing(house: House) -> None:
    fill(house.stock)
    theirs, _ = house.content()
    house.run()
    before = house.content()
    assert before[0] == theirs
    rows, said = house.run()
    assert {row["outcome"] for row in rows} == {"already there"}
    assert "queues: 6 already there\nmessages: 0 copied" in said
    assert "left out: 6 queues: copied before" in said
    assert house.content() == before
    house.check()


def test_a_finished_import_is_known_after_the_queue_was_used(house: House, ours: Ours) -> None:
    fill(house.stock)
    house.run()
    house.shell.done("claim", "create", "one", "--project", "shop")
    house.shell.done("queue", "purge", "one", "--project", "shop", "--yes")
    house.shell.done("message", "post", "one", "new", "--project", "shop")
    rows, _ = house.run()
    assert {row["outcome"] for row in rows} == {"already there"}
    assert [message.body for message in ours.messages("shop", "one")] == [b'"new"']
    house.shell.done("queue", "delete", "two", "--project", "shop", "--yes")
    rows, _ = house.run()
    assert [row["queue"] for row in rows if row["outcome"] == "copied"] == ["two"]


def test_only_the_projects_that_are_named_are_copied(house: House) -> None:
    fill(house.stock)
    rows, _ = house.run("--project", "bank", "--project", "")
    assert [row["project"] for row in rows] == ["bank", "bank", "", ""]
    assert house.shell.shown("queue", "list", "--project", "shop") == []


def test_a_queue_that_was_there_is_left_alone_and_said(house: House) -> None:
    fill(house.stock)
    house.shell.done("message", "post", "one", "mine", "--project", "shop")
    rows, said = house.run(code=1)
    (conflict,) = [row for row in rows if row["outcome"] != "copied"]
    assert (conflict["project"], conflict["queue"]) == ("shop", "one")
    assert conflict["outcome"] == "conflict"
    assert "queues: 5 copied, 1 conflict" in said
    assert "left out: 1 queues: another queue of this name is there" in said
    (message,) = house.shell.shown("message", "list", "one", "--project", "shop")
    assert message["body"] == "mine"
    house.check()


def test_an_import_that_is_killed_is_begun_anew(house: House, ours: Ours, big: Running) -> None:
    big.process.send_signal(signal.SIGKILL)
    big.process.wait()
    with house.ours.client() as client:
        assert client.get(_BIG.gate.decode()).startswith(b"into:import-")
        assert 1000 < client.hlen(_BIG.bodies.decode()) < _MANY
        assert not client.exists(_BIG.queue.decode())
    theirs, _ = house.content()
    rows, _ = house.run()
    assert house.content()[0] == theirs
    outcomes = {(row["project"], row["queue"]): row["outcome"] for row in rows}
    assert outcomes["shop", "big"] == "copied"
    assert len(outcomes) == 7
    assert [json.loads(message.body) for message in ours.messages("shop", "big")] == list(
        range(_MANY)
    )
    for project in ("shop", "bank", ""):
        assert len(ours.messages(project, "one")) == 121
    house.check()
    rows, _ = house.run()
    assert {row["outcome"] for row in rows} == {"already there"}


def test_what_a_killed_import_left_is_said_and_tidied(house: House, big: Running) -> None:
    big.process.send_signal(signal.SIGKILL)
    big.process.wait()
    (found,) = house.shell.shown("check")
    assert (found["queue"], found["kind"]) == ("big", "leftover")
    assert "import" in found["what"]
    house.shell.done("check", "--repair")
    house.check()
    with house.ours.client() as client:
        assert client.keys("zr:{shop/big}*") == []


def test_an_import_that_is_interrupted_leaves_no_half_queue(house: House, big: Running) -> None:
    assert "importing" in big.interrupted()
    with house.ours.client() as client:
        assert client.keys("zr:{shop/big}*") == []
    house.check()
    house.run()
    assert house.shell.shown("queue", "stats", "big", "--project", "shop")["total"] == _MANY


def test_nobody_sees_a_queue_before_it_is_whole(house: House, big: Running) -> None:
    big.process.send_signal(signal.SIGSTOP)
    with servers.service(house.ours.uri) as service:
        url = f"{service.url}/v2/queues/big/messages"
        body = {"messages": [{"body": "early", "ttl": 600}]}
        assert httpx.get(url, headers=_HEADERS).status_code == 503
        assert httpx.post(url, json=body, headers=_HEADERS).status_code == 503
        big.process.send_signal(signal.SIGCONT)
        assert big.process.wait(60) == 0
        posted = httpx.post(url, json=body, headers=_HEADERS)
        assert posted.status_code == 201
    assert house.shell.shown("queue", "stats", "big", "--project", "shop")["total"] == _MANY + 1
    house.check()


def test_of_two_imports_at_once_the_later_one_wins(house: House, big: Running) -> None:
    big.process.send_signal(signal.SIGSTOP)
    rows, _ = house.run()
    assert "copied" in {row["outcome"] for row in rows}
    before = dumped(house.ours)
    big.process.send_signal(signal.SIGCONT)
    assert big.process.wait(60) == 1
    assert dumped(house.ours) == before
    house.check()


def test_queues_go_to_the_pools_of_their_flavors(house: House, ours: Ours) -> None:
    fill(house.stock)
    house.stock.make("shop", "quick", _flavor="fast")
    house.stock.post("shop", "quick", "x")
    house.stock.make("shop", "odd", _flavor="unknown")
    with servers.redis_server() as one, servers.redis_server() as two:
        house.shell.done("pool", "create", "one", "--uri", one.uri)
        house.shell.done("pool", "create", "two", "--uri", two.uri, "--flavor", "fast")
        rows, said = house.run(code=1)
        (failed,) = [row for row in rows if row["outcome"] != "copied"]
        assert failed["queue"] == "odd"
        assert '"unknown" is none' in failed["why"]
        assert "queues: 7 copied, 1 failed" in said
        located = house.shell.shown("queue", "locate", "quick", "--project", "shop")
        assert located["pool"] == "two"
        located = house.shell.shown("queue", "locate", "one", "--project", "shop")
        assert located["pool"] == "one"
        assert not [key for key in dumped(house.ours) if key.startswith(b"zr:{shop/")]
        house.check()
        rows, _ = house.run("--project", "shop", code=1)
        assert {row["outcome"] for row in rows} == {"already there", "failed"}


def test_a_queue_that_cannot_come_to_its_pool_leaves_nothing(house: House) -> None:
    fill(house.stock)
    with servers.redis_server() as gone:
        house.shell.done("pool", "create", "one", "--uri", gone.uri)
    outcome = house.shell.run(*house.words)
    assert outcome.returncode == 1
    assert "one" in outcome.stderr
    assert dumped(house.ours).keys() <= {
        b"zr:{control}:pools",
        b"zr:{control}:version",
        b"zr:{control}:flavors",
        b"zr:{control}:installation",
        b"zr:owner",
    }


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("redis://127.0.0.1:1", "cannot be reached"),
        ("mongodb://127.0.0.1", 'unknown scheme "mongodb"'),
        ("redis://a:26379,b:26379?master=zaqar", "not its Sentinels"),
        ("nonsense", "unknown scheme"),
    ],
)
def test_a_wrong_source_is_named(house: House, uri: str, why: str) -> None:
    said = house.shell.refused("import-stock", "--from", uri)
    assert "--from" in said
    assert why in said


def test_a_store_that_is_not_stocks_is_said_to_be_none(house: House) -> None:
    assert "no queues are there" in house.shell.refused(*house.words)
    house.stock.make("shop", "one")
    assert "no queues of bank are there" in house.shell.refused(*house.words, "--project", "bank")
    with house.theirs.client() as client:
        client.delete("shop.queues_set")
    assert "its queues are in another store" in house.shell.refused(*house.words)


def test_a_target_that_is_away_is_said_to_be(house: House) -> None:
    fill(house.stock)
    nowhere = Shell(["--storage", "redis://127.0.0.1:1"])
    said = nowhere.refused(*house.words)
    assert "cannot be reached" in said
    assert "--from" not in said


def test_stock_zaqar_is_not_needed(house: House) -> None:
    fill(house.stock)
    program = (
        "import sys; sys.modules['zaqar'] = None; sys.modules['msgpack'] = None;"
        "from zaqar_redis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program, *house.words, *house.shell.where],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr


def test_an_import_that_was_killed_before_it_could_list_the_queue_is_made_good(
    house: House,
) -> None:
    fill(house.stock)
    house.run()
    with house.ours.client() as client:
        client.zrem("zr:queues:shop", "one")
        client.hset("zr:{shop/one}", "unlisted", 1)
    house.run("--dry-run")
    assert len(house.shell.shown("queue", "list", "--project", "shop")) == 1
    house.run()
    assert len(house.shell.shown("queue", "list", "--project", "shop")) == 2
    house.check()


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ("closed:0", "copied"),  # it was here, and moved away or was deleted
        ("into:import-0", "copied"),
        ("into:0", "conflict"),
        ("out:0", "conflict"),
        ("gone:0", "conflict"),
    ],
)
def test_a_queue_on_the_move_is_left_alone(house: House, gate: str, outcome: str) -> None:
    house.stock.make("shop", "one")
    with house.ours.client() as client:
        client.set("zr:{shop/one}:gate", gate)
        rows, _ = house.run(code=int(outcome == "conflict"))
        assert [row["outcome"] for row in rows] == [outcome]
        assert client.exists("zr:{shop/one}") == (outcome == "copied")


@pytest.mark.parametrize("which", ["theirs", "ours"])
def test_a_store_that_dies_meanwhile_is_said_to_be_away(
    which: str, tmp_path: Path, house: House
) -> None:
    fill(house.stock)
    fill_big(house.stock)
    with servers.redis_server() as spare, house.theirs.client() as source:
        mortal = House(spare, house.ours) if which == "theirs" else House(house.theirs, spare)
        if which == "theirs":
            with spare.client() as copy:
                for key in source.scan_iter():
                    copy.restore(key, max(0, source.pttl(key)), source.dump(key) or b"")
        with (
            running(mortal.shell, tmp_path, *mortal.words) as command,
            mortal.ours.client() as client,
        ):
            servers.wait_for(lambda: client.hlen(_BIG.bodies.decode()) > 1000, "a beginning")
            spare.signal(signal.SIGKILL)
            assert command.process.wait(60) == 1
            assert "Traceback" not in command.notices
            if which == "theirs":
                assert f"--from redis:{spare.socket}" in command.notices
                assert client.keys("zr:{shop/big}*") == []
            else:
                assert "failed" in "\n".join(command.lines)
        if which == "theirs":
            mortal.theirs = house.theirs
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
    ],
)
def test_uris_are_understood_as_stock_spells_them(given: str, plain: str) -> None:
    assert understood(given) == plain
