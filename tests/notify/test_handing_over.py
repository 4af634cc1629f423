# SPDX-License-Identifier: Apache-2.0
"""Queues that change their notifier, lose their store, or have an endpoint that is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal

import pytest

from tests.notify.endpoints import ReceivedRequest, Writer, answer, endpoint
from tests.notify.local_notifier import (
    local_notifier,
    post,
    set_paused,
    subscribe,
    wait_for,
    wait_for_state,
)
from tests.support import servers
from tests.support.notifiers import notifier
from zaqar_redis.notify import notifier as notifier_module
from zaqar_redis.notify import source as source_module
from zaqar_redis.notify import store_watch
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.notifier import NotifierSettings
from zaqar_redis.storage.deliveries import DeliveryReads, DeliveryStep, SettledDeliveries

#: Nobody waits for the end of the lease.
SETTINGS = NotifierSettings(lease=300)


class _Bodies:
    """What came at /hangs, which is answered when it is released, and at /quick."""

    def __init__(self) -> None:
        self.hangs: list[bytes] = []
        self.quick: list[bytes] = []
        self.released = asyncio.Event()
        self._ok = answer(204)

    async def receive(self, request: ReceivedRequest, writer: Writer) -> None:
        if "/hangs" in request.line:
            self.hangs.append(request.body)
            await self.released.wait()
        else:
            self.quick.append(request.body)
        await self._ok(request, writer)


@pytest.mark.parametrize("ordered", [False, True])
async def test_stop_beside_a_subscriber_that_hangs_delays_no_other_and_repeats_nothing(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    monkeypatch.setattr(notifier_module, "_KEPT_SECONDS", 0.1)
    came = _Bodies()
    async with endpoint(came.receive) as found, contextlib.AsyncExitStack() as stack:
        leaver = contextlib.AsyncExitStack()
        driver, _ = await leaver.enter_async_context(
            local_notifier(uri, settings=SETTINGS, grace=120)
        )
        hangs = found.uri("/hangs")
        slow = await subscribe(driver, project, hangs, timeout=60, ordered=ordered)
        await subscribe(driver, project, found.uri("/quick"))
        await post(driver, project, b"1")
        await wait_for(lambda: len(came.hangs) == len(came.quick) == 1)
        other, _ = await stack.enter_async_context(local_notifier(uri, settings=SETTINGS))
        leaving = asyncio.create_task(leaver.aclose())
        await post(other, project, b"2")
        await wait_for(lambda: len(came.quick) == 2)
        assert not leaving.done()
        came.released.set()
        await leaving
        await wait_for_state(other, project, slow, lambda state: state.delivered == 2)
        await wait_for_state(other, project, slow, lambda state: state.pending == 0)
    assert (len(came.hangs), len(came.quick)) == (2, 2)


async def test_batch_that_is_refused_during_a_stop_is_delivered_by_the_next_notifier(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_HELD_SECONDS", 0.05)
    refused, released, bodies = asyncio.Event(), asyncio.Event(), set[str]()

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if len(found.received) == 1:
            await refused.wait()
            await answer(400)(request, writer)
        elif released.is_set():
            document = json.loads(request.body)
            bodies.update(each["body"] for each in document.get("messages", [document]))
            await answer(204)(request, writer)
        else:
            await released.wait()

    async with endpoint(receive) as found, contextlib.AsyncExitStack() as stack:
        leaver = contextlib.AsyncExitStack()
        driver, leaving = await leaver.enter_async_context(
            local_notifier(uri, settings=SETTINGS, grace=0.5)
        )
        how = {"timeout": 60, "batch": 10, "concurrency": 1}
        id = await subscribe(driver, project, found.uri(), **how)
        await post(driver, project, *[b'"%d"' % n for n in range(10)])
        await wait_for_state(driver, project, id, lambda state: state.pending >= 10)
        left = asyncio.create_task(leaver.aclose())
        await wait_for(lambda: leaving._is_stopping)
        refused.set()
        await left
        released.set()
        await stack.enter_async_context(local_notifier(uri, settings=SETTINGS))
        await wait_for(lambda: len(bodies) == 10)


class _StuckQueue(LeasedQueue):
    """A queue whose first step that stores something is never sent."""

    is_stuck = False

    async def step(self, settled: SettledDeliveries, reads: DeliveryReads) -> DeliveryStep | None:
        if settled.pending and not _StuckQueue.is_stuck:
            _StuckQueue.is_stuck = True
            await asyncio.Event().wait()
        return await super().step(settled, reads)


async def test_stop_during_a_step_that_is_not_sent_loses_nothing(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "LeasedQueue", _StuckQueue)
    monkeypatch.setattr(notifier_module, "_KEPT_SECONDS", 0.1)
    came = _Bodies()
    async with endpoint(came.receive) as found:
        async with local_notifier(uri, settings=SETTINGS, grace=0.2) as (driver, _):
            await subscribe(driver, project, found.uri("/hangs"), timeout=60)
            paused = await subscribe(driver, project, found.uri("/quick"))
            await set_paused(driver, project, paused, paused=True)
            await post(driver, project, b"1")
            await wait_for(lambda: _StuckQueue.is_stuck and len(came.hangs) == 1)
        async with local_notifier(uri, settings=SETTINGS) as (driver, _):
            await set_paused(driver, project, paused, paused=False)
            await wait_for(lambda: len(came.quick) == 1)
            came.released.set()


def test_hangup_stops_a_notifier_as_sigterm_does() -> None:
    with servers.redis_server() as server, notifier(server.uri) as running:
        assert running.end(signal.SIGHUP) == 0
        assert "notifier stops" in running.log.read_text()


async def test_store_that_stands_still_begins_no_attempts_and_repeats_nothing(
    server: servers.RedisServer, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "_AWAY_SECONDS", 0.05)
    number = 400
    async with (
        endpoint(answer(204)) as found,
        local_notifier(server.uri, settings=SETTINGS) as (driver, notifier),
    ):
        await subscribe(driver, project, found.uri(), rate=100)
        await post(driver, project, *[b"%d" % n for n in range(number)])
        await wait_for(lambda: len(found.received) > 5)
        server.pause()
        try:
            before = -1
            while len(found.received) > before:
                before = len(found.received)
                await asyncio.sleep(0.3)
            assert before < number
        finally:
            server.resume()
        await wait_for(lambda: len(found.received) >= number)
        await wait_for(lambda: not notifier.memory.used)
    assert len(found.received) == len({each.body for each in found.received}) == number


async def test_endpoint_that_is_gone_has_one_line_whatever_is_under_way(
    uri: str, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    all_came, gone = asyncio.Event(), answer(410)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if len(found.received) == 4:
            all_came.set()
        await all_came.wait()
        await gone(request, writer)

    async with (
        endpoint(receive) as found,
        local_notifier(uri, settings=SETTINGS) as (driver, notifier),
    ):
        await subscribe(driver, project, found.uri(), concurrency=4, timeout=60)
        await post(driver, project, *[b"%d" % n for n in range(4)])
        await wait_for(lambda: len(found.received) == 4)
        await wait_for(lambda: not notifier.memory.used)
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert actions.count("subscription_gone") == 1
