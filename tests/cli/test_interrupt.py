# SPDX-License-Identifier: Apache-2.0
"""Commands that are interrupted, or that nobody reads, end in order and quietly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.cli.conftest import ADMIN, Shell, running
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.keys import CONTROL

_MANY = 60_000
_HEADERS = {"Client-ID": "9d3f6c0e-8f0d-4c55-a2f3-6b3a0f4d6a10", "X-Project-ID": "default"}


def test_a_command_that_waits_is_interrupted(shell: Shell, tmp_path: Path) -> None:
    shell.done("message", "post", "q", "first")
    with running(shell, tmp_path, "message", "tail", "q") as tail:
        assert tail.writes(1)[0].endswith('  "first"')
        assert tail.interrupted() == "\ninterrupted\n"
    assert len(shell.shown("message", "list", "q")) == 1


def test_a_private_store_is_left_in_order(tmp_path: Path) -> None:
    with embedded.running(f"embedded://{tmp_path}/data"):
        pass  # no command makes one
    shell = Shell(["--storage", f"embedded://{tmp_path}/data"])
    shell.done("message", "post", "q", "first")
    with running(shell, tmp_path, "message", "tail", "q") as tail:
        tail.writes(1)
        (user,) = (tmp_path / "data").glob("*.pid")
        tail.interrupted()
        assert not user.exists()  # nobody uses the store any more, and so it ended
    assert len(shell.shown("message", "list", "q")) == 1


@pytest.fixture
def pools() -> Iterator[tuple[servers.RedisServer, servers.RedisServer]]:
    """A service's own store with a queue of many messages in a pool, and an empty pool."""
    with (
        servers.redis_server() as home,
        servers.redis_server() as one,
        servers.redis_server() as two,
    ):
        shell = Shell(["--storage", home.uri])
        shell.done("pool", "create", "one", "--uri", one.uri)
        with servers.service(home.uri) as service:
            _fill(f"{service.url}/v2/queues/q/messages")
        shell.done("pool", "create", "two", "--uri", two.uri)
        yield home, two


def _fill(url: str) -> None:
    document = {"messages": [{"body": "x"}] * 3000}
    with httpx.Client(headers=_HEADERS) as client:
        for _ in range(_MANY // 3000):
            client.post(url, json=document).raise_for_status()


def test_a_move_is_undone_or_finished_when_a_drain_is_interrupted(
    pools: tuple[servers.RedisServer, servers.RedisServer], tmp_path: Path
) -> None:
    home, two = pools
    shell = Shell(["--storage", home.uri])
    with running(shell, tmp_path, "pool", "drain", "one") as drain, two.client() as there:
        before = there.dbsize()
        servers.wait_for(lambda: there.dbsize() > before, "the move to begin")
        assert "draining one" in drain.interrupted()
    # At once: a move that was left as it stood would keep everybody out for seconds.
    shell.done("message", "post", "q", "another")
    assert shell.shown("queue", "stats", "q")["total"] == _MANY + 1
    queues = [shell.shown("pool", "show", name)["queues"] for name in ("one", "two")]
    assert sum(queues) == 1
    with home.client() as catalogue:
        assert catalogue.hlen(CONTROL.moves.decode()) == 0


def test_a_service_goes_on_when_the_drain_that_began_it_is_interrupted(
    pools: tuple[servers.RedisServer, servers.RedisServer], tmp_path: Path
) -> None:
    home, _ = pools
    with servers.service(home.uri, options=ADMIN) as service:
        shell = Shell(["--url", service.url])
        with running(shell, tmp_path, "pool", "drain", "one") as drain:
            drain.tells("draining one")
            drain.interrupted()
        servers.wait_for(lambda: shell.shown("pool", "show", "two")["queues"] == 1, "the move")


@pytest.mark.parametrize(
    "words", [["message", "list", "q"], ["message", "tail", "q"], ["pool", "list"], ["--help"]]
)
def test_a_command_that_nobody_reads_ends_quietly(shell: Shell, words: list[str]) -> None:
    shell.done("message", "post", "q", "first")
    where = [] if words == ["--help"] else shell.where
    process = subprocess.Popen(
        [sys.executable, "-m", "zaqar_redis.cli.main", *words, *where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.close()
    _, said = process.communicate(timeout=30)
    assert said == b""
    assert process.returncode in (0, 141)
