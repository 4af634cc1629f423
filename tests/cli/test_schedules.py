# SPDX-License-Identifier: Apache-2.0
"""Commands of schedules."""

from __future__ import annotations

import json

from tests.support.command_line import CommandLine


def test_schedules_are_created_listed_paused_resumed_and_deleted(
    project_shell: CommandLine,
) -> None:
    shell = project_shell
    assert shell.shown("schedule", "list") == []
    options = ("--queue", "jobs", "--cron", "@daily", "--timezone", "Europe/Paris")
    more = (
        "--ttl",
        "600",
        "--attribute",
        "kind=report",
        "--until",
        "2031-01-01",
        "--missed",
        "skip",
    )
    created = shell.shown("schedule", "create", "report", '{"job": 1}', *options, *more)
    assert (created["queue"], created["paused"], created["missed"]) == ("jobs", False, "skip")
    assert created["until"] == "2031-01-01T00:00:00Z"
    message = created["message"]
    message = json.loads(message) if isinstance(message, str) else message
    assert message == {"body": {"job": 1}, "ttl": 600, "attributes": {"kind": "report"}}
    assert created["next"]

    paused = shell.shown("schedule", "pause", "report")
    assert (paused["paused"], paused["next"], paused["until"]) == (True, None, created["until"])
    [listed] = shell.shown("schedule", "list")
    assert (listed["name"], listed["cron"], listed["paused"]) == ("report", "@daily", True)
    assert shell.shown("schedule", "resume", "report") == created
    assert shell.shown("schedule", "show", "report") == created

    assert "--yes" in shell.refused("schedule", "delete", "report")
    assert "no effect" not in shell.notices("schedule", "delete", "report", "--yes")
    assert "does not exist" in shell.refused("schedule", "show", "report")
    bad = shell.refused("schedule", "create", "x", "hello", "--queue", "jobs", "--cron", "daily")
    assert '"cron"' in bad
