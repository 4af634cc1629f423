# SPDX-License-Identifier: Apache-2.0
"""How commands and jobs run coroutines, and how Ctrl-C ends them."""

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

    def run(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Returns what the coroutine of *function* does.

        Raises KeyboardInterrupt, if that was asked for, once the coroutine has ended, in
        whatever way.  The function is called here, and not by the caller, so that no Ctrl-C
        comes between: a coroutine that nobody awaits is complained about.  Whoever handled
        the signal before does so first: there may be more to stop.
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

        # Signals belong to the main thread; one that is ignored stays so.
        ours = threading.current_thread() is threading.main_thread() and callable(before)
        if ours:
            signal.signal(signal.SIGINT, interrupt)
        try:
            task = loop.create_task(function(*args, **kwargs))
            if interrupted:
                task.cancel()
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
