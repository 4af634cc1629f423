# SPDX-License-Identifier: Apache-2.0
"""How commands and jobs run coroutines, and how Ctrl-C ends them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Runner:
    """An asyncio.Runner whose Ctrl-C ends what is run, and nothing else.

    asyncio's own raises KeyboardInterrupt also inside whatever other task is at work
    just then, e.g. one that an orderly end needs.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its answer.  Raises KeyboardInterrupt once it has ended, in whatever way.

        Who handled the signal before does so first: there may be more to stop.
        """
        loop = self._runner.get_loop()
        task = loop.create_task(coroutine)
        interrupted = False
        before = signal.getsignal(signal.SIGINT)

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            interrupted = True
            loop.call_soon_threadsafe(task.cancel)
            if callable(before):
                with contextlib.suppress(KeyboardInterrupt):
                    before(number, frame)

        # Signals belong to the main thread; one that is ignored stays so.
        ours = threading.current_thread() is threading.main_thread() and callable(before)
        if ours:
            signal.signal(signal.SIGINT, interrupt)
        try:
            answer = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            if ours:
                signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
        return answer
