# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a coroutine in order."""

from __future__ import annotations

import asyncio
import signal

import pytest

from zaqar_redis.runner import Runner


def test_a_coroutine_that_is_interrupted_ends_in_order_and_other_tasks_with_it() -> None:
    said: list[str] = []

    async def other() -> str:
        await asyncio.sleep(0)
        return "tidied up"

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            said.append(await asyncio.create_task(other()))

    with Runner() as runner, pytest.raises(KeyboardInterrupt):
        runner.run(work())
    assert said == ["tidied up"]


def test_who_handled_the_signal_before_is_asked_too_and_handles_it_again() -> None:
    asked: list[int] = []

    def stop(number: int, frame: object) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    before = signal.signal(signal.SIGINT, stop)
    try:
        with Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(work())
        assert asked == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is stop
    finally:
        signal.signal(signal.SIGINT, before)
