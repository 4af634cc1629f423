# SPDX-License-Identifier: Apache-2.0
"""Writing messages to a new queue: the sink compared with other ways to do it."""

from __future__ import annotations

import functools
import itertools
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hiredis
import redis
from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import lit

from benchmarks.spark.passes import PassContender, take_turns, timed
from benchmarks.spark.testbed import BODY, CLIENT, PROJECT, PUT, TASKS, TTL, SparkTestbed
from benchmarks.support.figures import Figures
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.records import NewMessage
from zaqar_redis.storage.redis import identity, posting

_QUEUE = "written"


def measure(testbed: SparkTestbed, figures: Figures, rounds: int) -> None:
    frame = testbed.spark.range(0, testbed.messages, 1, TASKS).select(
        lit(BODY.decode()).alias("body")
    )
    testbed.redis.script_load(posting.POST_RULED.source)
    by_hand = functools.partial(_store, str(testbed.store.socket))
    written = functools.partial(_written, testbed)
    contenders = (
        PassContender("data source, ledger", written(lambda: _append(testbed, frame))),
        PassContender("raw Lua put", written(_raw(testbed.store.socket, testbed.messages)), 0.85),
        PassContender("foreachPartition", written(lambda: frame.foreachPartition(by_hand)), 2.5),
    )
    try:
        take_turns(figures, "write", testbed.messages, contenders, rounds)
    finally:
        testbed.remove(_QUEUE)


def _written(testbed: SparkTestbed, action: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        testbed.remove(_QUEUE)
        seconds = timed(action)
        if (number := testbed.count(_QUEUE)) != testbed.messages:
            raise BenchmarkFailed(f"{number} of {testbed.messages} messages were written")
        return seconds

    return run


def _append(testbed: SparkTestbed, frame: DataFrame) -> None:
    options = {"uri": testbed.store.uri, "project": PROJECT, "queue": _QUEUE, "delivery": "ledger"}
    frame.write.format("zaqar").mode("append").options(**options).save()


def _raw(path: Path, messages: int) -> Callable[[], None]:
    """Returns a function that posts packed commands over one connection, without Spark."""
    full, rest = divmod(messages, PUT)
    packed = [_packed(PUT)] * full + [_packed(rest)] * bool(rest)

    def run() -> None:
        reader = hiredis.Reader()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            for command in packed:
                connection.sendall(command)
                while (answer := reader.gets()) is False:
                    reader.feed(connection.recv(4096))
                if isinstance(answer, Exception) or answer[0] != b"posted":
                    raise BenchmarkFailed(f"Redis answered {answer!r}")

    return run


def _packed(messages: int) -> bytes:
    message = (-1, -1, envelope.tail(NewMessage(body=BODY), CLIENT))
    call = posting.POST_RULED(
        keys.of_queue(PROJECT, _QUEUE),
        *(message * messages),
        now=0,
        epoch=identity.new_epoch(),
        size=len(BODY),
        default_ttl=TTL,
        encrypted=0,
        idempotency_key="",
        fingerprint="",
        window=0,
        dedups=posting.NEVER_DUPLICATES,
    )
    command: Any = call.command()  # hiredis' type hint allows one element only
    return bytes(hiredis.pack_command(command))


def _store(path: str, rows: Iterable[Row]) -> None:
    """Stores the same as the sink with redis-py: ranks first, then a command for each key."""
    queue_keys, rest = keys.of_queue(PROJECT, _QUEUE), iter(rows)
    with redis.Redis(unix_socket_path=path) as client:
        client.hsetnx(queue_keys.queue, "epoch", identity.new_epoch())
        while chunk := list(itertools.islice(rest, PUT)):
            first = client.hincrby(queue_keys.queue, "rank", len(chunk)) - len(chunk) + 1
            created = time.time_ns() // 1_000_000
            expires = created + TTL * 1000
            front = envelope.front(created, expires, TTL, 0)
            pipeline = client.pipeline(transaction=False)
            for rank, row in enumerate(chunk, first):
                tail = envelope.tail(NewMessage(body=row.body.encode()), CLIENT)
                pipeline.hset(queue_keys.bodies, str(rank), front + tail)
                pipeline.zadd(queue_keys.messages, {rank: rank})
                pipeline.zadd(queue_keys.expiry, {rank: expires})
                pipeline.zadd(queue_keys.ready, {rank: rank})
            pipeline.execute()
