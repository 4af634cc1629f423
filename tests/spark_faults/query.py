# SPDX-License-Identifier: Apache-2.0
"""A driver of Spark's that runs queries from queue to queue, as it is told, until it is killed.

    python -m tests.spark_faults.query MASTER

Each line of its input is JSON: ``{"name": …, "read": options, "write": options}``, and for
a stream ``"checkpoint"``, with ``"trigger"`` if it goes on for ever; or ``{"stop": name}``.
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

#: Where `pyspark_zaqar` is, which Spark looks for.
_ROOT = str(Path(__file__).parents[2])
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "500m",
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": _ROOT,
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
}
#: Seconds between two looks at a query.
_LOOK = 0.1
#: Executors of a cluster that are waited for, and for how many seconds.
_EXECUTORS, _PATIENCE = 2, 60.0

_printing = threading.Lock()


def _say(**event: Any) -> None:
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
    """Tasks of the query that failed."""
    tracker = spark.sparkContext.statusTracker()
    count = 0
    for job in tracker.getJobIdsForGroup(str(query.runId)):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known else ():
            told = tracker.getStageInfo(stage)
            count += told.numFailedTasks if told else 0
    return count


def _follow(spark: SparkSession, name: str, query: StreamingQuery) -> None:
    """Tell of the query's batches, and of its end."""
    told, error, ended = -1, None, False
    while not ended:
        try:
            # PySpark's types say whole seconds; it takes fractions of them.
            ended = bool(query.awaitTermination(_LOOK))  # type: ignore[arg-type]
        except Exception as problem:
            error, ended = str(problem), True
        for progress in query.recentProgress:
            if progress["batchId"] > told and progress["numInputRows"]:
                told = progress["batchId"]
                _say(name=name, batch=told, rows=progress["numInputRows"])
    _say(name=name, error=error, failures=_failures(spark, query))


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
        _say(name=order["name"], error=str(problem), failures=0)
        return None
    follow = threading.Thread(target=_follow, args=(spark, order["name"], query), daemon=True)
    follow.start()
    return query


def _executors(spark: SparkSession) -> dict[str, int]:
    """Tasks that each executor has run."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = store.executorList(False)
    summaries = [found.apply(place) for place in range(found.size())]
    return {each.id(): each.completedTasks() for each in summaries if each.id() != "driver"}


def _write(spark: SparkSession, order: dict[str, Any]) -> None:
    """A read and a write without a stream, in a cluster."""
    end = time.monotonic() + _PATIENCE
    while len(_executors(spark)) < _EXECUTORS and time.monotonic() < end:
        time.sleep(_LOOK)
    error = None
    try:
        frame = spark.read.format("zaqar").options(**order["read"]).load().select("body")
        frame.write.format("zaqar").mode("append").options(**order["write"]).save()
    except Exception as problem:
        error = str(problem)
    _say(name=order["name"], error=error, failures=0, executors=_executors(spark))


def main(master: str) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = _session(master)
    running: dict[str, StreamingQuery | None] = {}
    _say(name="", ready=True)
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
