# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a coroutine in an orderly way."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from zaqar_redis.runner import Runner, cancel


def _as_in_a_session(number: int, frame: object) -> None:
    """A custom handler that asyncio's own runner leaves in place; raises at any point."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, _as_in_a_session])
def test_interrupted_coroutine_runs_its_cleanup_before_other_tasks_end(
    handler: Callable[[int, object], None],
) -> None:
    done: list[str] = []

    async def other() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
        done.append("other")

    async def work() -> None:
        needed = asyncio.create_task(other())
        try:
            await asyncio.Event().wait()
        finally:
            await needed
            done.append("cleaned up")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(work)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["other", "cleaned up"]


def test_previous_signal_handler_is_called_too() -> None:
    handled: list[int] = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    before = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    try:
        with Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert handled == [signal.SIGINT]


def test_coroutine_interrupted_before_it_starts_never_starts() -> None:
    started: list[str] = []

    async def work() -> None:
        started.append("work")

    def interrupted() -> Coroutine[Any, Any, None]:
        signal.raise_signal(signal.SIGINT)
        return work()

    with Runner() as runner, pytest.raises(KeyboardInterrupt):
        runner.run(interrupted)
    assert started == []


async def test_cancelled_tasks_have_ended_when_cancel_returns() -> None:
    ended: list[str] = []

    async def work(name: str, *, fails: bool) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)
            if fails:
                raise ValueError(name)

    tasks = {asyncio.create_task(work(name, fails=name == "b")) for name in "ab"}
    await asyncio.sleep(0)
    await cancel(*tasks)
    assert sorted(ended) == ["a", "b"]
    assert all(task.done() for task in tasks)
