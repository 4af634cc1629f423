# SPDX-License-Identifier: Apache-2.0
"""Where Spark is measured: a Redis with messages, and a session of two cores."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests import servers
from tests.benchmarks import house
from tests.benchmarks.rounds import tell
from zaqar_redis import clock
from zaqar_redis.bench.service import Failed
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Draft, Top
from zaqar_redis.spark.jobs import session
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage.drivers.redis.ledger import Ledger
from zaqar_redis.storage.drivers.redis.ranges import Ranges

PROJECT = "bench"
#: The queue of as many messages as were asked for.
QUEUE = "orders"
#: 200 bytes of JSON.
BODY = b'{"n": "%s"}' % (b"x" * 191)
CLIENT = bytes(16)
#: Seconds that messages live: longer than any run.
TTL = 86_400
#: Messages in one call, as the sink has them.
PUT = 1000
#: Tasks of a read, as there are cores.
TASKS = 2
MASTER = f"local[{TASKS}]"
#: Seconds that Redis may take to free the memory of a queue.
_FREEING = 120.0


def read_options(uri: str, queue: str) -> dict[str, str]:
    return {"uri": uri, "project": PROJECT, "subscribe": queue, "minPartitions": str(TASKS)}


def spark_settings(folder: str) -> dict[str, str]:
    """All files are in the folder, which goes with the run however that ends."""
    return {
        "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.showConsoleProgress": "false",
    }


def drain(frame: DataFrame) -> None:
    """Compute all of it, for nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _end(session: contextlib.AbstractContextManager[SparkSession]) -> None:
    with contextlib.suppress(ConnectionError):  # who ended this process ended Java as well
        session.__exit__(None, None, None)


class Site:
    """Started when it is made, or when it is first asked for; it ends with the stack."""

    def __init__(self, stack: contextlib.ExitStack, messages: int) -> None:
        self._stack = stack
        self.messages = messages
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-spark-")))
        self.store: servers.RedisServer = house.redis_server(stack)
        self.redis = stack.enter_context(self.store.client())
        uri = self.store.uri
        self.where = Where(uri=uri, control_uri=uri, project=PROJECT, timeout=30.0)
        self.client: BlockingClient = stack.enter_context(Stores(self.where)).client(uri)

    @functools.cached_property
    def spark(self) -> SparkSession:
        settings = spark_settings(str(self.folder)) | {
            # A million rows that come as a list are in Java's memory more than once.
            "spark.driver.memory": "4g",
            # As many as a query has batches while its latency is measured.
            "spark.sql.streaming.numRecentProgressUpdates": "2000",
        }
        made = session.session("benchmark", MASTER, settings, session.NORMAL)
        self._stack.callback(_end, made)
        return made.__enter__()

    def frame(self, queue: str = QUEUE) -> DataFrame:
        """All default columns of all messages."""
        options = read_options(self.store.uri, queue)
        return self.spark.read.format("zaqar").options(**options).load()

    def post(self, queue: str, count: int = 1) -> None:
        """Append so many messages, in one call."""
        message = (-1, -1, envelope.tail(Draft(body=BODY), CLIENT))
        Ledger(self.client, clock.store).append(
            PROJECT, queue, [message] * count, size=len(BODY), default_ttl=TTL, sealed=False
        ).run()

    def fill(self, queue: str, count: int) -> Top:
        """A queue with so many messages, of ranks 1 to *count*; it may be there already."""
        there = self.count(queue)
        if there != count:
            tell(f"posting {count} messages")
        for at in range(there, count, PUT):
            self.post(queue, min(PUT, count - at))
        top = Ranges(self.client, clock.store).top(PROJECT, queue).run()
        if top is None or (top.first, top.following) != (1, count + 1):
            raise Failed(f"{queue}: there are {top} instead of {count} messages")
        return top

    def count(self, queue: str) -> int:
        return int(self.redis.zcard(keys.of_queue(PROJECT, queue).messages))

    def remove(self, queue: str) -> None:
        """The queue with all of its keys; its memory is free when this returns."""
        known = keys.of_queue(PROJECT, queue)
        self.redis.unlink(*[getattr(known, name) for name in known.__slots__])
        end = time.monotonic() + _FREEING
        # Redis frees it beside what it does next, on a core that is to be measured.
        while self.redis.info("memory")["lazyfree_pending_objects"]:
            if time.monotonic() > end:
                raise Failed(f"Redis has not freed {queue} within {_FREEING:.0f} s")
            time.sleep(0.05)
