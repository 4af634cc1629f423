# SPDX-License-Identifier: Apache-2.0
"""Commands that move messages are killed, again and again: none is lost, and none is doubled."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import redis

from tests.support import servers
from tests.support.stores import ContractStore, findings, names, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import IdempotencyKey, NewMessage

#: Enough for all kills: at its rate a command takes seconds for them.
_MESSAGES = 1200
_KILLS = 3
#: The project of commands that name none.
_PROJECT = "default"


def _fill(store: ContractStore) -> None:
    """Posts dead letters of q to "dead"."""
    for queue in ("q", "dead"):
        store.create(queue)
    for number in range(_MESSAGES):
        letter = NewMessage(body=json.dumps(str(number)).encode(), ttl=3600, delay=0, origin="q")
        key = IdempotencyKey(key=f"made {number}", fingerprint=b"", window=60_000)
        store.run(
            store.driver.messages.dead_letter(
                _PROJECT, "dead", letter, client=b"c" * 16, idempotency_key=key
            )
        )


def _kill_when(uri: str, words: tuple[str, ...], reached: Callable[[], bool]) -> None:
    command = [sys.executable, "-m", "zaqar_redis.cli.main", *words, "--storage", uri]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        servers.wait_for(lambda: reached() or process.poll() is not None, "moved messages")
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL  # it was at work


def _count(client: redis.Redis, queue: str) -> int:
    return int(client.zcard(keys.of_queue(_PROJECT, queue).messages))


def _has(client: redis.Redis, queue: str, messages: int) -> bool:
    return _count(client, queue) >= messages


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words", [("queue", "redrive", "dead"), ("message", "move", "dead", "q")], ids=" ".join
)
def test_a_killed_move_loses_and_doubles_nothing(words: tuple[str, ...]) -> None:
    with (
        servers.redis_server() as server,
        server.client() as client,
        opened(server.uri, _PROJECT) as store,
    ):
        store.clock.now = round(time.time() * 1000)
        _fill(store)
        for _ in range(_KILLS):
            reached = functools.partial(_has, client, "q", _count(client, "q") + 45)
            # Slowly enough to be killed at work.
            slowly = (*words, "--rate", "200")
            _kill_when(server.uri, slowly, reached)
            bodies = [*store.listed("q"), *store.listed("dead")]
            assert {*bodies} == {str(number) for number in range(_MESSAGES)}
        store.clock.tick(120)  # what the killed commands held is free
        while page := store.peek("free", limit=20, queue="dead").items:
            ids = [each.message.id for each in page]
            assert store.move(*ids, queue="dead", target="q", restore=True) == ids
        assert sorted(store.listed("q"), key=int) == [str(number) for number in range(_MESSAGES)]
        assert names([each.message for each in store.peek(queue="dead").items]) == []
        assert findings(store) == []
