# SPDX-License-Identifier: Apache-2.0
"""``message tail``: the last messages of a queue, then new ones, also across outages."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.support.command_line import CommandLine, running, without_store

_TAIL = ("message", "tail", "q")


def _bodies(lines: list[str]) -> list[object]:
    return [json.loads(line.split("  ", 1)[1]) for line in lines]


def test_tail_shows_last_messages_then_new_ones(project_shell: CommandLine, tmp_path: Path) -> None:
    posted = project_shell.shown("message", "post", "q", *map(str, range(45)))
    with running(project_shell, tmp_path, *_TAIL) as tail:
        assert tail.wait_for_lines(10)[0] == f"{posted[35]['id']}  35"
        for body in ('{"n": 45}', "forty-six"):
            project_shell.done("message", "post", "q", body)
        assert _bodies(tail.wait_for_lines(12)) == [*range(35, 45), {"n": 45}, "forty-six"]
        tail.interrupt()


def test_tail_starts_where_options_say(project_shell: CommandLine, tmp_path: Path) -> None:
    project_shell.done("message", "post", "q", *map(str, range(25)))
    with running(project_shell, tmp_path, *_TAIL, "--from-start") as tail:
        assert _bodies(tail.wait_for_lines(25)) == list(range(25))
    with running(project_shell, tmp_path, *_TAIL, "--lines", "2", "--json") as tail:
        last = json.loads(tail.wait_for_lines(2)[1])
        assert (last["body"], last["ttl"]) == (24, 3600)
        assert {"id", "age", "href"} < set(last)
    with running(project_shell, tmp_path, *_TAIL, "--lines", "0") as tail:

        def posted_and_shown() -> bool:  # its start cannot be observed
            project_shell.done("message", "post", "q", "new")
            return bool(tail.lines)

        servers.wait_for(posted_and_shown, "a new message")
        assert set(_bodies(tail.lines)) == {"new"}
    project_shell.misused(*_TAIL, "--lines", "2", "--from-start")


def test_tail_waits_for_a_missing_queue(project_shell: CommandLine, tmp_path: Path) -> None:
    with running(project_shell, tmp_path, *_TAIL) as tail:
        project_shell.done("message", "post", "q", "first")
        assert _bodies(tail.wait_for_lines(1)) == ["first"]


def test_tail_shows_claimed_and_delayed_messages_on_request(
    service: servers.RunningService, project: str, tmp_path: Path
) -> None:
    shell = CommandLine(["--url", service.url, "--project", project])
    httpx.put(
        f"{service.url}/v2/queues/q",
        json={"_default_message_delay": 1},
        headers={"Client-ID": str(uuid.uuid4()), "X-Project-ID": project},
        timeout=30,
    ).raise_for_status()
    shell.done("message", "post", "q", "claimed", "--delay", "0")
    shell.done("claim", "create", "q", "--ttl", "300")
    shell.done("message", "post", "q", "delayed", "--delay", "300")
    shell.done("message", "post", "q", "free", "--delay", "0")
    for options, bodies in (
        ([], ["free"]),
        (["--claimed"], ["claimed", "free"]),
        (["--claimed", "--delayed"], ["claimed", "delayed", "free"]),
    ):
        with running(shell, tmp_path, *_TAIL, *options) as tail:
            assert _bodies(tail.wait_for_lines(len(bodies))) == bodies


def test_tail_reads_a_recreated_queue_from_its_start(
    project_shell: CommandLine, tmp_path: Path
) -> None:
    project_shell.done("message", "post", "q", "old")
    with running(project_shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.wait_for_lines(1)
        project_shell.done("queue", "delete", "q", "--yes")
        project_shell.done("message", "post", "q", "new", "newer")
        assert _bodies(tail.wait_for_lines(3)) == ["old", "new", "newer"]
        assert tail.notices.count("created again") == 1
        project_shell.done("message", "post", "q", "newest")
        assert _bodies(tail.wait_for_lines(4))[3] == "newest"


def test_tail_continues_after_a_purge(project_shell: CommandLine, tmp_path: Path) -> None:
    project_shell.done("message", "post", "q", "held", "old")
    project_shell.done("claim", "create", "q", "--limit", "1", "--ttl", "300")
    with running(project_shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.wait_for_lines(1)
        project_shell.done("queue", "purge", "q", "--yes")
        project_shell.done("message", "post", "q", "new")
        assert _bodies(tail.wait_for_lines(2)) == ["old", "new"]
        assert tail.interrupt() == "\ninterrupted\n"


@pytest.fixture(params=["storage", "url"])
def durable_shell(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[servers.RedisServer, CommandLine]]:
    """A store that loses nothing when killed, and a shell whose target it is."""
    with servers.redis_server(fsync="always") as server:
        if request.param == "storage":
            yield server, CommandLine(["--storage", server.uri])
        else:
            with servers.service(server.uri) as service:
                yield server, CommandLine(["--url", service.url])


@pytest.mark.nightly
def test_tail_survives_a_store_outage(
    durable_shell: tuple[servers.RedisServer, CommandLine], tmp_path: Path
) -> None:
    server, shell = durable_shell
    shell.done("message", "post", "q", "first")
    with running(shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.wait_for_lines(1)
        for times in (1, 2):
            server.stop()
            tail.wait_for_notice("trying again", times)
            server.start()
            servers.wait_for(
                lambda: shell.run("message", "post", "q", "more").returncode == 0, "the service"
            )
            tail.wait_for_lines(1 + times)
        assert _bodies(tail.lines) == ["first", "more", "more"]
        assert "created again" not in tail.interrupt()


def test_tail_continues_after_a_service_restart(
    redis_server: Backend, project: str, tmp_path: Path
) -> None:
    with servers.service(redis_server.uri) as service:
        shell = CommandLine(["--url", service.url, "--project", project])
        shell.done("message", "post", "q", "first")
        with running(shell, tmp_path, *_TAIL) as tail:
            tail.wait_for_lines(1)
            service.process.terminate()
            tail.wait_for_notice("trying again")
            straight = CommandLine(["--storage", redis_server.uri, "--project", project])
            straight.done("message", "post", "q", "meanwhile")
            with servers.service(redis_server.uri, port=service.port):
                assert _bodies(tail.wait_for_lines(2)) == ["first", "meanwhile"]
                assert tail.interrupt().count("trying again") == 1


def test_tail_fails_at_an_unreachable_target() -> None:
    assert "http://127.0.0.1:1" in CommandLine(["--url", "http://127.0.0.1:1"]).refused(*_TAIL)
    assert "cannot be reached" in without_store().refused(*_TAIL)


def test_tail_with_closed_stdout_ends_quietly(project_shell: CommandLine) -> None:
    project_shell.done("message", "post", "q", "first")
    process = subprocess.Popen(
        [sys.executable, "-m", "zaqar_redis.cli.main", *_TAIL, *project_shell.target_options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline().endswith(b'  "first"\n')
    process.stdout.close()
    project_shell.done("message", "post", "q", "second")
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (141, b"")
