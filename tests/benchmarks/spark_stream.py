# SPDX-License-Identifier: Apache-2.0
"""Streams: how fast they go through what is there, how soon they see what comes, and how
much they ask while nothing does.
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

from tests.benchmarks.found import Found
from tests.benchmarks.rounds import tell
from tests.benchmarks.spark_passes import RATE
from tests.benchmarks.spark_site import PROJECT, QUEUE, Site
from zaqar_redis.bench.service import Failed

#: Messages of a batch, as far as there are enough for five of them.
_BATCH, _BATCHES = 200_000, 5
#: Seconds from one message to the next.
_PAUSE = 0.25
#: Seconds for the first batch of a session, and for a batch that is late.
_PATIENCE = 60.0
#: Seconds after which a stream without news is idle: none of what Spark does behind a
#: batch takes so long.
_QUIET = 2.0
_LIVE = "live"


def measure(site: Site, found: Found, rounds: int) -> None:
    site.fill(QUEUE, site.messages)
    batch = min(_BATCH, site.messages // _BATCHES)
    rates = found.figure("stream", f"batches of {batch} after the first", RATE, ("≥", 120_000))
    for number in range(rounds + 1):
        rate = _pass(site, batch)
        tell(f"stream: round {number} of {rounds}: {rate:.0f} {RATE}")
        if number:  # the first is cold
            rates.append(rate)


def _pass(site: Site, batch: int) -> float:
    frame = _stream(site, QUEUE, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch))
    with _running(site, frame.writeStream.format("noop").trigger(availableNow=True)) as query:
        query.awaitTermination()
        progress = _with_rows(query)
    if (number := sum(each["numInputRows"] for each in progress)) != site.messages:
        raise Failed(f"{number} of {site.messages} messages were streamed")
    rows: int = sum(each["numInputRows"] for each in progress[1:])
    return rows * 1000 / sum(_took(each) for each in progress[1:])


def _stream(site: Site, queue: str, **options: str) -> DataFrame:
    given = {"uri": site.store.uri, "project": PROJECT, "subscribe": queue} | options
    return site.spark.readStream.format("zaqar").options(**given).load()


@contextlib.contextmanager
def _running(site: Site, writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    with tempfile.TemporaryDirectory(dir=site.folder) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def _with_rows(query: StreamingQuery) -> list[dict[str, Any]]:
    """What Spark tells of its batches, but of those without a message."""
    return [each for each in query.recentProgress if each["numInputRows"]]


def _took(progress: dict[str, Any]) -> int:
    return int(progress["durationMs"]["triggerExecution"])


class _Seen:
    """What came out at the end of a stream."""

    def __init__(self) -> None:
        #: ms from when Redis took a message to when it was here
        self.delays: list[float] = []
        self.batch = -1

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.selectExpr("unix_millis(created) AS created").collect()
        now = time.time() * 1000
        self.delays += [now - row.created for row in rows]
        self.batch = batch


def measure_latency(site: Site, found: Found, seconds: int) -> None:
    """A message each 250 ms for so many seconds, then nothing for a third of that."""
    median = found.figure("latency", "posted to seen, p50", "ms")
    late = found.figure("latency", "posted to seen, p95", "ms", ("≤", 1000))
    # It contains the wait for the next message, when there is none yet.
    took = found.figure("latency", "a small trigger, warm", "ms", ("≤", 400))
    idle = found.figure("latency", "Redis calls of an idle stream", "calls/s", ("≤", 5))
    site.remove(_LIVE)
    site.post(_LIVE)
    frame, seen = _stream(site, _LIVE, startingOffsets="latest"), _Seen()
    tell("latency: warming up")
    with _running(site, frame.writeStream.foreachBatch(seen)) as query:
        posted = _post_until_seen(site, query, seen)
        posted += _post(site, query, seconds / 6)
        _wait(query, seen, posted)
        warm, before = len(seen.delays), seen.batch
        tell(f"latency: a message each {1000 * _PAUSE:.0f} ms for {seconds} s")
        posted += _post(site, query, seconds)
        _wait(query, seen, posted)
        delays = seen.delays[warm:]
        median.append(statistics.median(delays))
        late.append(sorted(delays)[len(delays) * 95 // 100])
        time.sleep(_QUIET)  # what Spark tells of the last batch comes behind it
        took += [float(_took(each)) for each in _with_rows(query) if each["batchId"] > before]
        tell(f"latency: nothing for {seconds / 3:.0f} s")
        idle.append(_calls_per_second(site, seconds / 3))
    site.remove(_LIVE)


def _post_until_seen(site: Site, query: StreamingQuery, seen: _Seen) -> int:
    posted, end = 0, time.monotonic() + _PATIENCE
    while not seen.delays:
        if time.monotonic() > end:
            raise Failed(f"no message was seen within {_PATIENCE:.0f} s")
        # A stream that begins with the latest does not see what came before it began.
        if query.recentProgress or seen.batch >= 0:
            posted += _post(site, query, _PAUSE)
        else:
            time.sleep(_PAUSE)
    return posted


def _post(site: Site, query: StreamingQuery, seconds: float) -> int:
    """A message each *_PAUSE*, whatever posting takes; how many."""
    number, start = max(1, round(seconds / _PAUSE)), time.monotonic()
    for place in range(1, number + 1):
        site.post(_LIVE)
        time.sleep(max(0.0, start + place * _PAUSE - time.monotonic()))
        if not query.isActive:
            raise Failed(f"the stream has ended: {query.exception()}")
    return number


def _wait(query: StreamingQuery, seen: _Seen, posted: int) -> None:
    end = time.monotonic() + _PATIENCE
    while len(seen.delays) < posted:
        if time.monotonic() > end or not query.isActive:
            raise Failed(f"{len(seen.delays)} of {posted} messages were seen")
        time.sleep(_PAUSE)
    if len(seen.delays) > posted:
        raise Failed(f"{len(seen.delays)} messages were seen of {posted}")


def _calls_per_second(site: Site, seconds: float) -> float:
    """Of commands in Redis, those within scripts too, but for what asks here."""
    before, start = _calls(site), time.monotonic()
    time.sleep(seconds)
    return (_calls(site) - before) / (time.monotonic() - start)


def _calls(site: Site) -> int:
    stats = site.redis.info("commandstats")
    return sum(told["calls"] for name, told in stats.items() if name != "cmdstat_info")
