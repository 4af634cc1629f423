# SPDX-License-Identifier: Apache-2.0
"""``message tail``: the last messages of a queue, and each new one, whatever happens."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.cli.conftest import Shell, running

_TAIL = ("message", "tail", "q")


def _bodies(lines: list[str]) -> list[object]:
    return [json.loads(line.split("  ", 1)[1]) for line in lines]


def test_the_last_ones_are_shown_and_then_each_new_one(shell: Shell, tmp_path: Path) -> None:
    posted = shell.shown("message", "post", "q", *map(str, range(45)))
    with running(shell, tmp_path, *_TAIL) as tail:
        assert tail.writes(10)[0] == f"{posted[35]['id']}  35"
        for body in ('{"n": 45}', "forty-six"):
            shell.done("message", "post", "q", body)
        assert _bodies(tail.writes(12)) == [*range(35, 45), {"n": 45}, "forty-six"]
        tail.interrupted()


def test_it_begins_where_it_is_told_to(shell: Shell, tmp_path: Path) -> None:
    shell.done("message", "post", "q", *map(str, range(25)))
    with running(shell, tmp_path, *_TAIL, "--from-start") as tail:
        assert _bodies(tail.writes(25)) == list(range(25))
    with running(shell, tmp_path, *_TAIL, "--lines", "2", "--json") as tail:
        last = json.loads(tail.writes(2)[1])
        assert (last["body"], last["ttl"]) == (24, 3600)
        assert {"id", "age", "href"} < set(last)
    with running(shell, tmp_path, *_TAIL, "--lines", "0") as tail:
        while not tail.lines:  # when it has begun is not to be seen
            shell.done("message", "post", "q", "new")
        assert set(_bodies(tail.lines)) == {"new"}
    usage = shell.run(*_TAIL, "--lines", "2", "--from-start")
    assert usage.returncode == 2


def test_a_queue_that_is_not_there_yet_is_followed(shell: Shell, tmp_path: Path) -> None:
    with running(shell, tmp_path, *_TAIL) as tail:
        shell.done("message", "post", "q", "first")
        assert _bodies(tail.writes(1)) == ["first"]


def test_claimed_and_delayed_ones_are_shown_when_asked_for(
    service: servers.Service, project: str, tmp_path: Path
) -> None:
    shell = Shell(["--url", service.url, "--project", project])
    httpx.put(
        f"{service.url}/v2/queues/q",
        json={"_default_message_delay": 1},
        headers={"Client-ID": str(uuid.uuid4()), "X-Project-ID": project},
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
            assert _bodies(tail.writes(len(bodies))) == bodies


def test_a_queue_that_is_made_anew_is_followed_from_its_start(shell: Shell, tmp_path: Path) -> None:
    shell.done("message", "post", "q", "old")
    with running(shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.writes(1)
        shell.done("queue", "delete", "q", "--yes")
        shell.done("message", "post", "q", "new", "newer")
        assert _bodies(tail.writes(3)) == ["old", "new", "newer"]
        assert tail.notices.count("made anew") == 1
        shell.done("message", "post", "q", "newest")
        assert _bodies(tail.writes(4))[3] == "newest"


def test_a_purged_queue_is_still_the_same(shell: Shell, tmp_path: Path) -> None:
    shell.done("message", "post", "q", "held", "old")
    shell.done("claim", "create", "q", "--limit", "1", "--ttl", "300")
    with running(shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.writes(1)
        shell.done("queue", "purge", "q", "--yes")
        shell.done("message", "post", "q", "new")
        assert _bodies(tail.writes(2)) == ["old", "new"]
        assert tail.interrupted() == "\ninterrupted\n"


@pytest.fixture(params=["storage", "url"])
def kept(request: pytest.FixtureRequest) -> Iterator[tuple[servers.RedisServer, Shell]]:
    """A store that keeps what it has when it is killed, and a shell there."""
    with servers.redis_server(fsync="always") as home:
        if request.param == "storage":
            yield home, Shell(["--storage", home.uri])
        else:
            with servers.service(home.uri) as service:
                yield home, Shell(["--url", service.url])


def test_a_store_that_is_away_for_a_while_is_waited_for(
    kept: tuple[servers.RedisServer, Shell], tmp_path: Path
) -> None:
    home, shell = kept
    shell.done("message", "post", "q", "first")
    with running(shell, tmp_path, *_TAIL, "--wait", "1") as tail:
        tail.writes(1)
        for times in (1, 2):
            home.stop()
            tail.tells("trying again", times)
            home.start()
            servers.wait_for(
                lambda: shell.run("message", "post", "q", "more").returncode == 0, "the service"
            )
            tail.writes(1 + times)
        assert _bodies(tail.lines) == ["first", "more", "more"]
        assert "made anew" not in tail.interrupted()


@contextlib.contextmanager
def _started_again(service: servers.Service, storage: str) -> Iterator[None]:
    address = f"127.0.0.1:{service.port}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "zaqar_redis.cli.main"),
            *("serve", "--bind", address, "--storage", storage),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_service_that_is_started_again_is_followed_on(
    redis_server: servers.RedisServer, project: str, tmp_path: Path
) -> None:
    with servers.service(redis_server.uri) as service:
        shell = Shell(["--url", service.url, "--project", project])
        shell.done("message", "post", "q", "first")
        with running(shell, tmp_path, *_TAIL) as tail:
            tail.writes(1)
            service.process.terminate()
            tail.tells("trying again")
            straight = Shell(["--storage", redis_server.uri, "--project", project])
            straight.done("message", "post", "q", "meanwhile")
            with _started_again(service, redis_server.uri):
                assert _bodies(tail.writes(2)) == ["first", "meanwhile"]
                assert tail.interrupted().count("trying again") == 1


def test_an_error_at_the_first_request_is_an_error(shell: Shell) -> None:
    assert "http://127.0.0.1:1" in Shell(["--url", "http://127.0.0.1:1"]).refused(*_TAIL)
    assert "cannot be reached" in Shell(["--storage", "redis://127.0.0.1:1"]).refused(*_TAIL)


def test_it_ends_when_nobody_reads_on(shell: Shell) -> None:
    shell.done("message", "post", "q", "first")
    process = subprocess.Popen(
        [sys.executable, "-m", "zaqar_redis.cli.main", *_TAIL, *shell.where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline().endswith(b'  "first"\n')
    process.stdout.close()
    shell.done("message", "post", "q", "second")
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (141, b"")
