# SPDX-License-Identifier: Apache-2.0
"""The progress bar of a job: messages that its tasks have done, on stderr."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tqdm import tqdm

from zaqar_redis.spark import task_progress

#: Seconds after which the time is refreshed, if no datagram comes.
_REFRESH_SECONDS = 0.5
#: Format of the bar where only Spark's own code reads, which reports no counts.
_TIME_ONLY = "{desc}: {elapsed}"


@contextlib.contextmanager
def progress_bar(
    spark: SparkSession,
    doing: str,
    quiet: bool = False,
    *,
    total: int | None = None,
    counted: bool = True,
) -> Iterator[None]:
    """Shows how many messages are done, of a *total* where it is known, while the block runs.

    Without *counted*, shows the elapsed time only.
    """
    if quiet:
        yield
        return
    shown = None if counted else _TIME_ONLY
    with (
        tqdm(unit=" messages", desc=doing, total=total, bar_format=shown) as bar,
        _listening(spark) as listener,
    ):
        watcher = threading.Thread(target=_watch, args=(listener, bar), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            listener.end()
            watcher.join()


class _ProgressListener:
    """Receives the progress of tasks, as UDP datagrams."""

    def __init__(self, host: str, bind: str) -> None:
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.settimeout(_REFRESH_SECONDS)
        self._socket.bind((bind, 0))
        self._token = secrets.token_bytes(16)
        self._ended = False
        self.address = f"{host} {self._socket.getsockname()[1]} {self._token.hex()}"

    def receive(self) -> int | None:
        """Returns how many more messages are done; None: ended, and all were received."""
        if self._ended:
            self._socket.setblocking(False)
        try:
            # A longer datagram is cut off one byte too long, and so is ignored.
            return task_progress.read(
                self._socket.recv(task_progress.DATAGRAM_SIZE + 1), self._token
            )
        except TimeoutError:
            return 0
        except BlockingIOError:
            return None

    def end(self) -> None:
        """Ends the listener once it has received what was sent."""
        self._ended = True
        self._socket.sendto(b"", self._socket.getsockname())  # wakes the receiver

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def _listening(spark: SparkSession) -> Iterator[_ProgressListener]:
    """Yields a listener for the tasks of this thread's jobs."""
    context = spark.sparkContext
    host = str(context.getConf().get("spark.driver.host"))
    listener = _ProgressListener(host, context.getConf().get("spark.driver.bindAddress") or host)
    context.setLocalProperty(task_progress.PROGRESS_PROPERTY, listener.address)
    try:
        yield listener
    finally:
        with contextlib.suppress(Py4JError):  # Java may be gone
            context.setLocalProperty(task_progress.PROGRESS_PROPERTY, None)  # type: ignore[arg-type]  # removes it
        listener.close()


def _watch(listener: _ProgressListener, bar: tqdm[None]) -> None:
    while (messages := listener.receive()) is not None:
        bar.n += messages
        bar.refresh()
