# SPDX-License-Identifier: Apache-2.0
"""Reading all messages of a queue: the data source compared with the replies of Redis alone."""

from __future__ import annotations

import socket
from pathlib import Path

import hiredis

from benchmarks.spark.passes import PassContender, take_turns, timed
from benchmarks.spark.testbed import PROJECT, QUEUE, SparkTestbed, drain
from benchmarks.support.figures import Figures
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import keys

#: Messages of a page: the default of the data source.
_PAGE = 2000
#: Bytes received at once: half a page.
_RECEIVE = 256 * 1024


def measure(testbed: SparkTestbed, figures: Figures, rounds: int) -> None:
    testbed.fill()
    frame = testbed.frame()
    if (number := frame.count()) != testbed.messages:
        raise BenchmarkFailed(f"{number} of {testbed.messages} messages were read")
    path, messages = testbed.store.socket, testbed.messages
    contenders = (
        PassContender("data source, 2 tasks", lambda: timed(lambda: drain(frame))),
        PassContender("raw HMGET", lambda: timed(lambda: _raw(path, messages)), 0.4),
    )
    take_turns(figures, "read", messages, contenders, rounds)


def _raw(path: Path, messages: int) -> None:
    """Reads bodies by their ranks in one process, and discards the replies."""
    bodies, reader = keys.of_queue(PROJECT, QUEUE).bodies, hiredis.Reader()
    with socket.socket(socket.AF_UNIX) as redis:
        redis.connect(str(path))
        for start in range(1, messages + 1, _PAGE):
            ranks = range(start, min(start + _PAGE, messages + 1))
            redis.sendall(hiredis.pack_command(("HMGET", bodies, *ranks)))
            while (answer := reader.gets()) is False:
                reader.feed(redis.recv(_RECEIVE))
            if None in answer:
                raise BenchmarkFailed(f"a message from rank {start} on does not exist")
