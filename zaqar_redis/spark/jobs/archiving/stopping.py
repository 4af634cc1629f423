# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM end a job between two batches."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class StopRequest(threading.Event):
    #: the signal that was received
    by: signal.Signals | None = None


@contextlib.contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Yields a request that the first signal sets; the second one interrupts."""
    stop = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            interrupt = before[signal.SIGINT]
            if callable(interrupt):
                interrupt(signal.SIGINT, frame)
            raise KeyboardInterrupt
        stop.by = signal.Signals(number)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set signal handlers
        return
    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
