# SPDX-License-Identifier: Apache-2.0
"""Publications of two nodes on one channel reach every node in the order of their offsets."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest

from tests.realtime.conftest import RecordingEventHandler, engine
from tests.realtime.crowd import until
from tests.support import fixtures, servers
from tests.support.buses import open_bus
from zaqar_redis import clock
from zaqar_redis.realtime.engine import HistoryOptions, Position
from zaqar_redis.realtime.engines import ordering
from zaqar_redis.realtime.engines.ordering import PublicationOrder

KEEP = HistoryOptions(size=10_000, ttl=60, meta_ttl=600)


redis = fixtures.redis()


async def test_publications_of_two_nodes_arrive_in_the_order_of_the_history(
    redis: servers.RedisServer, uris: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However late one comes on a busy machine, it is not taken for lost.
    monkeypatch.setattr(ordering, "_HOLD_SECONDS", 60.0)
    async with contextlib.AsyncExitStack() as stack:
        handlers = [RecordingEventHandler() for _ in range(2)]
        nodes = []
        for number, handler in enumerate(handlers):
            bus = open_bus(uris)
            node = engine([redis.uri], clock.store, bus)
            await node.start(f"node-{number}", handler)
            stack.push_async_callback(node.close)
            nodes.append(node)
        channel = f"p/{len(uris)}-{uris[0]}"
        for node in nodes:
            await node.events.subscribe(channel)
        # What a node receives first may be sorted for a moment only.
        await nodes[0].history.publish(channel, b"first", KEEP)
        for handler in handlers:
            await until(partial(has_all, handler, 1), "the first publication")
            handler.events.clear()
        total = 600
        for first in range(0, total, 20):
            await asyncio.gather(
                *(
                    nodes[number % 2].history.publish(channel, b"%d" % number, KEEP)
                    for number in range(first, first + 20)
                )
            )
        for handler in handlers:
            await until(partial(has_all, handler, total), "all publications")
            offsets = [position.offset for _, _, _, position in handler.events]
            assert offsets == list(range(2, total + 2))


def has_all(handler: RecordingEventHandler, total: int) -> bool:
    return len(handler.events) >= total


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time only a test advances."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Recorded:
    def __init__(self) -> None:
        self.passed: list[int] = []
        self.missed = 0
        self.order = PublicationOrder(self._deliver, self._miss)

    def _deliver(self, channel: str, payload: bytes, position: Position) -> None:
        assert payload == b"%d" % position.offset
        self.passed.append(position.offset)

    def _miss(self) -> None:
        self.missed += 1

    def add(self, *offsets: int, epoch: str = "e") -> None:
        for offset in offsets:
            self.order.add("p/a", b"%d" % offset, Position(offset, epoch))


async def begun(offset: int) -> Recorded:
    """Returns an order that has passed on one publication."""
    found = Recorded()
    found.add(offset)
    await asyncio.sleep(0.1)
    assert found.passed == [offset]
    return found


async def test_first_publications_are_sorted_before_they_are_passed_on() -> None:
    found = Recorded()
    found.add(6, 5, 7)
    assert found.passed == []
    await asyncio.sleep(0.1)
    assert found.passed == [5, 6, 7]
    found.add(8)
    assert found.passed == [5, 6, 7, 8]


async def test_later_publication_waits_for_the_earlier_one() -> None:
    found = await begun(5)
    found.add(8, 7)
    assert found.passed == [5]
    found.add(6)
    assert found.passed == [5, 6, 7, 8]
    found.add(9)
    assert found.passed[-1] == 9


async def test_lost_publication_holds_up_others_for_a_moment_only_and_is_dropped_when_late() -> (
    None
):
    found = await begun(1)
    found.add(3, 4)
    assert found.passed == [1]
    await asyncio.sleep(0.5)
    assert found.passed == [1, 3, 4]
    found.add(2)
    assert (found.passed, found.missed) == ([1, 3, 4], 1)
    found.add(5)
    assert found.passed[-1] == 5


def test_publications_that_are_late_by_turns_are_all_passed_on() -> None:
    loop = ManualLoop()

    async def passes(seconds: float) -> None:
        loop.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)

    async def scenario() -> None:
        found = Recorded()
        found.add(1)
        await passes(0.1)
        assert found.passed == [1]
        found.add(3)
        for late in range(2, 42, 2):  # for longer than one of them may be late
            found.add(late + 3)
            await passes(0.03)
            found.add(late)
        assert (found.passed, found.missed) == ([*range(1, 42)], 0)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())


async def test_no_more_publications_are_held_than_may_wait() -> None:
    found = await begun(1)
    found.add(*range(3, 1003))
    assert found.passed == [1]
    found.add(1003)
    assert found.passed == [1, *range(3, 1004)]


async def test_another_epoch_begins_at_once_and_its_predecessor_comes_too_late() -> None:
    found = await begun(1)
    found.add(3)
    found.add(1, epoch="f")
    assert found.passed == [1, 3, 1]
    found.add(4)
    assert (found.passed, found.missed) == ([1, 3, 1], 1)
    found.add(2, epoch="f")
    assert found.passed == [1, 3, 1, 2]


def test_publications_without_a_position_are_not_held() -> None:
    found = Recorded()
    found.add(0, 0)
    assert found.passed == [0, 0]


async def test_forgotten_channel_begins_anew() -> None:
    found = await begun(7)
    found.add(9)
    found.order.forget("p/a")
    await asyncio.sleep(0.5)
    assert found.passed == [7]
    found.add(3)
    await asyncio.sleep(0.1)
    assert found.passed == [7, 3]
