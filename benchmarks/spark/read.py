# SPDX-License-Identifier: Apache-2.0
"""Reading all messages of a queue: the data source compared with other ways to do it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import hiredis
from pyspark.sql import DataFrame

from benchmarks.spark.passes import PassContender, take_turns, timed
from benchmarks.spark.testbed import PROJECT, QUEUE, SparkTestbed, drain
from benchmarks.spark.tuples import PAGE, TupleSource, rows
from benchmarks.support.figures import Figures
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Watermarks
from zaqar_redis.spark import columns

#: Bytes received at once: half a page.
_RECEIVE = 256 * 1024
#: Maximum number of rounds of the list: one takes 20 s for a million messages.
_LISTS = 2


def measure(testbed: SparkTestbed, figures: Figures, rounds: int) -> None:
    watermarks = testbed.fill(QUEUE, testbed.messages)
    frame, tuples = testbed.frame(), _tuples(testbed, watermarks)
    for each in (frame, tuples):
        if (number := each.count()) != testbed.messages:
            raise BenchmarkFailed(f"{number} of {testbed.messages} messages were read")
    contenders = (
        PassContender("data source, 2 tasks", _passes(lambda: drain(frame))),
        PassContender(
            "raw HMGET", _passes(lambda: _raw(testbed.store.socket, testbed.messages)), 0.4
        ),
        PassContender("row tuples, 2 tasks", _passes(lambda: drain(tuples)), 1.6),
        PassContender(
            "list and createDataFrame",
            _passes(lambda: drain(_listed(testbed, watermarks))),
            8,
            _LISTS,
        ),
    )
    take_turns(figures, "read", testbed.messages, contenders, rounds)


def _passes(action: Callable[[], object]) -> Callable[[], float]:
    return lambda: timed(action)


def _raw(path: Path, messages: int) -> None:
    """Reads bodies by their ranks in one process, and discards the replies."""
    bodies, reader = keys.of_queue(PROJECT, QUEUE).bodies, hiredis.Reader()
    with socket.socket(socket.AF_UNIX) as redis:
        redis.connect(str(path))
        for start in range(1, messages + 1, PAGE):
            ranks = range(start, min(start + PAGE, messages + 1))
            redis.sendall(hiredis.pack_command(("HMGET", bodies, *ranks)))
            while (answer := reader.gets()) is False:
                reader.feed(redis.recv(_RECEIVE))
            if None in answer:
                raise BenchmarkFailed(f"a message from rank {start} on does not exist")


def _tuples(testbed: SparkTestbed, watermarks: Watermarks) -> DataFrame:
    testbed.spark.dataSource.register(TupleSource)
    options = {"uri": testbed.store.uri, "queue": QUEUE, "epoch": watermarks.epoch}
    source = testbed.spark.read.format(TupleSource.name()).options(**options)
    return source.option("following", str(watermarks.next_rank)).load()


def _listed(testbed: SparkTestbed, watermarks: Watermarks) -> DataFrame:
    """Returns a frame of rows that the driver reads, without a data source."""
    first, following = watermarks.first, watermarks.next_rank
    read = list(rows(testbed.client, QUEUE, watermarks.epoch, first, following))
    return testbed.spark.createDataFrame(read, columns.default_schema())
