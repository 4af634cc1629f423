# SPDX-License-Identifier: Apache-2.0
"""The Spark session of a job, and how Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

import py4j
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from zaqar_redis.spark.source import ZaqarDataSource

#: Where jobs run when nothing says so.
_MASTER = "local[*]"
#: Seconds that Ctrl-C waits for Java, which may be busy, or stand still.
_STOPPING = 5.0

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
    A local one of its own has the *priority*, LOW or NORMAL, and this process with it;
    Ctrl-C stops what it does, and is a KeyboardInterrupt here.
    """
    # Workers must be of the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        running.dataSource.register(ZaqarDataSource)
        yield running
        return
    with _Interrupt() as interrupt, _py4j_quiet():
        spark = _built(name, master, settings, priority)
        try:
            interrupt.began(spark)
            # By itself Spark finds it only where this package is installed.
            spark.dataSource.register(ZaqarDataSource)
            yield spark
        finally:
            spark.stop()


class _Interrupt:
    """Ctrl-C while there is a session: it stops Spark's tasks, without a word of Java's on each.

    PySpark's own handler does so over the connection of the main thread, in the middle of
    the call that it interrupts there: that fails, and tasks go on.
    """

    def __init__(self) -> None:
        # Signals belong to whoever has the main thread.
        self._ours = threading.current_thread() is threading.main_thread()
        self._spark: SparkSession | None = None
        self._asked = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._listen()
        return self

    def __exit__(self, *error: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._before)

    def began(self, spark: SparkSession) -> None:
        """There is a session.  Raises KeyboardInterrupt when it is not wanted any more."""
        self._spark = spark
        self._listen()  # PySpark has put its own there
        if self._asked:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one does not wait
        if SparkContext._gateway is None:
            self._asked = True  # a Java that is left while it starts ends with a trace
            return
        if self._spark is not None:
            stopping = threading.Thread(target=_stop_tasks, args=(self._spark,), daemon=True)
            stopping.start()
            stopping.join(_STOPPING)
        raise KeyboardInterrupt


def _stop_tasks(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError):  # Java may be gone
        # Java's log and, through Java, what Python workers print: from here on they only tell
        # of connections that were taken from them.
        cast(Any, spark._jvm).System.err.close()
        spark.sparkContext.cancelAllJobs()


@contextlib.contextmanager
def _py4j_quiet() -> Iterator[None]:
    """py4j logs the traces of errors that it raises as well, some of them at the root logger."""
    root, own = logging.getLogger(), logging.getLogger("py4j")
    folder, level = os.path.dirname(py4j.__file__), own.level

    def is_of_others(record: logging.LogRecord) -> bool:
        return not record.pathname.startswith(folder)

    root.addFilter(is_of_others)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)
        own.setLevel(level)


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
