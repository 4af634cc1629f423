# SPDX-License-Identifier: Apache-2.0
"""Quota commands against a service, and directly against the store."""

from __future__ import annotations

from tests.support.command_line import CommandLine
from zaqar_redis.cli.api import PAGE_SIZE


def test_quotas_are_set_shown_listed_and_unset(shell: CommandLine) -> None:
    assert shell.shown("quota", "list") == []
    created = shell.shown("quota", "set", "one", "--requests", "5", "--bytes", "-1")
    limits = {"requests": 5, "queues": -1, "messages": -1, "bytes": -1, "sockets": -1}
    usage = {"queues": 0, "messages": 0, "bytes": 0, "sockets": 0}
    assert created == {"project": "one", **limits, "usage": usage}
    shell.done("quota", "set", "a project", "--queues", "7")
    listed = shell.shown("quota", "list")
    assert [(quota["project"], quota["queues"]) for quota in listed] == [
        ("a project", 7),
        ("one", -1),
    ]
    assert shell.shown("quota", "show", "a project")["queues"] == 7
    shell.done("quota", "set", "one", "--requests", "5", "--queues", "7", "--bytes", "-1")
    notices = shell.notices("quota", "set", "one", "--messages", "9", "--sockets", "3")
    assert "requests was 5, and is now -1: it was not given" in notices
    assert "queues was 7, and is now -1: it was not given" in notices
    assert notices.count("it was not given") == 2
    assert "--yes" in shell.refused("quota", "unset", "one")
    shell.done("quota", "unset", "one", "--yes")
    assert [quota["project"] for quota in shell.shown("quota", "list")] == ["a project"]


def test_all_pages_of_quotas_are_listed(shell: CommandLine) -> None:
    names = [f"p{number:02}" for number in range(PAGE_SIZE + 1)]
    for name in names:
        shell.done("quota", "set", name, "--queues", "1")
    assert [quota["project"] for quota in shell.shown("quota", "list")] == names


def test_invalid_quotas_change_nothing(shell: CommandLine) -> None:
    assert "queues" in shell.refused("quota", "set", "one", "--queues", "-2")
    assert "nothing to set: give at least one of --requests" in shell.refused("quota", "set", "one")
    for name in ("a/b", "ä", ""):
        shell.misused("quota", "set", name, "--queues", "1")
    assert shell.shown("quota", "list") == []
