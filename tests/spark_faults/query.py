# SPDX-License-Identifier: Apache-2.0
"""A Spark driver that runs queries from queue to queue on command, until it is killed.

    python -m tests.spark_faults.query MASTER

Each line of its input is JSON: ``{"name": …, "read": options, "write": options}``, and for
a stream ``"checkpoint"``, with ``"trigger"`` if it never ends by itself; or ``{"stop": name}``.
It prints JSON lines: ``{"name", "batch", "rows"}`` for each batch, and at the end of a query
``{"name", "error", "failures"}``: the text or null, and how many tasks failed.  The end of
a write that is no stream has ``"executors"``, the number of tasks that each has run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support import spark_classes

#: The folder of `pyspark_zaqar`, which Spark imports.
_ROOT = str(Path(__file__).parents[2])
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "500m",
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": _ROOT,
    "spark.executor.extraJavaOptions": spark_classes.java_options(),
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
}
#: Interval of polling a query.
_POLL_SECONDS = 0.1
#: Executors of a cluster to wait for, and the timeout.
_EXECUTORS, _EXECUTORS_TIMEOUT_SECONDS = 2, 240.0

_printing = threading.Lock()


def _print_event(**event: Any) -> None:
    with _printing:
        print(json.dumps(event), flush=True)


def _session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("faults")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _failures(spark: SparkSession, query: StreamingQuery) -> int:
    """Returns the number of failed tasks of the query."""
    tracker = spark.sparkContext.statusTracker()
    count = 0
    for job in tracker.getJobIdsForGroup(str(query.runId)):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known else ():
            info = tracker.getStageInfo(stage)
            count += info.numFailedTasks if info else 0
    return count


def _follow(spark: SparkSession, name: str, query: StreamingQuery) -> None:
    """Prints the query's batches and its end as events."""
    reported, error, ended = -1, None, False
    while not ended:
        try:
            # PySpark's types say int, but it accepts fractions of seconds.
            ended = bool(query.awaitTermination(_POLL_SECONDS))  # type: ignore[arg-type]
        except Exception as problem:
            error, ended = str(problem), True
        for progress in query.recentProgress:
            if progress["batchId"] > reported and progress["numInputRows"]:
                reported = progress["batchId"]
                _print_event(name=name, batch=reported, rows=progress["numInputRows"])
    _print_event(name=name, error=error, failures=_failures(spark, query))


def _stream(spark: SparkSession, order: dict[str, Any]) -> StreamingQuery:
    frame = spark.readStream.format("zaqar").options(**order["read"]).load()
    writer = frame.select("body").writeStream.format("zaqar").options(**order["write"])
    writer = writer.option("checkpointLocation", order["checkpoint"])
    if "trigger" in order:
        return writer.trigger(processingTime=order["trigger"]).start()
    return writer.trigger(availableNow=True).start()


def _begin(spark: SparkSession, order: dict[str, Any]) -> StreamingQuery | None:
    try:
        query = _stream(spark, order)
    except Exception as problem:
        _print_event(name=order["name"], error=str(problem), failures=0)
        return None
    follow = threading.Thread(target=_follow, args=(spark, order["name"], query), daemon=True)
    follow.start()
    return query


def _executors(spark: SparkSession) -> dict[str, int]:
    """Returns the number of completed tasks by executor."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = store.executorList(False)
    summaries = [found.apply(place) for place in range(found.size())]
    return {each.id(): each.completedTasks() for each in summaries if each.id() != "driver"}


def _write(spark: SparkSession, order: dict[str, Any]) -> None:
    """Runs a batch read and write in a cluster."""
    end = time.monotonic() + _EXECUTORS_TIMEOUT_SECONDS
    while len(_executors(spark)) < _EXECUTORS and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    error = None
    try:
        frame = spark.read.format("zaqar").options(**order["read"]).load().select("body")
        frame.write.format("zaqar").mode("append").options(**order["write"]).save()
    except Exception as problem:
        error = str(problem)
    _print_event(name=order["name"], error=error, failures=0, executors=_executors(spark))


def main(master: str) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = _session(master)
    running: dict[str, StreamingQuery | None] = {}
    _print_event(name="", ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "stop" in order:
            query = running[order["stop"]]
            if query is not None:
                query.stop()
        elif "checkpoint" in order:
            running[order["name"]] = _begin(spark, order)
        else:
            _write(spark, order)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
