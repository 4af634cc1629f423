# SPDX-License-Identifier: Apache-2.0
"""Pool and flavor commands against a service, and directly against the store."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.cli.conftest import ADMIN
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.terminal import terminal

CLIENT = "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10"


@pytest.fixture
def stores() -> Iterator[list[str]]:
    with servers.redis_server() as one, servers.redis_server() as two:
        yield [one.uri, two.uri]


def test_pools_are_created_shown_updated_and_deleted(shell: CommandLine, stores: list[str]) -> None:
    created = shell.shown(
        "pool", "create", "one", "--uri", stores[0], "--options", '{"timeout": 2}'
    )
    assert (created["name"], created["weight"], created["options"]) == ("one", 100, {"timeout": 2})
    shell.done("pool", "create", "two", "--uri", stores[1], "--weight", "0")
    listed = shell.shown("pool", "list")
    assert [(pool["name"], pool["weight"]) for pool in listed] == [("one", 100), ("two", 0)]
    assert "one," in shell.done("pool", "list", "-f", "csv", "--quote", "none")
    assert shell.shown("pool", "update", "two", "--weight", "5")["weight"] == 5
    notices = shell.notices("pool", "create", "one", "--uri", stores[0])
    assert 'options was {"timeout": 2}, and is now {}: it was not given' in notices
    assert "weight was" not in notices
    notices = shell.notices("pool", "create", "two", "--uri", stores[1])
    assert "weight was 5, and is now 100: it was not given" in notices
    assert "nothing to delete" in shell.notices("pool", "delete", "three", "--yes")
    assert "nothing to delete" in shell.notices("flavor", "delete", "three", "--yes")
    assert "--yes" in shell.refused("pool", "delete", "two")
    shell.done("pool", "delete", "two", "--yes")
    assert "no pool two" in shell.refused("pool", "show", "two")
    assert [pool["name"] for pool in shell.shown("pool", "list")] == ["one"]
    spread = shell.shown("pool", "rebalance")
    assert [(store["name"], store["queues"]) for store in spread] == [("default", 0), ("one", 0)]


def test_invalid_pool_and_flavor_commands_change_nothing(
    shell: CommandLine, stores: list[str]
) -> None:
    nowhere = ("--uri", "redis://127.0.0.1:1", "--options", '{"connect_timeout": 0.1}')
    assert "cannot connect" in shell.refused("pool", "create", "one", *nowhere)
    assert "weight" in shell.refused("pool", "create", "a", "--uri", stores[0], "--weight", "-1")
    shell.done("pool", "create", "one", "--uri", stores[0])
    assert '"one"' in shell.refused("pool", "create", "two", "--uri", stores[0])
    assert "nobody" in shell.refused("flavor", "create", "fast", "nobody")
    assert [pool["name"] for pool in shell.shown("pool", "list")] == ["one"]
    assert shell.shown("flavor", "list") == []
    wrong = ("--uri", stores[1], "--options", "{")
    assert "not JSON" in shell.misused("pool", "create", "two", *wrong)


def test_pool_whose_store_hangs_is_refused_with_the_reason(shell: CommandLine) -> None:
    with servers.redis_server() as hanging:
        hanging.signal(signal.SIGSTOP)
        refused = shell.refused("pool", "create", "one", "--uri", hanging.uri)
        seconds = servers.CONNECT_TIMEOUT
        assert f"cannot connect to {hanging.uri}: no answer within {seconds} s.\n" in refused


def test_flavors_are_created_shown_updated_and_deleted(
    shell: CommandLine, stores: list[str]
) -> None:
    for name, uri in zip(("one", "two"), stores, strict=True):
        shell.done("pool", "create", name, "--uri", uri)
    created = shell.shown("flavor", "create", "fast", "one", "two")
    assert created == {"name": "fast", "pools": ["one", "two"]}
    assert shell.done("flavor", "list", "-f", "value") == "fast one two\n"
    assert shell.shown("flavor", "list") == [{"name": "fast", "pools": ["one", "two"]}]
    shell.done("flavor", "update", "fast", "two")
    assert shell.shown("flavor", "show", "fast") == {"name": "fast", "pools": ["two"]}
    assert "fast" in shell.refused("pool", "delete", "two", "--yes")
    assert "no flavor" in shell.refused("flavor", "update", "slow", "two")
    shell.done("flavor", "delete", "fast", "--yes")
    assert shell.shown("flavor", "list") == []


def test_drained_pool_has_no_queues(stores: list[str], project: str) -> None:
    with servers.redis_server() as server:
        shell = CommandLine(["--storage", server.uri])
        shell.done("pool", "create", "one", "--uri", stores[0])
        headers = {"Client-ID": CLIENT, "X-Project-ID": project}
        document = {"messages": [{"body": number} for number in range(5)]}
        with servers.service(server.uri) as service:
            for number in range(12):
                url = f"{service.url}/v2/queues/q{number}/messages"
                posted = httpx.post(url, json=document, headers=headers, timeout=30)
                assert posted.status_code == 201
        assert shell.shown("pool", "show", "one")["queues"] == 12
        shell.done("pool", "create", "two", "--uri", stores[1])
        drained = shell.run("pool", "drain", "one")
        assert drained.returncode == 0, drained.stderr
        assert "12/12" in drained.stderr
        assert shell.shown("pool", "show", "one")["draining"] is True
        assert shell.shown("pool", "show", "two")["queues"] == 12
        shell.done("pool", "drain", "one", "--undo")
        assert shell.shown("pool", "show", "one")["draining"] is False
        with servers.service(server.uri) as service:
            url = f"{service.url}/v2/queues/q7/messages?echo=true"
            found = httpx.get(url, headers=headers, timeout=30).json()["messages"]
        assert [message["body"] for message in found] == list(range(5))


@pytest.mark.nightly
def test_rebalanced_queues_are_spread_and_located(shell: CommandLine, stores: list[str]) -> None:
    for number in range(8):
        shell.done("message", "post", f"q{number}", str(number))
    assert shell.shown("queue", "locate", "q3")["pool"] == "default"
    for name, uri in zip(("one", "two"), stores, strict=True):
        shell.done("pool", "create", name, "--uri", uri)
    planned = [
        {"name": "default", "queues": 8, "due": 0},
        {"name": "one", "queues": 0, "due": 4},
        {"name": "two", "queues": 0, "due": 4},
    ]
    assert shell.shown("pool", "rebalance", "--dry-run") == planned
    assert shell.shown("pool", "rebalance", "--stop") == planned
    done = shell.run("pool", "rebalance", "-f", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ['"default",0,0', '"one",4,4', '"two",4,4']
    assert "rebalancing" in done.stderr
    assert shell.shown("queue", "locate", "q3")["pool"] in ("one", "two")
    assert shell.shown("message", "list", "q3")[0]["body"] == 3


def test_impossible_drain_reports_the_reason(shell: CommandLine, stores: list[str]) -> None:
    shell.done("pool", "create", "one", "--uri", stores[0])
    shell.done("flavor", "create", "fast", "one")
    shell.done("queue", "create", "orders", "--metadata", '{"_flavor": "fast"}')
    message = shell.refused("pool", "drain", "one")
    assert "default/orders: " in message
    assert '"fast" has no other pool' in message


@pytest.mark.nightly
def test_queues_are_listed_and_watched_while_a_pool_is_away() -> None:
    with (
        servers.redis_server() as redis,
        servers.redis_server() as lost,
        servers.service(redis.uri, options=ADMIN) as service,
    ):
        shell = CommandLine(["--url", service.url])
        shell.done("message", "post", "near", "1")
        shell.done("pool", "create", "lost", "--uri", lost.uri)
        shell.done("message", "post", "far", "1", "2")
        assert shell.shown("queue", "list") == [{"name": "far"}, {"name": "near"}]
        lost.signal(signal.SIGKILL)
        for at in (shell, CommandLine(["--storage", redis.uri])):
            listed = at.run("queue", "list", "--detailed", "-f", "json")
            assert listed.returncode == 5
            assert "store lost is away" in listed.stderr
            far, near = json.loads(listed.stdout)
            assert far == {"name": "far", "metadata": None, "unavailable": "lost"}
            assert (near["name"], near["unavailable"]) == ("near", "")
            assert near["metadata"]["_max_messages_post_size"]
        _check_top(shell)
        headers = {"Client-ID": CLIENT, "X-Project-ID": "default"}
        with httpx.Client(headers=headers, verify=False, timeout=30) as client:
            # Other clients must not take a queue for deleted.
            assert client.get(f"{service.url}/v2/queues").status_code == 503
            page = client.get(f"{service.url}/v2/queues?partial=true&limit=1").json()
        far = {"name": "far", "href": "/v2/queues/far", "unavailable": "lost"}
        assert (page["queues"], page["unavailable"]) == ([far], ["lost"])
        assert page["links"][0]["href"].endswith("marker=far&limit=1&partial=true")
        lost.start()
        servers.wait_for(lambda: shell.run("queue", "list").returncode == 0, "the store")


def _check_top(shell: CommandLine) -> None:
    """Checks what it shows while the store of the queue "far" is away."""
    shown = shell.run("top", "--once", "--interval", "1")
    assert shown.returncode == 5
    assert "store lost is away" in shown.stderr
    title, _, *rows = shown.stdout.splitlines()
    assert "2 queues (1 unknown), 1 messages" in title
    assert [row.split()[0] for row in rows] == ["near", "far"]
    assert rows[1].split()[1:] == ["?"] * 9
    with terminal("top", "--name", "r", *shell.target_options) as screen:
        screen.wait_for("far ? ? ? ?")
        screen.wait_for("store lost is away")
        screen.press("q")
        assert screen.process.wait(60) == 0


@pytest.mark.nightly
def test_drain_of_unreachable_pool_ends_with_the_reason(
    shell: CommandLine, stores: list[str]
) -> None:
    with servers.redis_server() as stopped:
        shell.done("pool", "create", "one", "--uri", stopped.uri)
        for number in range(12):
            shell.done("queue", "create", f"q{number}")
    shell.done("pool", "create", "two", "--uri", stores[0])
    message = shell.refused("pool", "drain", "one")
    assert "12 queues could not be moved" in message
    assert "cannot be reached" in message
    assert shell.shown("queue", "locate", "q3")["pool"] == "one"
    assert shell.shown("pool", "show", "one")["queues"] == 12


def test_url_and_storage_exclude_each_other(in_process: CommandLine) -> None:
    in_process.misused("pool", "list", "--url", "http://127.0.0.1:1", "--storage", "redis://x")


def test_unreachable_service_is_named() -> None:
    assert "http://127.0.0.1:1" in CommandLine(["--url", "http://127.0.0.1:1"]).refused(
        "pool", "list"
    )


def test_service_without_admin_mode_is_reported(service: servers.RunningService) -> None:
    shell = CommandLine(["--url", service.url])
    for command in (("pool", "list"), ("quota", "set", "p", "--queues", "1"), ("quota", "list")):
        refusal = shell.refused(*command)
        assert "admin mode" in refusal
        assert "--storage" in refusal
