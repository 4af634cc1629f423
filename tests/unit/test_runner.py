# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a coroutine in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from zaqar_redis.runner import Runner


def _as_in_a_session(number: int, frame: object) -> None:
    """asyncio's own runner leaves it in place: it raises in whatever is at work."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, _as_in_a_session])
def test_a_coroutine_that_is_interrupted_ends_in_order_and_other_tasks_with_it(
    handler: Callable[[int, object], None],
) -> None:
    said: list[str] = []

    async def other() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
        said.append("other")

    async def work() -> None:
        needed = asyncio.create_task(other())
        try:
            await asyncio.Event().wait()
        finally:
            await needed
            said.append("tidied up")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(work)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert said == ["other", "tidied up"]


def test_who_handled_the_signal_before_is_asked_too() -> None:
    asked: list[int] = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        with Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked == [signal.SIGINT]


def test_a_coroutine_interrupted_before_it_starts_never_does() -> None:
    started: list[str] = []

    async def work() -> None:
        started.append("work")

    def interrupted() -> Coroutine[Any, Any, None]:
        signal.raise_signal(signal.SIGINT)
        return work()

    with Runner() as runner, pytest.raises(KeyboardInterrupt):
        runner.run(interrupted)
    assert started == []
