# SPDX-License-Identifier: Apache-2.0
"""The commands for queues, messages and claims, and the help of all commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine

COMMANDS = sorted(
    entry.name.replace("_", " ") for entry in metadata.entry_points(group="zaqar_redis.cli")
)


def test_messages_are_posted_listed_claimed_and_released(project_shell: CommandLine) -> None:
    posted = project_shell.shown(
        "message", "post", "orders", '{"n": 1}', "plain text", "--ttl", "600"
    )
    assert len(posted) == 2
    listed = project_shell.shown("message", "list", "orders")
    assert [message["id"] for message in listed] == [message["id"] for message in posted]
    assert [message["body"] for message in listed] == [{"n": 1}, "plain text"]
    assert listed[0]["ttl"] == 600
    (held,) = project_shell.shown("claim", "create", "orders", "--limit", "1", "--ttl", "300")
    assert held["id"] == posted[0]["id"]
    assert len(project_shell.shown("message", "list", "orders")) == 1
    assert len(project_shell.shown("message", "list", "orders", "--claimed")) == 2
    stats = project_shell.shown("queue", "stats", "orders")
    assert (stats["free"], stats["claimed"], stats["total"]) == (1, 1, 2)
    assert stats["idempotency_records"] == 0
    project_shell.done("claim", "release", "orders", held["claim"])
    stats = project_shell.shown("queue", "stats", "orders")
    assert (stats["posted_total"], stats["claimed_total"], stats["released_total"]) == (2, 1, 1)
    assert len(project_shell.shown("message", "list", "orders")) == 2
    assert project_shell.shown("claim", "create", "nothing") == []
    notice = project_shell.run("claim", "create", "nothing").stderr
    assert "nothing to claim: The queue nothing does not exist." in notice


def test_metadata_that_have_no_effect_are_named(project_shell: CommandLine) -> None:
    create = ("queue", "create", "orders", "--metadata")
    warned = project_shell.notices(*create, '{"_max_claims": 3, "_default_message_ttl": 60}')
    assert warned == 'zaqar-redis: this has no effect: "_max_claims"\n'
    warned = project_shell.notices(*create, '{"_default_message_ttl": 600}')
    assert warned == 'zaqar-redis: this has no effect: "_default_message_ttl"\n'


@pytest.mark.parametrize(
    "command",
    [
        *("queue show nothing", "queue stats nothing", "queue inspect nothing"),
        *("queue purge nothing --yes", "message list nothing", "message peek nothing"),
        *("claim list nothing", "subscription list --queue nothing"),
        *("subscription list --topic nothing", "topic history nothing"),
    ],
)
def test_command_for_what_does_not_exist_is_refused_with_the_project(
    project_shell: CommandLine, command: str
) -> None:
    refused = project_shell.refused(*command.split())
    assert "nothing does not exist" in refused
    assert re.search("This is the project [0-9a-f]{32};", refused)


def _zaqar_redis(shell: CommandLine, *words: str, given: bytes = b"") -> bytes:
    """Runs a command in a process of its own, whose input and output are bytes."""
    program = "import sys; from zaqar_redis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *words, *shell.target_options]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_file_is_posted_and_written_to_the_byte(project_shell: CommandLine, tmp_path: Path) -> None:
    shell, data = project_shell, bytes(range(256)) + b"\r\n"
    (tmp_path / "photo").write_bytes(data)
    options = ("--content-type", "image/x", "--priority", "3", "--attribute", "n=1")
    (posted,) = shell.shown("message", "post", "q", *options, str(tmp_path / "photo"), "--file")
    shown = shell.shown("message", "show", "q", posted["id"])
    assert (shown["content_type"], shown["body_encoding"]) == ("image/x", "base64")
    assert shown["attributes"] == {"n": 1}
    assert _zaqar_redis(shell, "message", "show", "q", posted["id"], "--raw") == data
    text = b"caf\xc3\xa9\n"
    ids = json.loads(
        _zaqar_redis(shell, "message", "post", "q", "-", "--file", "-f", "json", given=text)
    )
    shown = shell.shown("message", "show", "q", ids[0]["id"])
    assert (shown["body"], shown["content_type"]) == ("café\n", "application/octet-stream")
    assert _zaqar_redis(shell, "message", "show", "q", ids[0]["id"], "--raw") == text


def test_wrong_file_is_refused(project_shell: CommandLine, tmp_path: Path) -> None:
    post = ("message", "post", "q")
    assert "cannot be read" in project_shell.refused(*post, str(tmp_path / "none"), "--file")
    assert "--file" in project_shell.refused(*post, "text", "--content-type", "a/b")
    assert "body" in project_shell.misused(*post)


def test_options_may_be_before_the_body(project_shell: CommandLine) -> None:
    (posted,) = project_shell.shown("message", "post", "q", "--ttl", "600", "hello")
    assert project_shell.shown("message", "show", "q", posted["id"])["body"] == "hello"


def test_attributes_of_messages_are_posted_and_shown(project_shell: CommandLine) -> None:
    given = ("--attribute", "kind=order", "--attribute", "price=9.5", "--attribute", 'id="7"')
    (posted,) = project_shell.shown("message", "post", "orders", "a", *given)
    attributes = {"kind": "order", "price": 9.5, "id": "7"}
    assert (
        project_shell.shown("message", "show", "orders", posted["id"])["attributes"] == attributes
    )
    for command in (("message", "list"), ("message", "peek"), ("claim", "create")):
        (shown,) = project_shell.shown(*command, "orders")
        assert shown["attributes"] == attributes
    post = ("message", "post", "q", "a", "--attribute")
    assert "must be NAME=VALUE" in project_shell.misused(*post, "kind")
    assert "attributes" in project_shell.refused(*post, "a=true")


def test_fields_that_only_some_messages_have_are_shown(
    project_shell: CommandLine, tmp_path: Path
) -> None:
    (picture := tmp_path / "picture").write_bytes(b"\xff\x00")
    fields = {"group": "ann", "priority": 7, "dedup_id": "k", "content_type": "image/png"}
    given = (f"--{name.replace('_', '-')}={value}" for name, value in fields.items())
    (posted,) = project_shell.shown("message", "post", "q", str(picture), "--file", *given)
    fields |= {"body": "/wA=", "body_encoding": "base64"}
    listed = project_shell.shown("message", "list", "q")
    peeked = project_shell.shown("message", "peek", "q")
    (held,) = project_shell.shown("claim", "create", "q")
    of_claim = project_shell.shown("claim", "show", "q", held["claim"])
    shown = project_shell.shown("message", "show", "q", posted["id"])
    assert of_claim["messages"] == [posted["id"]]
    for message in (*listed, *peeked, held, *of_claim["held"], shown):
        assert message.items() >= fields.items()
    table = project_shell.done("message", "peek", "q", "--max-width", "120")
    assert re.search("body_encoding .* base64 ", table, re.DOTALL)


def test_dedup_id_for_several_bodies_is_refused(project_shell: CommandLine) -> None:
    assert "its own" in project_shell.refused("message", "post", "q", "a", "b", "--dedup-id", "k")


def test_duplicates_are_noticed(project_shell: CommandLine) -> None:
    post = ("message", "post", "orders", "a", "--dedup-id", "7")
    (posted,) = project_shell.shown(*post)
    assert project_shell.notices(*post) == "zaqar-redis: 1 had been posted before\n"
    assert project_shell.shown(*post) == [posted]
    assert len(project_shell.shown("message", "list", "orders")) == 1


def test_queues_are_listed_shown_purged_and_deleted(shell: CommandLine) -> None:
    for name in ("q01", "q00"):
        shell.done("message", "post", name, "x")
    shell.done("message", "post", "other", "x", "--project", "another")
    assert [queue["name"] for queue in shell.shown("queue", "list")] == ["q00", "q01"]
    assert shell.shown("queue", "list", "--name", "1") == [{"name": "q01"}]
    assert "_default_message_ttl" in shell.done("queue", "list", "--detailed")
    assert shell.shown("queue", "show", "q00")["_default_message_ttl"] == 3600
    assert "--yes" in shell.refused("queue", "purge", "q00")
    shell.done("queue", "purge", "q00", "--yes")
    assert shell.shown("message", "list", "q00") == []
    assert "--yes" in shell.refused("queue", "delete", "q00")
    shell.done("queue", "delete", "q00", "--yes")
    assert [queue["name"] for queue in shell.shown("queue", "list")] == ["q01"]


@pytest.mark.parametrize("noun", ["queue", "topic"])
def test_deletion_of_what_does_not_exist_says_so(shell: CommandLine, noun: str) -> None:
    deleted = shell.run(noun, "delete", "ordres", "--yes")
    assert deleted.returncode == 0
    assert f"nothing to delete: The {noun} ordres does not exist." in deleted.stderr


def test_messages_of_a_queue_that_does_not_exist_are_not_deleted(shell: CommandLine) -> None:
    refusal = shell.refused("message", "delete", "ordres", "x", "--yes")
    assert "The queue ordres does not exist." in refusal


def test_bodies_are_shown_with_their_letters_and_without_what_a_terminal_obeys(
    shell: CommandLine,
) -> None:
    shell.done("message", "post", "letters", json.dumps({"ünï": "中文\u202e\x9b31m\x1b"}))
    for form in ("table", "value", "csv"):
        shown = shell.done("message", "list", "letters", "-f", form)
        assert "ünï" in shown
        assert "中文\\u202e\\u009b31m\\u001b" in shown


def test_posts_to_one_queue_of_a_full_store_are_stopped_while_it_is_consumed() -> None:
    with servers.redis_server() as redis:
        shell = CommandLine(["--storage", redis.uri])
        shell.done("message", "post", "exports", "x")
        with redis.client() as client:
            client.config_set("maxmemory", 1)
            limit = '{"_max_messages_post_size": 1}'
            shell.done("queue", "update", "exports", "--set", limit)
            assert "is full" in shell.refused("message", "post", "exports", "y")
            (claimed,) = shell.shown("claim", "create", "exports")
            held = ("--claim", claimed["claim"])
            shell.done("message", "delete", "exports", claimed["id"], *held, "--yes")
            client.config_set("maxmemory", 0)
            refusal = shell.refused("message", "post", "exports", "y")
            assert "this queue takes at most 1 bytes a request" in refusal
            client.config_set("maxmemory", 1)
            shell.done("queue", "update", "exports", "--remove", "_max_messages_post_size")
            client.config_set("maxmemory", 0)
        shell.done("message", "post", "exports", "z")


def test_message_list_reads_more_than_one_page(project_shell: CommandLine) -> None:
    project_shell.done("message", "post", "long", *[str(number) for number in range(45)])
    bodies = [message["body"] for message in project_shell.shown("message", "list", "long")]
    assert bodies == list(range(45))
    assert len(project_shell.shown("message", "list", "long", "--limit", "21")) == 21


def test_invalid_queue_arguments_are_reported(project_shell: CommandLine) -> None:
    for name in ("a b", "a/b", ".", "..", "x" * 65):
        assert "name" in project_shell.misused("queue", "stats", name)
    assert "ttl" in project_shell.refused("message", "post", "q", "x", "--ttl", "1")
    assert "limit" in project_shell.refused("claim", "create", "q", "--limit", "1000")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command: str) -> None:
    text = CommandLine().done(*command.split(), "--help")
    assert "Example" in text
    assert f"zaqar-redis {command}" in text.partition("Example")[2]


def test_command_imports_no_modules_of_other_commands() -> None:
    program = (
        "import sys\nfrom zaqar_redis.cli.main import main\n"
        "main(['queue', 'list', '--help'])\nprint(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    modules = set(result.stdout.decode().splitlines()[-1].split())
    assert "zaqar_redis.cli.queues" in modules
    assert not modules & {"zaqar_redis.cli.bench", "zaqar_redis.cli.pipeline", "pyspark"}


def test_help_is_shown_after_options_with_values() -> None:
    assert "Example" in CommandLine().done("queue", "list", "--limit", "3", "--help")
