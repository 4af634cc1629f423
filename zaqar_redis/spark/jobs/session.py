# SPDX-License-Identifier: Apache-2.0
"""The Spark session of a job, and how Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlsplit

import py4j
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.source import ZaqarDataSource

#: Spark master of jobs when none is given.
_MASTER = "local[*]"
#: What Spark's own cluster managers accept.
_MASTERS = re.compile(
    r"local(\[([0-9]+|\*)(\s*,\s*[0-9]+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+"
)
#: Scheme of masters of standalone clusters, and the seconds to wait for one.
_STANDALONE = "spark://"
_CONNECT_SECONDS = 10.0
#: Seconds that Ctrl-C waits for Java, which may be busy, or hang.
_CANCEL_TIMEOUT_SECONDS = 5.0

#: Priority of a job beside other processes of this machine.
LOW, NORMAL = "low", "normal"
#: Nice value of a low-priority job: a tenth of the CPU weight of normal processes.
_NICE = 10
_AUTOGROUP = Path("/proc/self/autogroup")

_SETTINGS = {
    # Else the folders of an archive would depend on the machine that writes it.
    "spark.sql.session.timeZone": "UTC",
    # Other programs read this type; Spark's default is the old INT96.
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
    """Yields a session with the format ``zaqar``; stops it at the end of the block.

    *master* is where to run, else what spark-submit or ``SPARK_MASTER`` gives, else all
    cores of this machine.  An active session of the caller is used, and not stopped.
    Raises BadConfiguration when it is no master of Spark's.
    A new local session, and this process, get the *priority*, LOW or NORMAL; Ctrl-C cancels
    its jobs, and raises KeyboardInterrupt here.
    """
    # Workers must run the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        running.dataSource.register(ZaqarDataSource)
        yield running
        return
    with _InterruptHandler() as interrupt, _py4j_quiet():
        spark = _create_session(name, master, settings, priority)
        try:
            interrupt.session_started(spark)
            # Spark finds it by itself only where this package is installed.
            spark.dataSource.register(ZaqarDataSource)
            yield spark
        finally:
            spark.stop()


class _InterruptHandler:
    """Handles Ctrl-C during a session: cancels Spark's tasks, without Java's log on each.

    PySpark's own handler uses the connection of the main thread, in the middle of the call
    that it interrupts there: that fails, and tasks continue.
    """

    def __init__(self) -> None:
        # Only the main thread may set signal handlers.
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._spark: SparkSession | None = None
        self._interrupted = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._listen()
        return self

    def __exit__(self, *error: object) -> None:
        if self._in_main_thread:
            signal.signal(signal.SIGINT, self._before)

    def session_started(self, spark: SparkSession) -> None:
        """Sets the session.  Raises KeyboardInterrupt when Ctrl-C was pressed before."""
        self._spark = spark
        self._listen()  # PySpark has set its own handler
        if self._interrupted:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        if self._in_main_thread:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one does not wait
        if SparkContext._gateway is None:
            self._interrupted = True  # to leave Java while it starts would print a stack trace
            return
        if self._spark is not None:
            stopping = threading.Thread(target=_stop_tasks, args=(self._spark,), daemon=True)
            stopping.start()
            stopping.join(_CANCEL_TIMEOUT_SECONDS)
        raise KeyboardInterrupt


def _stop_tasks(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError):  # Java may be gone
        # Java's log and, through Java, what Python workers print: from here on they only
        # report connections that were closed.
        cast(Any, spark._jvm).System.err.close()
        spark.sparkContext.cancelAllJobs()


@contextlib.contextmanager
def _py4j_quiet() -> Iterator[None]:
    """Silences py4j, which also logs errors that it raises, some at the root logger."""
    root, own = logging.getLogger(), logging.getLogger("py4j")
    folder, level = os.path.dirname(py4j.__file__), own.level

    def is_not_py4j(record: logging.LogRecord) -> bool:
        return not record.pathname.startswith(folder)

    root.addFilter(is_not_py4j)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(is_not_py4j)
        own.setLevel(level)


def _create_session(
    name: str, master: str | None, settings: Mapping[str, str], priority: str
) -> SparkSession:
    builder = SparkSession.builder.appName(f"zaqar-redis {name}")
    # spark-submit has set the master already.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = master or (None if submitted else os.environ.get("SPARK_MASTER", _MASTER))
    if chosen is not None:
        _check_master(chosen)
        builder = builder.master(chosen)
    given = dict(_SETTINGS)
    if chosen is not None and chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given |= _LOCAL
        if priority == LOW:
            _lower_priority()  # before Java and workers start, which inherit it
    for key, value in (given | dict(settings)).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _check_master(master: str) -> None:
    """Raises BadConfiguration where Spark would print a stack trace, after minutes for some."""
    if not _MASTERS.fullmatch(master):
        raise errors.BadConfiguration(
            f'--master, or SPARK_MASTER: "{master}" is no master of Spark; it must be like '
            "local[2], spark://host:7077, yarn or k8s://https://host:443"
        )
    if not master.startswith(_STANDALONE):
        return
    why: Exception | None = None
    for address in master.removeprefix(_STANDALONE).split(","):  # one of them leads
        try:
            parts = urlsplit(f"//{address}")
            socket.create_connection((parts.hostname, parts.port), _CONNECT_SECONDS).close()
        except (OSError, ValueError, TypeError) as error:
            why = error
        else:
            return
    raise errors.BadConfiguration(f"--master, or SPARK_MASTER: {master} cannot be reached: {why}")


def _lower_priority() -> None:
    """Lowers the CPU priority of this process.

    A job is work in the background: a REST service on the same cores comes first.  Beside
    a job that reads at full speed it kept 0.54 of its posts without this, and 0.88 with it.
    """
    # Not twice: nice values add up.
    os.nice(max(0, _NICE - os.getpriority(os.PRIO_PROCESS, 0)))
    # Kernels that group processes by session, as Linux has it on desktops and on many
    # virtual machines, do not compare nice values between sessions, only those of groups.
    # The group of a session that we do not lead is not ours to change.
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # a kernel without groups
            _AUTOGROUP.write_text(str(_NICE))
