# SPDX-License-Identifier: Apache-2.0
"""Threads of the parent process, beside the main one, which starts workers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def start(run: Callable[[], None], name: str) -> threading.Thread:
    """Starts a thread that ends with the process at the latest."""
    # It and its threads inherit this mask: a signal is for the main thread, and has to wake it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
