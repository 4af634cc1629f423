# SPDX-License-Identifier: Apache-2.0
"""Maintenance commands: check and sweep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine


@pytest.fixture
def server() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as running:
        yield running


@pytest.fixture
def shell(server: servers.RedisServer) -> CommandLine:
    return CommandLine(["--storage", server.uri])


def test_check_finds_and_repairs_damage(shell: CommandLine, server: servers.RedisServer) -> None:
    shell.done("message", "post", "orders", "one", "two")
    assert shell.shown("check") == []
    with server.client() as client:
        client.delete("zr:{default/orders}:ready")
        client.zrem("zr:queues:default", "orders")
    outcome = shell.run("check", "-f", "csv", "--quote", "none")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines() == [
        "pool,project,queue,kind,mended,what",
        "default,default,orders,damage,False,"
        "2 messages are neither claimable nor claimed nor delayed",
        "default,default,orders,leftover,False,it is not listed",
    ]
    assert "checking: 1 queues" in outcome.stderr
    assert "2 messages" in outcome.stderr
    assert [row["mended"] for row in shell.shown("check", "--repair")] == [True, True]
    assert shell.shown("check") == []
    assert len(shell.shown("claim", "create", "orders")) == 2


def test_pool_named_as_storage_is_checked_alone(shell: CommandLine) -> None:
    with servers.redis_server() as pool:
        shell.done("pool", "create", "one", "--uri", pool.uri)
        shell.done("message", "post", "orders", "one", "two")
        alone = CommandLine(["--storage", pool.uri])
        assert alone.shown("check") == []
        assert alone.shown("check", "--repair") == []
        with pool.client() as client:
            assert client.exists("zr:{default/orders}") == 1
            assert (
                client.keys("zr:{control}:*") == []
            )  # the check did not claim it as a control store
            client.delete("zr:{default/orders}:ready")
        assert [row["kind"] for row in shell.shown("check", "--repair")] == ["damage"]


def test_sweep_deletes_expired_messages(shell: CommandLine, server: servers.RedisServer) -> None:
    shell.done("message", "post", "orders", "one", "two", "--ttl", "60")
    assert shell.done("sweep") == "0 messages and claims swept\n"
    with server.client() as client:
        for name in ("1", "2"):
            client.zadd("zr:{default/orders}:expiry", {name: 1})
    assert shell.done("sweep") == "2 messages and claims swept\n"
    assert shell.shown("queue", "stats", "orders")["total"] == 0


def test_unreachable_pool_is_reported_after_the_others(
    shell: CommandLine, server: servers.RedisServer
) -> None:
    with servers.redis_server() as stopped:
        shell.done("pool", "create", "one", "--uri", stopped.uri)
    for command in ("check", "sweep"):
        outcome = shell.run(command)
        assert outcome.returncode == 1
        assert "one" in outcome.stdout + outcome.stderr


def test_unreachable_store_is_reported(server: servers.RedisServer) -> None:
    nowhere = CommandLine(["--storage", "redis://127.0.0.1:1"])
    for command in ("check", "sweep"):
        assert "cannot be reached" in nowhere.refused(command)
