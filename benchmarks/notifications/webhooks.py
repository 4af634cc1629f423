# SPDX-License-Identifier: Apache-2.0
"""How fast one process of ``zaqar-redis notify`` delivers webhooks, compared with a bare loop.

The loop posts the same bodies with the same HTTP client over as many connections.  It reads
nothing from Redis, and encodes and signs nothing.  Both are measured at the endpoint, from the
first request to the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

import aiohttp
import uvloop

from benchmarks.notifications.pairs import PairedFigures
from benchmarks.notifications.store import BODY, PROJECT, TTL, NotifiedStore
from benchmarks.notifications.webhook_endpoint import WebhookEndpoint204
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import in_turns, print_progress
from tests.support import notifiers, servers
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.notify import payloads
from zaqar_redis.notify.target import Delivery
from zaqar_redis.records import Message, Subscription
from zaqar_redis.service.subscription_options import (
    CONCURRENCY_MAX,
    SubscriptionOptions,
    new_secret,
)

#: Of the configuration of a notifier whose endpoints are on this machine.
_LOOPBACK = {"notification": {"allowed_networks": "127.0.0.0/8"}}
#: Messages in a batch, and messages delivered for each second of a round.
_BATCHES = {1: 5000, 100: 50_000}
_TARGET = ("≥", 0.7)
_TIMEOUT_SECONDS = 120.0
_QUEUE = "source"
_HEADERS = {"Content-Type": "application/json"}


class WebhookDelivery:
    def __init__(self, given: Namespace, found: PairedFigures) -> None:
        self._given = given
        self._found = found

    def measure(self) -> None:
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(servers.redis_server())
            store = NotifiedStore(stack, redis)
            endpoint = WebhookEndpoint204(stack)
            for batch in _BATCHES:
                self._compare(redis, store, endpoint, batch)

    def _compare(
        self,
        redis: servers.RedisServer,
        store: NotifiedStore,
        endpoint: WebhookEndpoint204,
        batch: int,
    ) -> None:
        requests = max(CONCURRENCY_MAX, round(_BATCHES[batch] * self._given.seconds) // batch)
        contenders: Sequence[Callable[[], float]] = (
            lambda: _post(endpoint, _payload(batch), requests),
            lambda: _deliver(redis, store, endpoint, batch, requests * batch),
        )
        rates: list[list[float]] = [[], []]
        costs: list[list[float]] = [[], []]
        shares: list[list[float]] = [[], []]
        sizes: list[list[float]] = [[], []]
        # No warm-up: each round has a new process, or a new session.
        for _, order in in_turns([0, 1], self._given.rounds):
            for place in order:
                endpoint.reset()
                before = cpu_seconds(endpoint.pid)
                used = contenders[place]()
                share = (cpu_seconds(endpoint.pid) - before) / endpoint.seconds()
                counts = endpoint.counts
                rates[place].append(counts.messages / endpoint.seconds())
                costs[place].append(used / counts.messages * 1e6)
                sizes[place].append(counts.messages / counts.requests)
                shares[place].append(100 * share)
                print_progress(f"http, {batch}, {place}: {rates[place][-1]:.0f} messages/s")
        part = f"http, {batch} each"
        self._found.add(part, "messages/s", rates, target=_TARGET)
        self._found.add(part, "CPU µs of the sender", costs)
        self._found.add(part, "messages in a request", sizes)
        self._found.add(part, "endpoint, % of a core", shares)


def _payload(batch: int) -> bytes:
    """Returns what the notifier sends."""
    now = time.time_ns() // 10**6
    id = "01234567-89ab-cdef-0123-456789abcdef"
    message = Message(id, 1, 0, TTL, BODY, now, now + 1000 * TTL)
    delivery = Delivery(
        PROJECT,
        _QUEUE,
        Subscription("s", _QUEUE, "http://localhost/", TTL, 0, {}),
        SubscriptionOptions(batch=batch),
        [message] * batch,
    )
    return payloads.written(delivery).body


def _post(endpoint: WebhookEndpoint204, body: bytes, requests: int) -> float:
    """Posts so often; returns the CPU time of this process."""

    async def run() -> None:
        left = iter(range(requests))
        connector = aiohttp.TCPConnector(limit=CONCURRENCY_MAX)

        async def send() -> None:
            for _ in left:
                async with session.post(endpoint.url, data=body, headers=_HEADERS) as answer:
                    await answer.read()

        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(send() for _ in range(CONCURRENCY_MAX)))

    before = cpu_seconds(os.getpid())
    uvloop.run(run())
    return cpu_seconds(os.getpid()) - before


def _deliver(
    redis: servers.RedisServer,
    store: NotifiedStore,
    endpoint: WebhookEndpoint204,
    batch: int,
    messages: int,
) -> float:
    """Has a notifier deliver a backlog; returns the CPU time of its process."""
    options = {"concurrency": CONCURRENCY_MAX, "batch": batch, "secrets": [new_secret()]}
    store.run(store.subscribe(_QUEUE, [endpoint.url], options))
    posts = [store.post(_QUEUE, number) for number in _hundreds(messages)]
    store.run(store.each(posts))
    until = time.monotonic() + _TIMEOUT_SECONDS
    with notifiers.notifier(redis.uri, _LOOPBACK) as running:
        endpoint.wait_for(1, until)
        before = cpu_seconds(running.pid)
        if not endpoint.wait_for(messages, until):
            raise BenchmarkFailed(f"{endpoint.counts.messages} of {messages} were delivered")
        used = cpu_seconds(running.pid) - before
        store.run(store.delivered(_QUEUE))
    store.run(store.delete(_QUEUE))
    return used


def _hundreds(messages: int) -> list[int]:
    return [min(100, messages - at) for at in range(0, messages, 100)]
