# SPDX-License-Identifier: Apache-2.0
"""Maintenance commands: check and sweep."""

from __future__ import annotations

import json
import re
import signal

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine, without_store
from tests.support.servers import RedisServer


def test_check_finds_and_repairs_damage(store_shell: CommandLine, server: RedisServer) -> None:
    store_shell.done("message", "post", "orders", "one", "two")
    assert store_shell.shown("check") == []
    with server.client() as client:
        client.delete("zr:{default/orders}:ready")
        client.zrem("zr:queues:default", "orders")
    outcome = store_shell.run("check", "-f", "csv", "--quote", "none")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines() == [
        "pool,project,queue,kind,mended,what",
        "default,default,orders,damage,False,"
        "2 messages are neither claimable nor claimed nor delayed",
        "default,default,orders,leftover,False,it is not listed",
    ]
    assert "checking: 1 queues" in outcome.stderr
    assert "2 messages" in outcome.stderr
    assert re.search(r"[1-9][0-9]* entries read", outcome.stderr)
    assert [row["mended"] for row in store_shell.shown("check", "--repair")] == [True, True]
    assert store_shell.shown("check") == []
    assert len(store_shell.shown("claim", "create", "orders")) == 2


def test_pool_named_as_storage_is_checked_alone(store_shell: CommandLine) -> None:
    with servers.redis_server() as pool:
        store_shell.done("pool", "create", "one", "--uri", pool.uri)
        store_shell.done("message", "post", "orders", "one", "two")
        alone = CommandLine(["--storage", pool.uri])
        assert alone.shown("check") == []
        assert alone.shown("check", "--repair") == []
        with pool.client() as client:
            assert client.exists("zr:{default/orders}") == 1
            # The check did not claim it as a control store.
            assert client.keys("zr:{control}:*") == [b"zr:{control}:format"]
            client.delete("zr:{default/orders}:ready")
        assert [row["kind"] for row in store_shell.shown("check", "--repair")] == ["damage"]
        pool.signal(signal.SIGKILL)
        outcome = store_shell.run("check", "-f", "json")
        assert outcome.returncode == 5
        assert [(row["pool"], row["kind"]) for row in json.loads(outcome.stdout)] == [
            ("one", "unread")
        ]
        assert "store one is away: what is there was not checked" in outcome.stderr


def test_sweep_deletes_expired_messages(store_shell: CommandLine, server: RedisServer) -> None:
    store_shell.done("message", "post", "orders", "one", "two", "--ttl", "60")
    assert store_shell.done("sweep") == "0 messages and claims swept\n"
    assert "sweeping" in store_shell.notices("sweep")
    assert store_shell.notices("-q", "sweep") == ""
    with server.client() as client:
        for name in ("1", "2"):
            client.zadd("zr:{default/orders}:expiry", {name: 1})
    assert store_shell.done("sweep") == "2 messages and claims swept\n"
    assert store_shell.shown("queue", "stats", "orders")["total"] == 0


@pytest.mark.nightly
def test_unreachable_pool_is_reported_after_the_others(store_shell: CommandLine) -> None:
    with servers.redis_server() as stopped:
        store_shell.done("pool", "create", "one", "--uri", stopped.uri)
    for command, code in (("check", 5), ("sweep", 1)):
        outcome = store_shell.run(command)
        assert outcome.returncode == code
        assert "one" in outcome.stdout + outcome.stderr


def test_unreachable_store_is_reported() -> None:
    for command in ("check", "sweep"):
        assert "cannot be reached" in without_store().refused(command)
