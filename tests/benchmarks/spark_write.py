# SPDX-License-Identifier: Apache-2.0
"""Writing messages to a new queue: the sink beside other ways to do it."""

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

from tests.benchmarks.found import Found
from tests.benchmarks.spark_passes import Contender, take_turns, timed
from tests.benchmarks.spark_site import BODY, CLIENT, PROJECT, PUT, TASKS, TTL, Site
from zaqar_redis.bench.service import Failed
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.records import Draft
from zaqar_redis.storage.drivers.redis import identity, posting

_QUEUE = "written"


def measure(site: Site, found: Found, rounds: int) -> None:
    frame = site.spark.range(0, site.messages, 1, TASKS).select(lit(BODY.decode()).alias("body"))
    site.redis.script_load(posting.POST.source)
    by_hand = functools.partial(_store, str(site.store.socket))
    written = functools.partial(_written, site)
    contenders = (
        Contender("data source, ledger", written(lambda: _append(site, frame))),
        Contender("raw Lua put", written(_raw(site.store.socket, site.messages)), 0.85),
        Contender("foreachPartition", written(lambda: frame.foreachPartition(by_hand)), 2.5),
    )
    try:
        take_turns(found, "write", site.messages, contenders, rounds)
    finally:
        site.remove(_QUEUE)


def _written(site: Site, action: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        site.remove(_QUEUE)
        seconds = timed(action)
        if (number := site.count(_QUEUE)) != site.messages:
            raise Failed(f"{number} of {site.messages} messages were written")
        return seconds

    return run


def _append(site: Site, frame: DataFrame) -> None:
    options = {"uri": site.store.uri, "project": PROJECT, "queue": _QUEUE, "delivery": "ledger"}
    frame.write.format("zaqar").mode("append").options(**options).save()


def _raw(path: Path, messages: int) -> Callable[[], None]:
    """One connection that posts what was packed before, without Spark."""
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
                    raise Failed(f"Redis answered {answer!r}")

    return run


def _packed(messages: int) -> bytes:
    message = (-1, -1, envelope.tail(Draft(body=BODY), CLIENT))
    call = posting.POST(
        keys.of_queue(PROJECT, _QUEUE),
        *(message * messages),
        now=0,
        epoch=identity.new_epoch(),
        size=len(BODY),
        default_ttl=TTL,
        sealed=0,
        retry="",
        fingerprint="",
        window=0,
    )
    command: Any = call.command()  # hiredis says that it takes one element
    return bytes(hiredis.pack_command(command))


def _store(path: str, rows: Iterable[Row]) -> None:
    """The same in Redis, with redis-py alone: ranks first, then a command for each thing."""
    known, rest = keys.of_queue(PROJECT, _QUEUE), iter(rows)
    with redis.Redis(unix_socket_path=path) as client:
        client.hsetnx(known.queue, "epoch", identity.new_epoch())
        while chunk := list(itertools.islice(rest, PUT)):
            first = client.hincrby(known.queue, "rank", len(chunk)) - len(chunk) + 1
            created = time.time_ns() // 1_000_000
            expires = created + TTL * 1000
            front = envelope.front(created, expires, TTL, 0)
            pipeline = client.pipeline(transaction=False)
            for rank, row in enumerate(chunk, first):
                tail = envelope.tail(Draft(body=row.body.encode()), CLIENT)
                pipeline.hset(known.bodies, str(rank), front + tail)
                pipeline.zadd(known.messages, {rank: rank})
                pipeline.zadd(known.expiry, {rank: expires})
                pipeline.zadd(known.ready, {rank: rank})
            pipeline.execute()
