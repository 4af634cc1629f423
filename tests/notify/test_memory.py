# SPDX-License-Identifier: Apache-2.0
"""The memory of a notifier: bounded in bytes, and shared, so that slow subscribers stop nobody."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.notify.endpoints import ReceivedRequest, Writer, answer, endpoint
from tests.notify.local_notifier import local_notifier, post, subscribe

SIZE, MESSAGES, SLOW = 64 * 1024, 120, 6
BUDGET = 2 * 1024 * 1024
#: What one step may read at once, beyond what there was room for.
STEP = 1024 * 1024 + SIZE


async def test_slow_subscribers_of_large_messages_take_bounded_memory_and_delay_no_other(
    uri: str, project: str
) -> None:
    may_answer, changed = asyncio.Event(), asyncio.Event()
    got: Counter[str] = Counter()
    used: list[int] = []
    ok = answer(204)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        used.append(notifier.memory.used)
        path = request.line.split()[1]
        if path != "/fast":
            await may_answer.wait()
        got[path] += request.body.count(b'"body"')
        changed.set()
        await ok(request, writer)

    async def wait_for(fast: int, slow: int) -> None:
        while got["/fast"] < fast or sum(got.values()) - got["/fast"] < slow:
            await changed.wait()
            changed.clear()

    async with endpoint(receive) as found, local_notifier(uri, BUDGET) as (driver, notifier):
        for path in ("/fast", *(f"/slow{number}" for number in range(SLOW))):
            await subscribe(driver, project, found.uri(path), timeout=60, batch=4)
        for _ in range(MESSAGES // 4):
            await post(driver, project, *[b'"' + b"x" * SIZE + b'"'] * 4)
        async with asyncio.timeout(60):
            await wait_for(MESSAGES, 0)
            assert [*got] == ["/fast"]
            may_answer.set()
            await wait_for(MESSAGES, SLOW * MESSAGES)
        assert max(used) <= BUDGET + STEP
    assert notifier.memory.used == 0
