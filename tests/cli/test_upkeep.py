# SPDX-License-Identifier: Apache-2.0
"""Commands that work on a store as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.cli.conftest import Shell


@pytest.fixture
def home() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as running:
        yield running


@pytest.fixture
def shell(home: servers.RedisServer) -> Shell:
    return Shell(["--storage", home.uri])


def test_a_store_is_checked_and_mended(shell: Shell, home: servers.RedisServer) -> None:
    shell.done("message", "post", "orders", "one", "two")
    assert shell.shown("check") == []
    with home.client() as client:
        client.delete("zr:{default/orders}:ready")
        client.zrem("zr:queues:default", "orders")
    found = shell.run("check", "-f", "csv", "--quote", "none")
    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        "pool,project,queue,kind,mended,what",
        "default,default,orders,damage,False,"
        "2 messages are neither claimable nor claimed nor delayed",
        "default,default,orders,leftover,False,it is not listed",
    ]
    assert "checking: 1 queues" in found.stderr
    assert "2 messages" in found.stderr
    assert [row["mended"] for row in shell.shown("check", "--repair")] == [True, True]
    assert shell.shown("check") == []
    assert len(shell.shown("claim", "create", "orders")) == 2


def test_a_pool_that_is_named_itself_is_checked_as_a_store_of_its_own(shell: Shell) -> None:
    with servers.redis_server() as pool:
        shell.done("pool", "create", "one", "--uri", pool.uri)
        shell.done("message", "post", "orders", "one", "two")
        alone = Shell(["--storage", pool.uri])
        assert alone.shown("check") == []
        assert alone.shown("check", "--repair") == []
        with pool.client() as client:
            assert client.exists("zr:{default/orders}") == 1
            assert client.keys("zr:{control}:*") == []  # it was not made a service's own
            client.delete("zr:{default/orders}:ready")
        assert [row["kind"] for row in shell.shown("check", "--repair")] == ["damage"]


def test_a_store_is_swept(shell: Shell, home: servers.RedisServer) -> None:
    shell.done("message", "post", "orders", "one", "two", "--ttl", "60")
    assert shell.done("sweep") == "0 messages and claims tidied\n"
    with home.client() as client:
        for name in ("1", "2"):
            client.zadd("zr:{default/orders}:expiry", {name: 1})
    assert shell.done("sweep") == "2 messages and claims tidied\n"
    assert shell.shown("queue", "stats", "orders")["total"] == 0


def test_a_pool_that_is_away_is_said_behind_the_others(
    shell: Shell, home: servers.RedisServer
) -> None:
    with servers.redis_server() as gone:
        shell.done("pool", "create", "one", "--uri", gone.uri)
    for command in ("check", "sweep"):
        outcome = shell.run(command)
        assert outcome.returncode == 1
        assert "one" in outcome.stdout + outcome.stderr


def test_a_store_that_is_away_is_said_to_be(home: servers.RedisServer) -> None:
    nowhere = Shell(["--storage", "redis://127.0.0.1:1"])
    for command in ("check", "sweep"):
        assert "cannot be reached" in nowhere.refused(command)
