# SPDX-License-Identifier: Apache-2.0
"""Lanes of subscriptions that change, fail, have a rate, or lose their queue during attempts."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVarTuple, Unpack

import pytest

from tests.contract.test_deliveries import state, update
from tests.notify.deliveries import subscribe as subscribe_in
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
from tests.support.notifiers import notifier as notifier_process
from tests.support.stores import ContractStore
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify import notifier as notifier_module
from zaqar_redis.notify import schedule
from zaqar_redis.notify import source as source_module
from zaqar_redis.notify.attempt import LaneAttempts
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.notifier import Notifier, NotifierSettings
from zaqar_redis.records import NewMessage, SubscriptionChanges
from zaqar_redis.service.subscription_options import new_secret
from zaqar_redis.storage.deliveries import (
    DeliveryReads,
    DeliveryStep,
    PendingDelivery,
    SettledDeliveries,
)

_Ts = TypeVarTuple("_Ts")


def test_queue_that_replaces_a_failing_webhook_gets_what_was_to_be_tried_again(
    server: servers.RedisServer, store: ContractStore
) -> None:
    # Nobody listens there, and after four attempts the next one is five seconds later.
    id = subscribe_in(store, f"http://127.0.0.1:{servers.free_port()}/")
    with notifier_process(server.uri, {"notification": {"allowed_networks": "127.0.0.0/8"}}):
        store.post("a")
        servers.wait_for(lambda: state(store, id).pending == 1, "the failure")
        update(store, id, subscriber="queue:copy")
        store.post("b")
        servers.wait_for(lambda: state(store, id).delivered == 2, "both messages")
    assert store.listed("copy") == ["a", "b"]


class _CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the timers of lanes."""

    timers = 0

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self.timers += getattr(callback, "__func__", None) is LaneAttempts.pump
        return super().call_at(when, callback, *args, context=context)


def test_lane_with_a_rate_has_one_timer_however_often_it_gets_messages(project: str) -> None:
    with servers.redis_server() as server, asyncio.Runner(loop_factory=_CountingLoop) as runner:
        runner.run(_post_to_a_slow_lane(server.uri, project))


def _has_taken(
    notifier: Notifier, used: int, received: Sequence[ReceivedRequest], number: int
) -> bool:
    """Returns whether it has a message in memory, or has delivered it already."""
    return notifier.memory.used != used or len(received) > number


async def _post_to_a_slow_lane(uri: str, project: str) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _CountingLoop)
    async with endpoint(answer(204)) as found, local_notifier(uri) as (driver, notifier):
        await subscribe(driver, project, found.uri(), rate=20)
        for number in range(40):
            used = notifier.memory.used
            await post(driver, project, b"%d" % number)
            await wait_for(partial(_has_taken, notifier, used, found.received, number))
        # On a busy machine it has delivered what came so far.
        await post(driver, project, *[b"1"] * 20)
        await wait_for(lambda: bool(notifier.memory.used))
        timers, count = loop.timers, len(found.received)
        await wait_for(lambda: len(found.received) >= count + 10)
        assert 0 < loop.timers - timers < 40


def _hanging_until(goes_on: asyncio.Event) -> Callable[[ReceivedRequest, Writer], Awaitable[None]]:
    """Returns what answers at once, but requests for /hangs not before *goes_on*."""
    ok = answer(204)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if "/hangs" in request.line:
            await goes_on.wait()
        await ok(request, writer)

    return receive


async def test_option_of_a_newer_release_leaves_filter_and_signature_as_they_are(
    uri: str, project: str
) -> None:
    options = {
        "_retry_policy": {"retry_backoff_function": "newer"},
        "batch": "newer",
        "filter": {"body": {"wanted": [True]}},
        "secrets": [new_secret()],
    }
    async with endpoint(answer(204)) as found, local_notifier(uri) as (driver, _):
        await subscribe(driver, project, found.uri(), **options)
        await post(driver, project, b'{"wanted": false}', b'{"wanted": true}')
        await wait_for(lambda: bool(found.received))
    [request] = found.received
    assert b'{"wanted": true}' in request.body
    assert "webhook-signature" in request.headers


@pytest.mark.parametrize(
    ("name", "value"), [("filter", {"newer": []}), ("secrets", ["newer"]), ("format", "newer")]
)
async def test_subscription_waits_whose_filter_secrets_or_format_cannot_be_read(
    uri: str, project: str, caplog: pytest.LogCaptureFixture, name: str, value: object
) -> None:
    async with endpoint(answer(204)) as found, local_notifier(uri) as (driver, _):
        id = await subscribe(driver, project, found.uri(), **{name: value})
        await post(driver, project, b"1")
        await wait_for_state(driver, project, id, lambda state: state.pending == 1)
        assert not found.received
        assert "its options cannot be read" in caplog.text
        assert driver.subscriptions
        changes = SubscriptionChanges(options={})
        assert await driver.subscriptions.update(project, "q", id, changes)
        await wait_for(lambda: bool(found.received))


async def test_subscriber_that_hangs_delays_neither_others_nor_its_own_attempts(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_LINGER_SECONDS", 600)  # nothing but a hint wakes it
    goes_on = asyncio.Event()
    receive = _hanging_until(goes_on)

    def both_have(number: int) -> bool:
        return found.count("/hangs") == number and len(found.received) == 2 * number

    settings = NotifierSettings(lease=300)
    async with endpoint(receive) as found, local_notifier(uri, settings=settings) as (driver, _):
        await subscribe(driver, project, found.uri("/hangs"), concurrency=8, timeout=60)
        await subscribe(driver, project, found.uri("/"))
        for number in range(1, 9):
            await post(driver, project, b"1")
            await wait_for(partial(both_have, number))
        goes_on.set()


async def test_subscribers_that_hang_delay_no_other_one_of_their_endpoint(
    uri: str, project: str
) -> None:
    goes_on = asyncio.Event()
    receive = _hanging_until(goes_on)

    async with endpoint(receive) as found, local_notifier(uri) as (driver, _):
        for number in range(2):
            hanging = found.uri(f"/hangs{number}")
            await subscribe(driver, project, hanging, concurrency=64, timeout=60)
        await post(driver, project, *[b"1"] * 64)
        await wait_for(lambda: found.count("/hangs") == 128)
        await subscribe(driver, project, found.uri("/quick"), timeout=60)
        await post(driver, project, b"2")
        await wait_for(lambda: found.count("/quick") == 1)
        goes_on.set()


async def test_delivery_that_failed_is_tried_again_when_it_is_due_though_its_queue_is_not_served(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "_LOOK_SECONDS", 600)  # no look finds it
    monkeypatch.setattr(source_module, "_LINGER_SECONDS", 0.01)
    policy = {"retries_with_no_delay": 0, "minimum_delay": 1, "maximum_delay": 11}
    settings = NotifierSettings(lease=300)
    async with (
        endpoint(answer(503)) as found,
        local_notifier(uri, settings=settings) as (driver, notifier),
    ):
        await subscribe(driver, project, found.uri(), _retry_policy=policy)
        await post(driver, project, b"1")
        for number in (1, 2):
            # mypy infers no lambda with a default.
            await wait_for(lambda number=number: len(found.received) == number)  # type: ignore[misc]
            await wait_for(lambda: not notifier.memory.used)


async def test_queue_that_is_purged_during_attempts_leaves_no_memory_and_no_further_attempts(
    uri: str, project: str
) -> None:
    may_answer, unavailable, ok = asyncio.Event(), answer(503), answer(204)
    paths = [f"/{number}" for number in range(4)]
    purged, after = b"x" * 1000, b"after the purge"

    def attempts(body: bytes) -> int:
        return sum(body in request.body for request in found.received)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if after in request.body:
            await ok(request, writer)
        else:
            await may_answer.wait()
            await unavailable(request, writer)

    async with endpoint(receive) as found, local_notifier(uri) as (driver, notifier):
        for path in paths:
            await subscribe(driver, project, found.uri(path))
        await post(driver, project, b'"' + purged + b'"')
        await wait_for(lambda: attempts(purged) == len(paths))
        await driver.queues.purge(project, "q")
        await wait_for(lambda: not notifier.memory.used)
        may_answer.set()
        await post(driver, project, b'"' + after + b'"')
        await wait_for(lambda: attempts(after) == len(paths) and not notifier.memory.used)
        assert attempts(purged) == len(paths)


async def test_circuit_stays_open_while_its_queue_is_not_served(
    uri: str, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "zaqar_redis.notify")

    def pauses() -> list[tuple[object, str]]:
        return [
            (each.args, each.levelname)
            for each in caplog.records
            if "no attempt is made" in each.msg
        ]

    def opened() -> float:
        rows = dict(metrics.CIRCUITS_OPENED.rows())
        return sum(rows.get(("http",), [0]))

    before = opened()
    async with endpoint(answer(503)) as found, local_notifier(uri) as (driver, notifier):
        await subscribe(driver, project, found.uri())
        await post(driver, project, *[b"1"] * 20)
        await wait_for(lambda: bool(pauses()) and not notifier.memory.used)
        attempts = len(found.received)
        await wait_for(lambda: len(pauses()) == 2)
        assert pauses() == [((5.0, 60.0), "WARNING"), ((10.0, 60.0), "DEBUG")]
        assert opened() == before + 1  # a probe that fails opens nothing
        assert len(found.received) == attempts + 1


async def test_circuit_of_a_queue_that_is_left_between_retries_opens(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source_module, "_LINGER_SECONDS", 0.01)
    monkeypatch.setattr(schedule, "policy_delay", lambda policy, attempt: 0.05)
    caplog.set_level(logging.WARNING, "zaqar_redis.notify")
    async with endpoint(answer(503)) as found, local_notifier(uri) as (driver, _):
        await subscribe(driver, project, found.uri(), ordered=True)
        await post(driver, project, b"1")
        await wait_for(lambda: "no attempt is made" in caplog.text)
        assert len(found.received) == 10


async def test_subscribers_that_hang_leave_attempts_to_other_projects(
    uri: str, project: str
) -> None:
    goes_on = asyncio.Event()
    receive = _hanging_until(goes_on)

    settings = NotifierSettings(max_attempts=10)
    async with endpoint(receive) as found, local_notifier(uri, settings=settings) as (driver, it):
        other = f"{project}-other"
        for each, path in ((project, "/hangs"), (other, "/quick")):
            await subscribe(driver, each, found.uri(path), concurrency=64, timeout=60)
        await post(driver, project, *[b"1"] * 20)
        await wait_for(lambda: found.count("/hangs") == 8)
        assert it.slots.waiting == 1
        await post(driver, other, *[b"1"] * 20)
        await wait_for(lambda: found.count("/quick") == 20)
        assert found.count("/hangs") == 8
        goes_on.set()
        await wait_for(lambda: found.count("/hangs") == 20)


async def test_stop_repeats_to_quick_subscribers_only_what_a_slow_one_has_under_way(
    uri: str, project: str
) -> None:
    goes_on, ok = asyncio.Event(), answer(204)
    bodies: dict[str, list[bytes]] = {"/hangs": [], "/quick": []}

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        path = "/hangs" if "/hangs" in request.line else "/quick"
        bodies[path].append(request.body)
        if path == "/hangs":
            await goes_on.wait()
        await ok(request, writer)

    # Nobody waits for the end of the lease.
    settings = NotifierSettings(lease=300)
    async with endpoint(receive) as found:
        async with local_notifier(uri, settings=settings, grace=0.5) as (driver, _):
            await subscribe(driver, project, found.uri("/hangs"), concurrency=2, timeout=60)
            await subscribe(driver, project, found.uri("/quick"))
            await post(driver, project, *[b"%d" % number for number in range(50)])
            await wait_for(lambda: list(map(len, bodies.values())) == [2, 50])
        goes_on.set()
        async with local_notifier(uri, settings=settings) as (_, notifier):
            await wait_for(lambda: len({*bodies["/hangs"]}) == 50)
            await wait_for(lambda: not notifier.memory.used)
    repeated = len(bodies["/quick"]) - 50
    assert (len({*bodies["/quick"]}), repeated) == (50, 0)


async def test_messages_given_up_in_a_row_have_one_line_of_the_log_and_an_end_with_their_number(
    uri: str, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zaqar_redis.notify")
    refused, ok = answer(404), answer(204)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        await (refused if b"no" in request.body else ok)(request, writer)

    def lines() -> list[tuple[str, str]]:
        return [
            (str(vars(each)["action"]), each.getMessage())
            for each in caplog.records
            if vars(each).get("action") in ("delivery_given_up", "deliveries_resumed")
        ]

    async with endpoint(receive) as found, local_notifier(uri) as (driver, _):
        id = await subscribe(driver, project, found.uri(), ordered=True)
        bodies = (b'"no"',) * 20, (b'"yes"',), (b'"no"',), (b'"yes"',)
        await post(driver, project, *(body for each in bodies for body in each))
        await wait_for_state(driver, project, id, lambda state: state.delivered == 2)
        await wait_for_state(driver, project, id, lambda state: state.failed == 21)
        first, end = lines()  # the next run was too soon for lines of its own
        assert first[0] == "delivery_given_up"
        assert end == ("deliveries_resumed", "messages are delivered again; 20 had been given up")


async def test_message_that_expires_between_attempts_is_given_up_with_the_error_of_the_last_one(
    uri: str, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with endpoint(answer(500)) as found, local_notifier(uri) as (driver, _):
        # Longer than the machine may stand still: the first attempt begins before it expires.
        policy = {"retries_with_no_delay": 1, "minimum_delay": 10, "maximum_delay": 10}
        id = await subscribe(driver, project, found.uri(), ordered=True, _retry_policy=policy)
        message = NewMessage(body=b'"brief"', ttl=8)
        await driver.messages.post(project, "q", [message], client="", default_ttl=8, size=0)
        await wait_for_state(driver, project, id, lambda state: state.failed == 1)
        assert driver.subscription_deliveries is not None
        (found_state,) = await driver.subscription_deliveries.states(project, "q", [id])
        assert (found_state.status, found_state.failing_since > 0) == (500, True)
        (line,) = [each for each in caplog.records if "given up" in each.getMessage()]
        assert str(vars(line)["error"]).endswith(found_state.error)


async def test_what_is_replayed_as_the_last_delivery_is_settled_stays_due(
    uri: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "LeasedQueue", _ReplayedQueue)
    may_deliver, may_replay = asyncio.Event(), asyncio.Event()
    refused, ok = answer(404), answer(204)

    async def receive(request: ReceivedRequest, writer: Writer) -> None:
        if len(found.received) == 1:
            await refused(request, writer)
            return
        await (may_deliver if len(found.received) == 2 else may_replay).wait()
        await ok(request, writer)

    async with endpoint(receive) as found, local_notifier(uri) as (driver, notifier):
        deliveries = driver.subscription_deliveries
        assert deliveries is not None
        id = await subscribe(driver, project, found.uri(), ordered=True)
        _ReplayedQueue.replay = staticmethod(partial(deliveries.replay, project, "q", id))
        await set_paused(driver, project, id, paused=True)
        await post(driver, project, b"1", b"2")
        await wait_for_state(driver, project, id, lambda state: state.pending == 2)
        await set_paused(driver, project, id, paused=False)
        await wait_for_state(driver, project, id, lambda state: state.failed == 1)
        await wait_for(lambda: len(_ReplayedQueue.passes) >= 2)
        may_deliver.set()
        await wait_for(lambda: len(found.received) == 3)
        count = len(_ReplayedQueue.steps)
        await wait_for(lambda: len(_ReplayedQueue.steps) > count)
        assert _ReplayedQueue.steps[-1].next_due is not None
        may_replay.set()
        await wait_for(lambda: not notifier.memory.used)


class _ReplayedQueue(LeasedQueue):
    """A queue whose failed delivery is replayed before the first one that was made is settled."""

    #: replays what failed
    replay: Callable[[], Awaitable[int]]
    replayed = 0
    #: what the steps after that have found
    steps: ClassVar[list[DeliveryStep]] = []
    #: ends of the passes through what waits: a resumed lane makes two
    passes: ClassVar[list[str]] = []

    async def backlog(self, subscription: str, after: str, limit: int) -> Sequence[PendingDelivery]:
        page = await super().backlog(subscription, after, limit)
        if after and not page:
            self.passes.append(after)
        return page

    async def step(self, settled: SettledDeliveries, reads: DeliveryReads) -> DeliveryStep | None:
        if settled.made and not self.replayed:
            self.replayed = await _ReplayedQueue.replay()
        step = await super().step(settled, reads)
        if step is not None and self.replayed:
            self.steps.append(step)
        return step
