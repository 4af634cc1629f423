# SPDX-License-Identifier: Apache-2.0
"""Commands that are interrupted, or whose stdout is closed, end cleanly and quietly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import ADMIN
from tests.support import servers
from tests.support.command_line import CommandLine, running
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.control_keys import CONTROL

_MANY = 60_000
_HEADERS = {"Client-ID": "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10", "X-Project-ID": "default"}


def test_interrupted_tail_ends_without_traceback(
    project_shell: CommandLine, tmp_path: Path
) -> None:
    project_shell.done("message", "post", "q", "first")
    with running(project_shell, tmp_path, "message", "tail", "q") as tail:
        assert tail.wait_for_lines(1)[0].endswith('  "first"')
        assert tail.interrupt() == "\ninterrupted\n"
    assert len(project_shell.shown("message", "list", "q")) == 1


def test_interrupted_command_stops_the_embedded_store(tmp_path: Path) -> None:
    with embedded.running(f"embedded://{tmp_path}/data"):
        pass  # creates it: commands do not
    shell = CommandLine(["--storage", f"embedded://{tmp_path}/data"])
    shell.done("message", "post", "q", "first")
    with running(shell, tmp_path, "message", "tail", "q") as tail:
        tail.wait_for_lines(1)
        (user,) = (tmp_path / "data").glob("*.pid")
        tail.interrupt()
        assert not user.exists()  # the last user is gone, so the server ended
    assert len(shell.shown("message", "list", "q")) == 1


@pytest.fixture
def pools() -> Iterator[tuple[servers.RedisServer, servers.RedisServer]]:
    """A service's own store with a queue of many messages in a pool, and an empty pool."""
    with (
        servers.redis_server() as server,
        servers.redis_server() as one,
        servers.redis_server() as two,
    ):
        shell = CommandLine(["--storage", server.uri])
        shell.done("pool", "create", "one", "--uri", one.uri)
        with servers.service(server.uri) as service:
            _fill(f"{service.url}/v2/queues/q/messages")
        shell.done("pool", "create", "two", "--uri", two.uri)
        yield server, two


def _fill(url: str) -> None:
    document = {"messages": [{"body": "x"}] * 3000}
    with httpx.Client(headers=_HEADERS, timeout=30) as client:
        for _ in range(_MANY // 3000):
            client.post(url, json=document).raise_for_status()


def test_interrupted_drain_undoes_or_finishes_the_move(
    pools: tuple[servers.RedisServer, servers.RedisServer], tmp_path: Path
) -> None:
    server, two = pools
    shell = CommandLine(["--storage", server.uri])
    with running(shell, tmp_path, "pool", "drain", "one") as drain, two.client() as target:
        before = target.dbsize()
        servers.wait_for(lambda: target.dbsize() > before, "the move to begin")
        assert "draining one" in drain.interrupt()
    # At once: an abandoned move would lock the queue for seconds.
    shell.done("message", "post", "q", "another")
    assert shell.shown("queue", "stats", "q")["total"] == _MANY + 1
    queues = [shell.shown("pool", "show", name)["queues"] for name in ("one", "two")]
    assert sum(queues) == 1
    with server.client() as catalogue:
        assert catalogue.hlen(CONTROL.moves.decode()) == 0


@pytest.mark.nightly
def test_service_continues_a_drain_whose_command_is_interrupted(
    pools: tuple[servers.RedisServer, servers.RedisServer], tmp_path: Path
) -> None:
    server, _ = pools
    with servers.service(server.uri, options=ADMIN) as service:
        shell = CommandLine(["--url", service.url])
        with running(shell, tmp_path, "pool", "drain", "one") as drain:
            drain.wait_for_notice("draining one")
            drain.interrupt()
        servers.wait_for(lambda: shell.shown("pool", "show", "two")["queues"] == 1, "the move")


@pytest.mark.parametrize(
    "words", [["message", "list", "q"], ["message", "tail", "q"], ["pool", "list"]]
)
def test_command_with_closed_stdout_ends_quietly(
    project_shell: CommandLine, words: list[str]
) -> None:
    project_shell.done("message", "post", "q", "first")
    _expect_quiet_end(*words, *project_shell.target_options)


def test_help_with_closed_stdout_ends_quietly() -> None:
    _expect_quiet_end("--help")


def _expect_quiet_end(*words: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "zaqar_redis.cli.main", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.close()
    _, stderr = process.communicate(timeout=60)
    assert stderr == b""
    assert process.returncode in (0, 141)
