# SPDX-License-Identifier: Apache-2.0
"""The commands for access keys, on a store."""

from __future__ import annotations

import datetime
import json
import os
import pwd
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.support.command_line import CommandLine

UNKNOWN = "zk_00000000000000000000"


@pytest.fixture
def shell(redis_server: Backend, tmp_path: Path) -> CommandLine:
    """Commands with the configuration of a service, on an empty database."""
    config = servers.config_file(tmp_path, "[auth]\nseal_key = a seal key for tests\n")
    uri = f"{redis_server.uri}?db=5"
    with redis_server.client() as client:
        client.select(5)
        client.flushdb()
    return CommandLine(["--storage", uri, "--config-file", config])


def test_keys_are_created_shown_rotated_and_deleted(shell: CommandLine) -> None:
    assert shell.shown("key", "list") == []
    right = "orders-*:messages:create,claims:*"
    words = ("--project", "shop", "--right", right, "--expires", "2100-01-31")
    created = shell.shown("key", "create", "the till", *words)
    key, secret = created["id"], created["secret"]
    assert created["token"] == f"{key}.{secret}"
    shown = shell.shown("key", "show", key)
    assert {name: shown[name] for name in ("project", "user", "roles", "expires", "disabled")} == {
        "project": "shop",
        "user": "the till",
        "roles": ["member"],
        "expires": "2100-01-31T00:00:00Z",
        "disabled": False,
    }
    assert shown["rights"] == [{"queues": "orders-*", "actions": ["messages:create", "claims:*"]}]
    assert right in shell.done("key", "list")
    new = shell.shown("key", "rotate", key)
    assert (new["id"], new["token"]) == (key, f"{key}.{new['secret']}")
    assert new["secret"] != secret
    assert "--yes" in shell.refused("key", "delete", key)
    shell.done("key", "delete", key, "--yes")
    assert shell.shown("key", "list") == []


def test_right_for_topics_has_their_prefix(shell: CommandLine) -> None:
    for right, queues, action in (
        ("topic:news-*:messages:create", "topic:news-*", "messages:create"),
        ("topic:messages:create", "topic", "messages:create"),
        ("topic:*:*:*", "topic:*", "*:*"),
    ):
        created = shell.shown("key", "create", "u", "--right", right)
        assert created["rights"] == [{"queues": queues, "actions": [action]}]


def test_keys_are_listed_by_project_without_secrets(shell: CommandLine) -> None:
    created = [shell.shown("key", "create", "u", "--project", each) for each in ("a", "b", "a")]
    assert {key["id"] for key in shell.shown("key", "list", "--project", "a")} == {
        created[0]["id"],
        created[2]["id"],
    }
    listed = shell.done("key", "list", "-f", "json")
    assert all(key["id"] in listed and key["secret"] not in listed for key in created)


def test_keys_are_disabled_and_enabled(shell: CommandLine) -> None:
    key = shell.shown("key", "create", "u", "--read-only")["id"]
    assert shell.shown("key", "show", key)["roles"] == ["reader"]
    for command, disabled in (("disable", True), ("disable", True), ("enable", False)):
        shell.done("key", command, key)
        assert shell.shown("key", "show", key)["disabled"] is disabled


@pytest.mark.parametrize("command", ["show", "rotate", "disable", "enable", "delete"])
def test_missing_key_is_named(shell: CommandLine, command: str) -> None:
    confirmation = ["--yes"] if command == "delete" else []
    assert UNKNOWN in shell.refused("key", command, UNKNOWN, *confirmation)
    assert "zk_" in shell.misused("key", command, "x", *confirmation)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--right", "orders"), "there is no action"),
        (("--right", "orders:messages:creat"), 'no action "messages:creat"'),
        (("--right", "orders:messages:create,"), 'no action ""'),
        (("--right", "ord ers:messages:create"), "no pattern of queue names"),
        (("--right", ":messages:create"), "no pattern of queue names"),
        (("--expires", "tomorrow"), "2030-01-31"),
        (("--expires", "2020-01-31T12:00Z"), "in the past"),
        (("--expires", "0d"), "in the past"),
        (("--project", ""), "may not be empty"),
        (("--project", "p" * 257), "at most 256"),
        (("--role", "owner"), "invalid choice"),
        (("--role", "admin", "--read-only"), "not allowed with"),
    ],
)
def test_invalid_arguments_create_no_key(
    shell: CommandLine, words: tuple[str, ...], why: str
) -> None:
    assert why in shell.misused("key", "create", "u", *words)
    assert shell.shown("key", "list") == []


def test_invalid_user_creates_no_key(shell: CommandLine) -> None:
    for user in ("", "a\nb", "u" * 256):
        assert "printable" in shell.run("key", "create", user).stderr
    assert shell.shown("key", "list") == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("12h", 43_200), ("90d", 7_776_000), ("4w", 2_419_200)]
)
def test_duration_counts_from_now(shell: CommandLine, text: str, seconds: int) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    shown = shell.shown("key", "create", "u", "--expires", text)["expires"]
    end = datetime.datetime.now(datetime.UTC)
    duration = datetime.timedelta(seconds=seconds)
    assert before <= datetime.datetime.fromisoformat(shown) - duration <= end


def test_without_seal_key_no_secret_is_made(redis_server: Backend) -> None:
    shell = CommandLine(["--storage", f"{redis_server.uri}?db=6"])
    assert "[auth] seal_key" in shell.refused("key", "create", "u")
    assert "[auth] seal_key" in shell.refused("key", "rotate", UNKNOWN)
    assert shell.shown("key", "list") == []


@pytest.mark.parametrize(
    ("strategy", "why"),
    [("key", "[auth] seal_key"), ("keys", '"keys"')],
    ids=["without a seal key", "unknown"],
)
def test_service_whose_strategy_cannot_work_does_not_start(
    home: Path, strategy: str, why: str
) -> None:
    config = servers.config_file(home, f"[auth]\nstrategy = {strategy}\n")
    shell = CommandLine(["--config-file", config, "--storage", "memory://"])
    assert why in shell.refused("serve")


def test_other_seal_key_than_that_of_the_keys_is_refused_unless_it_is_new(
    shell: CommandLine, tmp_path: Path
) -> None:
    first = shell.shown("key", "create", "billing")
    servers.config_file(tmp_path, "[auth]\nseal_key = another key, for the tests\n")
    for words in (("create", "till"), ("rotate", first["id"])):
        assert "say --new-seal-key" in shell.refused("key", *words)
    assert [key["id"] for key in shell.shown("key", "list")] == [first["id"]]
    shell.shown("key", "rotate", first["id"], "--new-seal-key")
    shell.shown("key", "create", "till")  # one fits


def test_expired_key_is_not_rotated(shell: CommandLine) -> None:
    key = shell.shown("key", "create", "billing", "--expires", "1s")["id"]
    servers.wait_for(
        lambda: "has expired" in shell.run("key", "rotate", key).stderr, "the end of the key"
    )


def test_changes_are_in_the_audit_log_of_the_configuration(
    shell: CommandLine, tmp_path: Path
) -> None:
    log = tmp_path / "audit.log"
    with (tmp_path / "zaqar_redis.conf").open("a") as config:
        config.write(f"[audit]\npath = {log}\n")
    key = shell.shown("key", "create", "billing", "--project", "shop")["id"]
    for verb in ("show", "rotate", "disable", "enable"):
        shell.done("key", verb, key)
    shell.done("key", "delete", key, "--yes")
    shell.done("quota", "set", "shop", "--queues", "5")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    verbs = ("create", "rotate", "disable", "enable", "delete")
    assert [(each["action"], each["path"]) for each in events] == [
        *((f"keys:{verb}", f"/keys/{key}") for verb in verbs),
        ("quotas:update", "/v2/quotas/shop"),
    ]
    assert {each["user"] for each in events} == {pwd.getpwuid(os.getuid()).pw_name}
    assert {each["target_project"] for each in events[:5]} == {"shop"}


def test_secret_is_shown_when_the_audit_log_cannot_be_written(
    shell: CommandLine, tmp_path: Path
) -> None:
    with (tmp_path / "zaqar_redis.conf").open("a") as config:
        config.write("[audit]\npath = /dev/full\n")
    created = shell.run("key", "create", "billing", "-f", "json")
    key = json.loads(created.stdout)
    assert key["secret"]
    assert f'"path":"/keys/{key["id"]}"' in created.stderr
    assert "Traceback" not in created.stderr


@pytest.mark.parametrize("pattern", ["orders[a", "[]", "a" * 65, "or ders"])
def test_pattern_that_is_none_of_queues_is_refused(shell: CommandLine, pattern: str) -> None:
    refused = shell.misused("key", "create", "till", "--right", f"{pattern}:messages:create")
    assert "is no pattern of queue names" in refused
