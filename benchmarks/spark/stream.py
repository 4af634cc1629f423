# SPDX-License-Identifier: Apache-2.0
"""Streams: how fast they read existing messages, how soon they see new ones, and how many
commands they send while idle.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.spark.passes import RATE
from benchmarks.spark.testbed import PROJECT, QUEUE, SparkTestbed
from benchmarks.support.figures import Figures
from benchmarks.support.rounds import print_progress
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Messages of a micro-batch, or a fifth of all if there are fewer; number of batches.
_BATCH, _BATCHES = 200_000, 5
#: Seconds between two messages.
_PAUSE = 0.25
#: Timeout of the first batch of a session, and of a late batch.
_BATCH_TIMEOUT_SECONDS = 60.0
#: Seconds without messages after which a stream is idle: what Spark does after a batch
#: takes less.
_IDLE_AFTER_SECONDS = 2.0
_LIVE = "live"


def measure(testbed: SparkTestbed, figures: Figures, rounds: int) -> None:
    testbed.fill()
    batch = min(_BATCH, testbed.messages // _BATCHES)
    rates = figures.figure("stream", f"batches of {batch} after the first", RATE, ("≥", 120_000))
    for number in range(rounds + 1):
        rate = _pass(testbed, batch)
        print_progress(f"stream: round {number} of {rounds}: {rate:.0f} {RATE}")
        if number:  # the first is cold
            rates.append(rate)


def _pass(testbed: SparkTestbed, batch: int) -> float:
    frame = _stream(testbed, QUEUE, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch))
    with _running(testbed, frame.writeStream.format("noop").trigger(availableNow=True)) as query:
        query.awaitTermination()
        progress = _with_rows(query)
    if (number := sum(each["numInputRows"] for each in progress)) != testbed.messages:
        raise BenchmarkFailed(f"{number} of {testbed.messages} messages were streamed")
    rows: int = sum(each["numInputRows"] for each in progress[1:])
    return rows * 1000 / sum(_took(each) for each in progress[1:])


def _stream(testbed: SparkTestbed, queue: str, **options: str) -> DataFrame:
    given = {"uri": testbed.store.uri, "project": PROJECT, "subscribe": queue} | options
    return testbed.spark.readStream.format("zaqar").options(**given).load()


@contextlib.contextmanager
def _running(testbed: SparkTestbed, writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    with tempfile.TemporaryDirectory(dir=testbed.folder) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def _with_rows(query: StreamingQuery) -> list[dict[str, Any]]:
    """Returns Spark's progress reports of batches that have messages."""
    return [each for each in query.recentProgress if each["numInputRows"]]


def _took(progress: dict[str, Any]) -> int:
    return int(progress["durationMs"]["triggerExecution"])


class _LatencyRecorder:
    """A writer of a stream, which records the latency of each message."""

    def __init__(self) -> None:
        #: ms from when Redis stored a message to when it arrived here
        self.delays: list[float] = []
        self.batch = -1

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.selectExpr("unix_millis(created) AS created").collect()
        now = time.time() * 1000
        self.delays += [now - row.created for row in rows]
        self.batch = batch


def measure_latency(testbed: SparkTestbed, figures: Figures, seconds: int) -> None:
    """Measures a message each 250 ms for *seconds*, then an idle stream for a third of that."""
    median = figures.figure("latency", "posted to seen, p50", "ms")
    late = figures.figure("latency", "posted to seen, p95", "ms", ("≤", 1000))
    # It includes the wait for the next message, when there is none yet.
    took = figures.figure("latency", "a small trigger, warm", "ms", ("≤", 400))
    idle = figures.figure("latency", "Redis calls of an idle stream", "calls/s", ("≤", 5))
    testbed.remove(_LIVE)
    testbed.post(_LIVE)
    frame, recorder = _stream(testbed, _LIVE, startingOffsets="latest"), _LatencyRecorder()
    print_progress("latency: warming up")
    with _running(testbed, frame.writeStream.foreachBatch(recorder)) as query:
        posted = _post_until_seen(testbed, query, recorder)
        posted += _post(testbed, query, seconds / 6)
        _wait(query, recorder, posted)
        warm, before = len(recorder.delays), recorder.batch
        print_progress(f"latency: a message each {1000 * _PAUSE:.0f} ms for {seconds} s")
        posted += _post(testbed, query, seconds)
        _wait(query, recorder, posted)
        delays = recorder.delays[warm:]
        median.append(statistics.median(delays))
        late.append(sorted(delays)[len(delays) * 95 // 100])
        time.sleep(_IDLE_AFTER_SECONDS)  # Spark's report of the last batch comes after it
        took += [float(_took(each)) for each in _with_rows(query) if each["batchId"] > before]
        print_progress(f"latency: nothing for {seconds / 3:.0f} s")
        idle.append(_calls_per_second(testbed, seconds / 3))
    testbed.remove(_LIVE)


def _post_until_seen(
    testbed: SparkTestbed, query: StreamingQuery, recorder: _LatencyRecorder
) -> int:
    posted, end = 0, time.monotonic() + _BATCH_TIMEOUT_SECONDS
    while not recorder.delays:
        if time.monotonic() > end:
            raise BenchmarkFailed(f"no message was seen within {_BATCH_TIMEOUT_SECONDS:.0f} s")
        # A stream that starts at the latest offset skips messages from before its start.
        if query.recentProgress or recorder.batch >= 0:
            posted += _post(testbed, query, _PAUSE)
        else:
            time.sleep(_PAUSE)
    return posted


def _post(testbed: SparkTestbed, query: StreamingQuery, seconds: float) -> int:
    """Posts a message each *_PAUSE*, however long a post takes; returns how many."""
    number, start = max(1, round(seconds / _PAUSE)), time.monotonic()
    for posted in range(1, number + 1):
        testbed.post(_LIVE)
        time.sleep(max(0.0, start + posted * _PAUSE - time.monotonic()))
        if not query.isActive:
            raise BenchmarkFailed(f"the stream has ended: {query.exception()}")
    return number


def _wait(query: StreamingQuery, recorder: _LatencyRecorder, posted: int) -> None:
    end = time.monotonic() + _BATCH_TIMEOUT_SECONDS
    while len(recorder.delays) < posted:
        if time.monotonic() > end or not query.isActive:
            raise BenchmarkFailed(f"{len(recorder.delays)} of {posted} messages were seen")
        time.sleep(_PAUSE)
    if len(recorder.delays) > posted:
        raise BenchmarkFailed(f"{len(recorder.delays)} messages were seen of {posted}")


def _calls_per_second(testbed: SparkTestbed, seconds: float) -> float:
    """Returns the rate of Redis commands, those in scripts included, without this INFO."""
    before, start = _calls(testbed), time.monotonic()
    time.sleep(seconds)
    return (_calls(testbed) - before) / (time.monotonic() - start)


def _calls(testbed: SparkTestbed) -> int:
    stats = testbed.redis.info("commandstats")
    return sum(stat["calls"] for name, stat in stats.items() if name != "cmdstat_info")
