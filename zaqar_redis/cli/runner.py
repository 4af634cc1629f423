# SPDX-License-Identifier: Apache-2.0
"""How commands run coroutines, and how Ctrl-C ends them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
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
        """Its answer.  Raises KeyboardInterrupt once it has ended, in whatever way."""
        loop = self._runner.get_loop()
        task = loop.create_task(coroutine)
        interrupted = False

        def interrupt(*_: object) -> None:
            nonlocal interrupted
            interrupted = True
            loop.call_soon_threadsafe(task.cancel)

        before = signal.getsignal(signal.SIGINT)
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
        try:
            answer = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
        return answer
