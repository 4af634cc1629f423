# SPDX-License-Identifier: Apache-2.0
"""The commands for subscriptions."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.receivers import answering_endpoint

HOOK = "http://example.org/hook"
QUEUE = ("--queue", "q")


def _created(shell: CommandLine, *words: str) -> dict[str, str]:
    found: dict[str, str] = shell.shown("subscription", "create", HOOK, *QUEUE, *words)
    return found


def test_subscription_is_created_shown_changed_and_deleted(
    project_shell: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "filter.json"
    file.write_text('{"body": {"n": [1]}}')
    given = ("--filter", str(file), "--batch", "5", "--ordered", "--ttl", "600")
    more = ("--dead-letter-queue", "dead", "--option", "timeout=5", "--option", "post_data=x")
    created = _created(project_shell, *given, *more)
    assert created["secret"].startswith("whsec_")
    options = {
        "filter": {"body": {"n": [1]}},
        "batch": 5,
        "ordered": True,
        "timeout": 5,
        "dead_letter_queue": "dead",
        "post_data": "x",
        "secrets": ["***"],
    }
    shown = project_shell.shown("subscription", "show", created["id"], *QUEUE)
    assert (shown["subscriber"], shown["ttl"], shown["options"]) == (HOOK, 600, options)
    assert (shown["paused"], shown["delivered"], shown["last_failure"]) == (False, 0, None)
    change = ("--ttl", "900", "--option", "timeout=null", "--filter", '{"body": {"n": [2]}}')
    changed = project_shell.shown("subscription", "update", created["id"], *QUEUE, *change)
    del options["timeout"]
    assert (changed["ttl"], changed["options"]) == (900, options | {"filter": {"body": {"n": [2]}}})
    project_shell.done("subscription", "delete", created["id"], *QUEUE, "--yes")
    assert project_shell.shown("subscription", "list", *QUEUE) == []


def test_subscription_is_confirmed_paused_and_resumed(project_shell: CommandLine) -> None:
    id = _created(project_shell)["id"]
    for command, confirmed, paused in (
        (("confirm",), True, False),
        (("pause",), True, True),
        (("resume",), True, False),
        (("confirm", "--undo"), False, False),
    ):
        assert project_shell.done("subscription", *command, id, *QUEUE) == ""
        (listed,) = project_shell.shown("subscription", "list", *QUEUE, "--detailed")
        assert (listed["confirmed"], listed["paused"]) == (confirmed, paused)
    assert {"delivered", "failed", "retried", "pending"} <= set(listed)


def test_history_of_a_topic_is_replayed_up_to_the_limit(project_shell: CommandLine) -> None:
    topic = ("--topic", "news")
    project_shell.done("topic", "publish", "news", "1", "2", "3")
    id = project_shell.shown("subscription", "create", "queue:copies", *topic)["id"]
    replay = ("subscription", "replay", id, *topic)
    assert project_shell.shown(*replay) == {"replayed": 0}
    assert project_shell.shown(*replay, "--history", "--limit", "2") == {"replayed": 2}
    (oldest, *_) = project_shell.shown("topic", "history", "news")
    project_shell.shown(*replay, "--history", "--after", oldest["id"])
    assert "--history" in project_shell.refused(*replay, "--limit", "2")


def test_wrong_arguments_of_a_subscription_are_refused(project_shell: CommandLine) -> None:
    words = ("subscription", "create", HOOK)
    for wrong, said in (
        ((), "--queue"),
        ((*QUEUE, "--topic", "t"), "not allowed"),
        ((*QUEUE, "--option", "timeout"), "NAME=JSON"),
        ((*QUEUE, "--filter", "none.json"), "none.json"),
        ((*QUEUE, "--filter", "{"), "JSON"),
    ):
        assert said in project_shell.misused(*words, *wrong)
    assert "batch" in project_shell.refused(*words, *QUEUE, "--batch", "101")
    assert "nothing to change" in project_shell.refused("subscription", "update", "x", *QUEUE)


def test_test_message_is_sent_without_a_service_and_the_exit_code_says_how_it_went(
    tmp_path: Path,
) -> None:
    config = servers.config_file(tmp_path, "[notification]\nallowed_networks = 127.0.0.0/8\n")
    with servers.redis_server() as server, answering_endpoint() as endpoint:
        endpoint.text = b"hello"
        shell = CommandLine(["--storage", server.uri, "--config-file", config, "--project", "p"])
        for endpoint.status, code, outcome in ((200, 0, "delivered"), (404, 1, "refused")):
            uri = f"{endpoint.uri}{outcome}"
            id = shell.shown("subscription", "create", uri, *QUEUE)["id"]
            tested = shell.run("subscription", "test", id, *QUEUE, "-f", "json")
            assert (tested.returncode, tested.stderr) == (code, "")
            shown = json.loads(tested.stdout)
            assert (shown["outcome"], shown["answer"]) == (outcome, "hello")
    assert [each["Message_Type"] for each in endpoint.documents()] == ["Test", "Test"]
