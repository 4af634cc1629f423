# SPDX-License-Identifier: Apache-2.0
"""The commands for topics."""

from __future__ import annotations

from tests.support.command_line import CommandLine


def test_topic_is_created_changed_listed_and_deleted(project_shell: CommandLine) -> None:
    project_shell.done("topic", "create", "news", "--metadata", '{"_history_size": 3}')
    project_shell.done("queue", "create", "orders")
    changed = project_shell.shown("topic", "update", "news", "--set", '{"colour": "blue"}')
    assert changed == project_shell.shown("topic", "show", "news")
    assert (changed["_history_size"], changed["colour"]) == (3, "blue")
    (listed,) = project_shell.shown("topic", "list", "--detailed")
    assert listed == {"name": "news", "metadata": changed}
    assert project_shell.shown("topic", "list", "--name", "or") == []
    assert project_shell.shown("queue", "list") == [{"name": "orders"}]
    project_shell.done("topic", "delete", "news", "--yes")
    assert project_shell.shown("topic", "list") == []


def test_messages_are_published_and_their_history_is_read(project_shell: CommandLine) -> None:
    given = ("--ttl", "600", "--attribute", "kind=order")
    posted = project_shell.shown("topic", "publish", "news", '{"n": 1}', "two", "3", *given)
    found = project_shell.shown("topic", "history", "news")
    assert [message["body"] for message in found] == [{"n": 1}, "two", 3]
    assert [message["id"] for message in found] == [message["id"] for message in posted]
    assert found[0]["attributes"] == {"kind": "order"}
    newest = project_shell.shown("topic", "history", "news", "--reverse", "--limit", "2")
    assert [each | {"age": 0} for each in newest] == [each | {"age": 0} for each in found[:0:-1]]
    assert project_shell.shown("topic", "stats", "news")["total"] == 3
    project_shell.done("topic", "purge", "news", "--yes")
    assert project_shell.shown("topic", "history", "news") == []
