# SPDX-License-Identifier: Apache-2.0
"""The testbed of Spark benchmarks: a Redis with messages, and a session of two cores."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis import clock
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.records import NewMessage
from zaqar_redis.spark.jobs import session
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges

PROJECT = "bench"
#: The queue with the number of messages of the option --messages.
QUEUE = "orders"
#: 200 bytes of JSON.
BODY = b'{"n": "%s"}' % (b"x" * 191)
CLIENT = bytes(16)
#: TTL of messages in seconds: longer than any run.
TTL = 86_400
#: Messages in one call, as in the sink.
PUT = 1000
#: Tasks of a read: one for each core.
TASKS = 2
#: Timeout for Redis to free the memory of a queue.
_FREEING = 120.0


def drain(frame: DataFrame) -> None:
    """Computes the whole frame, and discards it."""
    frame.write.format("noop").mode("overwrite").save()


def _end(session: contextlib.AbstractContextManager[SparkSession]) -> None:
    with contextlib.suppress(ConnectionError):  # a signal to the process group has ended Java
        session.__exit__(None, None, None)


class SparkTestbed:
    """A Redis, and a Spark session that starts when it is first used; both end with *stack*."""

    def __init__(self, stack: contextlib.ExitStack, messages: int) -> None:
        self._stack = stack
        self.messages = messages
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-spark-")))
        self.store: servers.RedisServer = stack.enter_context(servers.redis_server())
        self.redis = stack.enter_context(self.store.client())
        uri = self.store.uri
        config = StoreConfig(uri=uri, control_uri=uri, project=PROJECT, timeout=30.0)
        self.client: BlockingClient = stack.enter_context(StoreConnections(config)).client(uri)

    @functools.cached_property
    def spark(self) -> SparkSession:
        settings = {
            # All files are in the folder, which is removed after the run.
            "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={self.folder}",
            "spark.local.dir": str(self.folder),
            "spark.sql.warehouse.dir": f"{self.folder}/warehouse",
            "spark.ui.showConsoleProgress": "false",
            # At least the number of batches while latency is measured.
            "spark.sql.streaming.numRecentProgressUpdates": "2000",
        }
        master = f"local[{TASKS}]"
        session_context = session.session("benchmark", master, settings, session.NORMAL)
        self._stack.callback(_end, session_context)
        return session_context.__enter__()

    def frame(self) -> DataFrame:
        """Returns a frame with all default columns of all messages."""
        options = {"uri": self.store.uri, "project": PROJECT, "subscribe": QUEUE}
        reader = self.spark.read.format("zaqar").options(**options)
        return reader.option("minPartitions", str(TASKS)).load()

    def post(self, queue: str, count: int = 1) -> None:
        """Appends *count* messages, in one call."""
        message = (-1, -1, envelope.tail(NewMessage(body=BODY), CLIENT))
        RedisLedger(self.client, clock.store).append(
            PROJECT, queue, [message] * count, size=len(BODY), default_ttl=TTL, encrypted=False
        ).run()

    def fill(self) -> None:
        """Fills the queue, from rank 1 on; it may exist already.

        Raises BenchmarkFailed when its watermarks are not as expected.
        """
        existing, count = self.count(QUEUE), self.messages
        if existing != count:
            print_progress(f"posting {count} messages")
        for at in range(existing, count, PUT):
            self.post(QUEUE, min(PUT, count - at))
        watermarks = RedisRanges(self.client, clock.store).watermarks(PROJECT, QUEUE).run()
        if watermarks is None or (watermarks.first, watermarks.next_rank) != (1, count + 1):
            raise BenchmarkFailed(f"{QUEUE} has {watermarks} instead of {count} messages")

    def count(self, queue: str) -> int:
        return int(self.redis.zcard(keys.of_queue(PROJECT, queue).messages))

    def remove(self, queue: str) -> None:
        """Removes the queue with all its keys; its memory is freed when this returns."""
        queue_keys = keys.of_queue(PROJECT, queue)
        self.redis.unlink(*[getattr(queue_keys, name) for name in queue_keys.__slots__])
        end = time.monotonic() + _FREEING
        # Redis frees it in the background, on a core that is measured next.
        while self.redis.info("memory")["lazyfree_pending_objects"]:
            if time.monotonic() > end:
                raise BenchmarkFailed(f"Redis has not freed {queue} within {_FREEING:.0f} s")
            time.sleep(0.05)
