# SPDX-License-Identifier: Apache-2.0
"""Reading all messages of a queue: the data source beside other ways to do it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import hiredis
from pyspark.sql import DataFrame

from tests.benchmarks.found import Found
from tests.benchmarks.spark_passes import Contender, take_turns, timed
from tests.benchmarks.spark_site import PROJECT, QUEUE, Site, drain
from tests.benchmarks.spark_tuples import PAGE, TupleSource, rows
from zaqar_redis.bench.service import Failed
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Top
from zaqar_redis.spark import columns

#: Bytes that are asked of the socket at once: half a page.
_RECEIVE = 256 * 1024
#: Rounds of the list: it takes 20 s for a million messages.
_LISTS = 2


def measure(site: Site, found: Found, rounds: int) -> None:
    top = site.fill(QUEUE, site.messages)
    frame, tuples = site.frame(), _tuples(site, top)
    for each in (frame, tuples):
        if (number := each.count()) != site.messages:
            raise Failed(f"{number} of {site.messages} messages were read")
    contenders = (
        Contender("data source, 2 tasks", _passes(lambda: drain(frame))),
        Contender("raw HMGET", _passes(lambda: _raw(site.store.socket, site.messages)), 0.4),
        Contender("row tuples, 2 tasks", _passes(lambda: drain(tuples)), 1.6),
        Contender(
            "list and createDataFrame", _passes(lambda: drain(_listed(site, top))), 8, _LISTS
        ),
    )
    take_turns(found, "read", site.messages, contenders, rounds)


def _passes(action: Callable[[], object]) -> Callable[[], float]:
    return lambda: timed(action)


def _raw(path: Path, messages: int) -> None:
    """One process that knows the ranks, and makes nothing of the answers."""
    bodies, reader = keys.of_queue(PROJECT, QUEUE).bodies, hiredis.Reader()
    with socket.socket(socket.AF_UNIX) as redis:
        redis.connect(str(path))
        for start in range(1, messages + 1, PAGE):
            ranks = range(start, min(start + PAGE, messages + 1))
            redis.sendall(hiredis.pack_command(("HMGET", bodies, *ranks)))
            while (answer := reader.gets()) is False:
                reader.feed(redis.recv(_RECEIVE))
            if None in answer:
                raise Failed(f"a message from rank {start} on is not there")


def _tuples(site: Site, top: Top) -> DataFrame:
    site.spark.dataSource.register(TupleSource)
    options = {"uri": site.store.uri, "queue": QUEUE, "epoch": top.epoch}
    source = site.spark.read.format(TupleSource.name()).options(**options)
    return source.option("following", str(top.following)).load()


def _listed(site: Site, top: Top) -> DataFrame:
    """What everybody can do without a data source, on the driver."""
    read = list(rows(site.client, QUEUE, top.epoch, top.first, top.following))
    return site.spark.createDataFrame(read, columns.default_schema())
