# SPDX-License-Identifier: Apache-2.0
"""Changes that are acknowledged when replicas have them (WAIT, once for each batch)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.metrics import definitions as metrics

#: Changes nothing that anybody reads.  DEL comes first for a full Redis: it lets a script go on
#: that has called a command which may write.
_TRACE = "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], '', 'PX', 1)"


def confirmation(
    written: Sequence[RedisCommand], replicas: int, timeout_ms: int
) -> tuple[RedisCommand, RedisCommand]:
    """Returns what is sent behind commands that write.

    The answer of the second, WAIT, is how many replicas have what the commands wrote or found
    written.  Since Redis 7.2, WAIT waits for what its own connection has written, and a repeated
    command may find its work done over another one.  So the first always writes: to a slot of
    the commands.
    """
    key = next((key for each in written if (key := each.key()) is not None), b"")
    trace = RedisCommand("EVAL", _TRACE, 1, keys.written(key))
    return trace, RedisCommand("WAIT", replicas, timeout_ms)


class Replication:
    """In the place of the future of WAIT: the answers of a write, until replicas have it."""

    def __init__(self, replicas: int, store: str, on_answer: Callable[[], object]) -> None:
        self._replicas = replicas
        self._store = store
        self._on_answer = on_answer
        self._answers: list[tuple[asyncio.Future[Any], Any]] = []

    def hold(self, answer: asyncio.Future[Any], result: Any) -> None:
        self._answers.append((answer, result))

    def done(self) -> bool:
        return False

    def exception(self) -> None:
        pass

    def set_result(self, confirmed: int) -> None:
        if confirmed < self._replicas:
            metrics.STORE_NOT_REPLICATED.add(self._store)
            return self.set_exception(errors.NotReplicated(self._store, replicas=self._replicas))
        self._on_answer()
        for answer, result in self._answers:
            if not answer.done():
                answer.set_result(result)
        return None

    def set_exception(self, error: BaseException) -> None:
        self._on_answer()
        for answer, _ in self._answers:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # some callers have gone: mark it as retrieved


class HeldAnswer:
    """In the place of the future of a command that writes, until replicas have it."""

    __slots__ = ("_replication", "answer", "done", "exception", "set_exception")

    def __init__(self, answer: asyncio.Future[Any], replication: Replication) -> None:
        self.answer = answer
        self._replication = replication
        self.done = answer.done
        self.exception = answer.exception
        self.set_exception = answer.set_exception

    def set_result(self, result: Any) -> None:
        self._replication.hold(self.answer, result)
