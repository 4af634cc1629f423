# SPDX-License-Identifier: Apache-2.0
"""The commands that look at messages and claims, and move messages."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, running
from tests.support.stores import CLIENT
from tests.support.terminal import terminal


def _post(shell: CommandLine, queue: str, *bodies: str) -> list[str]:
    return [row["id"] for row in shell.shown("message", "post", queue, *bodies)]


def _bodies(shell: CommandLine, queue: str) -> list[object]:
    return [message["body"] for message in shell.shown("message", "list", queue)]


def _dead_letters(shell: CommandLine, number: int, queue: str = "q") -> None:
    """Makes dead letters of a queue, in "dead"."""
    shell.done("queue", "create", "dead")
    metadata = '{"_dead_letter_queue": "dead", "_max_claim_count": 1}'
    shell.done("queue", "create", queue, "--metadata", metadata)
    _post(shell, queue, *map(str, range(number)))
    for _ in range((number + 19) // 20):
        held = shell.shown("claim", "create", queue, "--limit", "20")
        shell.done("claim", "release", queue, held[0]["claim"])
        assert shell.shown("claim", "create", queue, "--limit", "20") == [] or number > 20


def test_a_message_is_shown_and_deleted_by_its_id(project_shell: CommandLine) -> None:
    one, two = _post(project_shell, "q", '{"n": 1}', "two")
    assert project_shell.shown("message", "show", "q", one)["body"] == {"n": 1}
    missing = one[:-1] + "9"
    assert missing in project_shell.refused("message", "show", "q", missing)
    (held,) = project_shell.shown("claim", "create", "q", "--limit", "1")
    assert project_shell.shown("message", "show", "q", one)["claim"] == held["claim"]
    assert "--yes" in project_shell.refused("message", "delete", "q", two)
    refused = project_shell.refused("message", "delete", "q", one, two, "--yes")
    assert one in refused
    assert two not in refused  # it went on
    project_shell.done("message", "delete", "q", one, "--claim", held["claim"], "--yes")
    assert project_shell.shown("queue", "stats", "q")["total"] == 0


def test_peek_shows_messages_of_any_state(project_shell: CommandLine) -> None:
    _post(project_shell, "q", *map(str, range(25)))
    project_shell.done("message", "post", "q", "later", "--delay", "300")
    (held,) = project_shell.shown("claim", "create", "q", "--limit", "1", "--client-id", CLIENT)
    found = project_shell.shown("message", "peek", "q", "--limit", "100")
    assert [each["state"] for each in found] == ["claimed", *["free"] * 24, "delayed"]
    assert (found[0]["claim"], found[0]["claims"]) == (held["claim"], 1)
    assert (found[0]["claim_client_id"], found[1]["claim_client_id"]) == (CLIENT, None)
    assert found[-1]["until"]
    assert len(project_shell.shown("message", "peek", "q")) == 20
    searched = project_shell.shown(
        "message", "peek", "q", "--contains", "late", "--state", "delayed"
    )
    assert [each["body"] for each in searched] == ["later"]


def test_commands_show_why_a_message_was_given_back(store_shell: CommandLine) -> None:
    store_shell.done("upgrade")
    _post(store_shell, "q", "receipt")
    (held,) = store_shell.shown("claim", "create", "q")
    store_shell.done("claim", "release", "q", held["claim"], "--reason", "no paper")
    for command in ("message peek", "message list", "claim create"):
        assert store_shell.shown(*command.split(), "q")[0]["reason"] == "no paper"
    assert store_shell.shown("message", "show", "q", held["id"])["reason"] == "no paper"


def test_peek_finds_text_that_the_command_posted_as_escapes(project_shell: CommandLine) -> None:
    _post(project_shell, "q", "中文", "英文")
    (found,) = project_shell.shown("message", "peek", "q", "--contains", "中文")
    assert found["body"] == "中文"


@pytest.mark.parametrize(("columns", "left_out"), [(100, "age, ttl"), (80, "messages, ends_in")])
def test_claim_list_on_a_narrow_terminal_keeps_ids_whole(
    shared_target: list[str], columns: int, left_out: str
) -> None:
    target = [*shared_target, "--project", uuid.uuid4().hex]
    shell = CommandLine(target)
    _post(shell, "q", "x")
    [held] = shell.shown("claim", "create", "q", "--ttl", "43200", "--client-id", CLIENT)
    with terminal("claim", "list", "q", *target, columns=columns) as screen:
        assert screen.process.wait(60) == 0
        assert f"{left_out}; -f json shows all" in screen.shown
        row = [line for line in screen.lines if held["claim"] in line]
    assert len(row) == 1
    assert CLIENT in row[0]
    assert len(row[0]) <= columns


def test_peek_on_a_narrow_terminal_fits(shared_target: list[str]) -> None:
    target = [*shared_target, "--project", uuid.uuid4().hex]
    shell = CommandLine(target)
    _dead_letters(shell, 1, "a-queue-with-a-name-that-is-long")
    [free] = _post(shell, "free", "x" * 300)
    shell.done("claim", "create", "dead")
    with terminal("message", "peek", "dead", *target, columns=100) as screen:
        assert screen.process.wait(60) == 0
        assert "-f json shows all" in screen.shown
        table = [line for line in screen.lines if line.startswith(("+", "|"))]
        assert {len(line) for line in table} == {100}
        assert len(table) == 5  # no row is wrapped
        assert "| claimed |" in table[3]
        assert "… | a-queue-with-a-name" in table[3]
    shown = shell.done("message", "peek", "free", "--max-width", "100").splitlines()
    assert {len(line) for line in shown} == {100}
    assert re.search(rf'^\| {free} \| free .* \| "x+… \|$', shown[3])
    assert "claim |" not in shown[1]  # a column without a value
    narrow = ("message", "peek", "free", "--max-width", "40")
    heading = shell.done(*narrow, "-c", "Body", "-c", "STATE").splitlines()[1]
    assert heading.split() == ["|", "state", "|", "body", "|"]
    unknown = shell.run(*narrow, "-c", "bdy")
    assert unknown.returncode == 1
    assert "claim_client_id" in unknown.stderr  # the columns that there are
    assert shell.shown("message", "peek", "free")[0]["body"] == "x" * 300
    assert "x" * 300 in shell.done("message", "peek", "free")  # no terminal


def test_claims_are_listed_shown_and_renewed(project_shell: CommandLine) -> None:
    _post(project_shell, "q", "a", "b", "c")
    by = ("--client-id", CLIENT)
    held = project_shell.shown("claim", "create", "q", "--limit", "2", "--ttl", "100", *by)
    claim = held[0]["claim"]
    (listed,) = project_shell.shown("claim", "list", "q")
    assert (listed["id"], listed["messages"], listed["ttl"]) == (claim, 2, 100)
    project_shell.done("claim", "renew", "q", claim, "--ttl", "600")  # with another Client-ID
    assert project_shell.shown("claim", "list", "q")[0]["client_id"] == CLIENT
    shown = project_shell.shown("claim", "show", "q", claim)
    assert (shown["ttl"], shown["messages"]) == (600, [each["id"] for each in held])
    first, second = (each["id"] for each in held)
    project_shell.done("claim", "renew", "q", claim, "--ttl", "700", "--id", first, "--id", second)
    assert project_shell.shown("claim", "show", "q", claim)["ttl"] == 700
    project_shell.done("claim", "release", "q", claim, "--id", first, "--delay", "60")
    assert project_shell.shown("claim", "show", "q", claim)["messages"] == [second]
    assert first in project_shell.refused("claim", "release", "q", claim, "--id", first)
    assert first in project_shell.refused("claim", "renew", "q", claim, "--id", first)
    project_shell.done("claim", "release", "q", claim)
    assert project_shell.shown("claim", "list", "q") == []
    assert claim in project_shell.refused("claim", "renew", "q", claim)


def test_messages_move_by_id_by_text_and_all(project_shell: CommandLine) -> None:
    project_shell.done("queue", "create", "other")
    ids = _post(project_shell, "q", *(f"text {number}" for number in range(45)))
    assert project_shell.shown("message", "move", "q", "other", ids[3]) == {"moved": 1, "left": 0}
    moved = project_shell.shown(
        "message", "move", "q", "other", "--contains", "text 4", "--limit", "3"
    )
    assert moved == {"moved": 3, "left": 0}
    assert _bodies(project_shell, "other") == ["text 3", "text 4", "text 40", "text 41"]
    assert project_shell.shown("message", "move", "q", "other") == {"moved": 41, "left": 0}
    assert _bodies(project_shell, "q") == []
    assert len(_bodies(project_shell, "other")) == 45
    assert "missing" in project_shell.refused("message", "move", "other", "missing")


def test_copies_are_of_all_messages(project_shell: CommandLine) -> None:
    project_shell.done("queue", "create", "other")
    _post(project_shell, "q", *map(str, range(25)))
    project_shell.shown("claim", "create", "q", "--limit", "5")
    assert project_shell.shown("message", "copy", "q", "other") == {"copied": 25, "left": 0}
    assert (len(_bodies(project_shell, "q")), len(_bodies(project_shell, "other"))) == (20, 25)


def test_dead_letters_are_sent_back_or_elsewhere(project_shell: CommandLine) -> None:
    _dead_letters(project_shell, 3)
    _post(project_shell, "dead", "no dead letter")
    assert project_shell.shown("queue", "redrive", "dead", "--limit", "2") == {
        "moved": 2,
        "left": 0,
        "missing_origins": {},
    }
    assert _bodies(project_shell, "q") == [0, 1]
    again = project_shell.shown("queue", "redrive", "dead")
    assert again == {"moved": 1, "left": 1, "missing_origins": {}}
    assert _bodies(project_shell, "dead") == ["no dead letter"]
    project_shell.done("queue", "create", "odd")
    elsewhere = project_shell.shown("queue", "redrive", "dead", "--target", "odd")
    assert (elsewhere["moved"], elsewhere["left"]) == (1, 0)
    missing = project_shell.run("queue", "redrive", "missing")
    assert missing.returncode == 0  # a dead-letter queue is created by its first message
    assert "nothing to move: The queue missing does not exist." in missing.stderr


@pytest.mark.parametrize("verb", ["move", "copy"])
def test_queue_to_move_from_must_exist(project_shell: CommandLine, verb: str) -> None:
    project_shell.done("queue", "create", "other")
    for ids in ((), ("3f0c8d53-5a0f-4b0e-0000-000000000007",)):
        refusal = project_shell.refused("message", verb, "missing", "other", *ids)
        assert refusal.startswith("The queue missing does not exist.")
        assert "before it ended" not in refusal


def test_dead_letters_of_deleted_queues_are_left_and_reported(project_shell: CommandLine) -> None:
    for queue, number in (("old", 1), ("gone", 2), ("q", 3)):
        _dead_letters(project_shell, number, queue)
    for queue in ("old", "gone"):
        project_shell.done("queue", "delete", queue, "--yes")
    limited = project_shell.run("queue", "redrive", "dead", "--limit", "2", "-f", "json")
    left = {"left": 3, "missing_origins": {"gone": 2, "old": 1}}
    assert (limited.returncode, json.loads(limited.stdout)) == (5, {"moved": 2, **left})
    redriven = project_shell.run("queue", "redrive", "dead")
    assert redriven.returncode == 5
    assert re.search(r"moved +\| 1 ", redriven.stdout)
    assert "queues that do not exist: gone (2), old (1). Create these" in redriven.stderr
    assert _bodies(project_shell, "q") == [0, 1, 2]
    assert len(_bodies(project_shell, "dead")) == 3
    project_shell.done("queue", "create", "odd")
    assert project_shell.shown("queue", "redrive", "dead", "--target", "odd")["moved"] == 3


@pytest.mark.nightly
def test_an_interrupted_redrive_goes_on_when_it_is_run_again(
    project_shell: CommandLine, tmp_path: Path
) -> None:
    _dead_letters(project_shell, 20)
    with running(project_shell, tmp_path, "queue", "redrive", "dead", "--rate", "2") as redrive:
        redrive.wait_for_notice("2/20")
        notices = redrive.interrupt()
    assert "Run the same command again" in notices
    left = 20 - len(_bodies(project_shell, "q"))
    assert 0 < left < 20
    assert project_shell.shown("queue", "redrive", "dead")["moved"] <= left
    assert len(set(map(str, _bodies(project_shell, "q")))) == len(_bodies(project_shell, "q"))


@pytest.mark.parametrize("rate", ["0", "-1", "many", "nan"])
def test_a_rate_must_be_a_number_above_0(in_process: CommandLine, rate: str) -> None:
    assert "above 0" in in_process.misused("queue", "redrive", "dead", f"--rate={rate}")


def test_metadata_is_updated_in_parts(project_shell: CommandLine) -> None:
    project_shell.done("queue", "create", "q", "--metadata", '{"colour": "blue", "a/b~c": 1}')
    changed = project_shell.shown(
        "queue", "update", "q", "--set", '{"_max_claim_count": 5, "x/y": 2}', "--remove", "a/b~c"
    )
    assert (changed["_max_claim_count"], changed["x/y"], changed["colour"]) == (5, 2, "blue")
    assert "a/b~c" not in changed
    assert "nothing to change" in project_shell.refused("queue", "update", "q")
    assert "missing" in project_shell.refused("queue", "update", "missing", "--remove", "colour")


def test_inspect_shows_all_about_a_queue(project_shell: CommandLine) -> None:
    project_shell.done("queue", "create", "q", "--metadata", '{"_dead_letter_queue": "dead"}')
    _post(project_shell, "q", "a", "b", "c")
    project_shell.shown("claim", "create", "q", "--limit", "2", "--ttl", "100")
    hook = project_shell.shown("subscription", "create", "http://example.org/", "--queue", "q")
    project_shell.done("subscription", "pause", hook["id"], "--queue", "q")
    shown = project_shell.shown("queue", "inspect", "q", "--seconds", "0")
    assert (shown["total"], shown["free"], shown["claimed"], shown["delayed"]) == (3, 1, 2, 0)
    assert (shown["posted_total"], shown["claims"], shown["dead_letter_queue"]) == (3, 1, "dead")
    assert 0 < shown["next_claim_ends_in"] <= 100
    assert (shown["subscriptions"], shown["subscriptions_paused"]) == (1, 1)
    assert (shown["deliveries_pending"], shown["deliveries_failed"]) == (0, 0)
    assert "posted_per_second" not in shown
    assert project_shell.shown("queue", "inspect", "q")["posted_per_second"] == 0
