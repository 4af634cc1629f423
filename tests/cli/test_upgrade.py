# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis upgrade``, and commands and services at stores of newer releases."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine
from zaqar_redis.formats import CHANGES, CURRENT

_FORMAT = "zr:{control}:format"
_TOO_NEW = {"version": 9, "needs": 7}


def test_numbers_of_formats_rise_one_by_one_and_need_none_above_themselves() -> None:
    assert [each.version for each in CHANGES] == [*range(1, len(CHANGES) + 1)]
    assert all(each.needs <= each.version for each in CHANGES)


def test_check_says_what_changes_and_changes_nothing(
    store_shell: CommandLine, server: servers.RedisServer
) -> None:
    (row,) = store_shell.shown("upgrade", "--check")
    assert (row["store"], row["format"], row["becomes"]) == ("default", 1, CURRENT.version)
    assert row["adds"] == "; ".join(each.adds for each in CHANGES[1:])
    assert (row["first"], row["back"]) == ("", CURRENT.needs)
    assert "workers: none" in store_shell.notices("upgrade", "--check")
    with server.client() as client:
        assert client.keys() == []


def test_upgrade_raises_each_store_once(store_shell: CommandLine) -> None:
    with servers.redis_server() as pool:
        store_shell.done("pool", "create", "one", "--uri", pool.uri)
        with pool.client() as client:
            client.delete(_FORMAT)
        # The command before has marked the service's own store.
        first = store_shell.run("upgrade", "-f", "json")
        before = [(row["store"], row["becomes"]) for row in json.loads(first.stdout)]
        assert before == [("default", CURRENT.version), ("one", CURRENT.version)]
        assert f"1 store marked with format {CURRENT.version}" in first.stderr
        assert "nothing to do: all stores have format" in store_shell.notices("upgrade")
        after = store_shell.shown("upgrade")
        assert [(row["format"], row["adds"]) for row in after] == [(CURRENT.version, "")] * 2


def test_upgrade_raises_the_control_store_beside_a_pool_of_its_name(
    store_shell: CommandLine, server: servers.RedisServer, tmp_path: Path
) -> None:
    with servers.redis_server() as control, servers.redis_server() as pool:
        text = f"[storage]\nuri = {server.uri}\ncontrol_uri = {control.uri}\n"
        shell = CommandLine(["--config-file", servers.config_file(tmp_path, text)])
        shell.done("pool", "create", "control", "--uri", pool.uri)
        rows = shell.shown("upgrade")
        assert sorted(row["store"] for row in rows) == ["control", "control", "default"]
        with control.client() as client:
            assert client.hget(_FORMAT, "version") == b"%d" % CURRENT.version


def test_upgrade_while_a_store_is_away_changes_none(
    store_shell: CommandLine, server: servers.RedisServer
) -> None:
    with servers.redis_server() as pool:
        store_shell.done("pool", "create", "one", "--uri", pool.uri)
    with server.client() as client:
        client.delete(_FORMAT)
        outcome = store_shell.run("upgrade", "-f", "value", "-c", "store", "-c", "first")
        assert outcome.returncode == 1
        default, one = outcome.stdout.splitlines()
        assert default.split() == ["default"]
        assert one.startswith("one ")
        assert not client.exists(_FORMAT)
        assert "no store was marked: first do what the table says" in outcome.stderr


def test_store_that_needs_a_newer_release_is_refused_by_commands_and_services(
    store_shell: CommandLine, server: servers.RedisServer
) -> None:
    with server.client() as client:
        client.hset(_FORMAT, mapping=_TOO_NEW)
        refusal = "has format 9, and releases need to know format 7; this one knows formats up to"
        for words in (("check",), ("queue", "list"), ("message", "post", "q", "1")):
            assert refusal in store_shell.refused(*words)
        outcome = store_shell.run("upgrade")
        assert outcome.returncode == 1
        assert "Use the release that has raised the format" in outcome.stdout
        with pytest.raises(RuntimeError, match=refusal), servers.service(server.uri):
            pass
        assert client.keys("zr:{default*") == []
        assert client.hget(_FORMAT, "version") == b"9"


def test_pool_that_needs_a_newer_release_is_refused(store_shell: CommandLine) -> None:
    with servers.redis_server() as pool:
        with pool.client() as client:
            client.hset(_FORMAT, mapping=_TOO_NEW)
        assert "The store one has format 9" in store_shell.refused(
            "pool", "create", "one", "--uri", pool.uri
        )
        assert store_shell.shown("pool", "list") == []


@pytest.mark.nightly
def test_worker_reports_a_store_that_needs_a_newer_release_when_it_is_back() -> None:
    with servers.redis_server(fsync="always") as store:
        with store.client() as client:
            client.hset(_FORMAT, mapping=_TOO_NEW)
        store.signal(signal.SIGKILL)
        with servers.service(store.uri) as service:
            store.start()
            servers.wait_for(lambda: "stop the service: " in service.log.read_text(), "a report")
            assert "has format 9, and releases need to know format 7" in service.log.read_text()
