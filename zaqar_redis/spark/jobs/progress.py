# SPDX-License-Identifier: Apache-2.0
"""How far a job is: messages that its tasks have done, on stderr."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tqdm import tqdm

from zaqar_redis.spark import counting

#: Seconds after which the time is shown anew, if nothing is said.
_LOOK = 0.5
#: What is shown where only Spark's own code reads, which does not count.
_TIME_ONLY = "{desc}: {elapsed}"


@contextlib.contextmanager
def watched(
    spark: SparkSession,
    doing: str,
    quiet: bool = False,
    *,
    total: int | None = None,
    counted: bool = True,
) -> Iterator[None]:
    """Show how many messages are done, of a *total* where it is known, while the block runs.

    Without *counted*, how long it takes.
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


class _Listener:
    """Where tasks say what they have done."""

    def __init__(self, host: str, bind: str) -> None:
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.settimeout(_LOOK)
        self._socket.bind((bind, 0))
        self._token = secrets.token_bytes(16)
        self._ended = False
        self.address = f"{host} {self._socket.getsockname()[1]} {self._token.hex()}"

    def heard(self) -> int | None:
        """How many more messages are done; None: it has ended, and all was heard."""
        if self._ended:
            self._socket.setblocking(False)
        try:
            # What is longer than one of a task is cut off, and still too long.
            return counting.read(self._socket.recv(counting.SIZE + 1), self._token)
        except TimeoutError:
            return 0
        except BlockingIOError:
            return None

    def end(self) -> None:
        """No more is to come but what was sent."""
        self._ended = True
        self._socket.sendto(b"", self._socket.getsockname())  # so that nobody waits

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def _listening(spark: SparkSession) -> Iterator[_Listener]:
    """For what tasks of this thread's jobs say."""
    context = spark.sparkContext
    host = str(context.getConf().get("spark.driver.host"))
    listener = _Listener(host, context.getConf().get("spark.driver.bindAddress") or host)
    context.setLocalProperty(counting.PROPERTY, listener.address)
    try:
        yield listener
    finally:
        with contextlib.suppress(Py4JError):  # Java may be gone
            context.setLocalProperty(counting.PROPERTY, None)  # type: ignore[arg-type]  # takes it away
        listener.close()


def _watch(listener: _Listener, bar: tqdm[None]) -> None:
    while (messages := listener.heard()) is not None:
        bar.n += messages
        bar.refresh()
