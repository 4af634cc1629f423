# SPDX-License-Identifier: Apache-2.0
"""WebSockets begin one after the other, and others have the event loop in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from zaqar_redis.api.server.handshakes import Handshakes


def _begun_in(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float], some: int) -> list[int]:
    """Returns in which iteration of the loop each of some handshakes began, from 1."""
    begun: list[int] = []

    async def scenario() -> None:
        handshakes, iteration = Handshakes(), 0
        for _ in range(some):
            handshakes.add(lambda: begun.append(iteration))
        while len(begun) < some:
            iteration += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(time, "thread_time", clock)
    asyncio.run(scenario())
    return begun


def test_others_have_eight_iterations_after_each_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _begun_in(monkeypatch, lambda: 0.0, 4) == [9, 17, 25, 33]


def test_handshake_does_not_wait_for_iterations_that_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.0021
        return now

    assert _begun_in(monkeypatch, clock, 4) == [2, 3, 4, 5]


def test_few_handshakes_begin_in_one_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    assert _begun_in(monkeypatch, clock, 20) == [2] * 8 + [3] * 8 + [4] * 4


async def test_handshake_that_fails_does_not_hold_up_those_behind_it() -> None:
    begun: list[str] = []

    def fail() -> None:
        raise OSError("the connection is gone")

    asyncio.get_running_loop().set_exception_handler(lambda *_: begun.append("failed"))
    handshakes = Handshakes()
    for begin in (fail, lambda: begun.append("second")):
        ended = asyncio.Event()
        handshakes.add(begin)
        handshakes.add(ended.set)
        await asyncio.wait_for(ended.wait(), 30)
    assert begun == ["failed", "second"]
