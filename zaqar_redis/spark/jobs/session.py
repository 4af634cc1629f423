# SPDX-License-Identifier: Apache-2.0
"""The Spark session of a job, and how far it is."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from tqdm import tqdm

from zaqar_redis.spark.source import ZaqarDataSource

#: Where jobs run when nothing says so.
_MASTER = "local[*]"
#: Seconds between two looks at how far it is.
_LOOK = 0.5

#: How a job stands to what else runs on this machine.
LOW, NORMAL = "low", "normal"
#: The nice value of who steps back: a tenth of the weight of who does not.
_NICE = 10
_AUTOGROUP = Path("/proc/self/autogroup")

_SETTINGS = {
    # Else the folders of an archive would depend on the machine that writes it.
    "spark.sql.session.timeZone": "UTC",
    # What other programs read; Spark's own default is the old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}


@contextlib.contextmanager
def session(
    name: str, master: str | None, settings: Mapping[str, str], priority: str = LOW
) -> Iterator[SparkSession]:
    """A session that knows the format ``zaqar``; it ends with the block.

    *master* is where to run, else what spark-submit or ``SPARK_MASTER`` says, else all
    cores of this machine.  One that the caller runs already is used, and goes on.
    A local one of its own has the *priority*, LOW or NORMAL, and this process with it.
    """
    # Workers must be of the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    spark = running or _built(name, master, settings, priority)
    # By itself Spark finds it only where this package is installed.
    spark.dataSource.register(ZaqarDataSource)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


def _built(
    name: str, master: str | None, settings: Mapping[str, str], priority: str
) -> SparkSession:
    builder = SparkSession.builder.appName(f"zaqar-redis {name}")
    # Whoever runs this with spark-submit has told it where.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    where = master or (None if submitted else os.environ.get("SPARK_MASTER", _MASTER))
    if where is not None:
        builder = builder.master(where)
    given = dict(_SETTINGS)
    if where is not None and where.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given |= _LOCAL
        if priority == LOW:
            _step_back()  # before there are Java and workers, which inherit it
    for key, value in (given | dict(settings)).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _step_back() -> None:
    """Give way to others on this machine.

    A job is work in the background: a REST service on the same cores comes first.  Beside
    a job that reads at full speed it kept 0.54 of its posts without this, and 0.88 with it.
    """
    # Once is enough: to be nice adds up.
    os.nice(max(0, _NICE - os.getpriority(os.PRIO_PROCESS, 0)))
    # Kernels that group processes by session, as Linux has it on desktops and on many
    # virtual machines, do not compare nice values between sessions, only those of groups.
    # The group of another one's session is not ours to change.
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # there are no groups
            _AUTOGROUP.write_text(str(_NICE))


@contextlib.contextmanager
def watched(spark: SparkSession, doing: str, quiet: bool = False) -> Iterator[None]:
    """Show how many of Spark's tasks are done, on stderr, while the block runs."""
    ended = threading.Event()
    with tqdm(unit=" tasks", desc=doing, disable=quiet) as bar:
        watcher = threading.Thread(target=_watch, args=(spark, bar, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(spark: SparkSession, bar: tqdm[None], ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    done: dict[int, tuple[int, int]] = {}
    while True:
        last = ended.wait(_LOOK)
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done[stage] = (info.numCompletedTasks, info.numTasks)
        bar.total = sum(tasks for _, tasks in done.values())
        bar.n = bar.total if last else sum(completed for completed, _ in done.values())
        bar.refresh()
        if last:
            return
