# SPDX-License-Identifier: Apache-2.0
"""Runs coroutines of commands and jobs, which Ctrl-C ends, and ends tasks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks, and returns when they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Runner:
    """An asyncio.Runner in which Ctrl-C cancels the coroutine that is run, and nothing else.

    asyncio's own also raises KeyboardInterrupt inside any other task that is running at
    that moment, e.g. one that an orderly end needs.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Returns the result of the coroutine that *function* returns.

        After Ctrl-C raises KeyboardInterrupt, once the coroutine has ended.  The function is
        called here, and not by the caller, so that no Ctrl-C comes between the two: Python
        warns of coroutines that nobody awaits.  The signal's earlier handler is called too:
        there may be more to stop.
        """
        loop = self._runner.get_loop()
        task: asyncio.Task[T] | None = None
        interrupted = False
        before = signal.getsignal(signal.SIGINT)

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            interrupted = True
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)
            if callable(before):
                with contextlib.suppress(KeyboardInterrupt):
                    before(number, frame)

        # Only the main thread may handle signals; an ignored signal stays ignored.
        handles_signal = threading.current_thread() is threading.main_thread() and callable(before)
        if handles_signal:
            signal.signal(signal.SIGINT, interrupt)
        try:
            task = loop.create_task(function(*args, **kwargs))
            if interrupted:
                task.cancel()
            result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            if handles_signal:
                signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
        return result
