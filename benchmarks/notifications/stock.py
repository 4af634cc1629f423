# SPDX-License-Identifier: Apache-2.0
"""Webhooks of our service and of stock Zaqar, each with its notifier in one worker.

Messages are posted to either by its REST API, ten at a time, and delivered to the same endpoint,
to one subscription of the queue and to ten.  A round ends when all have arrived; each side gets as
many messages as keep it busy for about that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks.notifications.pairs import PairedFigures
from benchmarks.notifications.store import BODY, TTL
from benchmarks.notifications.webhooks import LOOPBACK
from benchmarks.support import deployment
from benchmarks.support.rounds import in_turns, print_progress
from benchmarks.support.webhook_endpoint import WebhookEndpoint204
from tests.support import servers
from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.benchmarks.servers import running
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.service.subscription_options import BATCH_MAX

_CONFIGURATION = """\
[DEFAULT]
log_file = {home}/zaqar.log

[storage]
message_pipeline = zaqar.notification.notifier

[drivers]
message_store = redis
management_store = redis

[drivers:message_store:redis]
uri = redis://{socket}?socket_timeout=10

[drivers:management_store:redis]
uri = redis://{socket}?socket_timeout=10
"""
_HEADERS = {"Client-ID": "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10", "X-Project-ID": "notified"}
_APPLICATION = "zaqar.transport.wsgi.app:application"
_TARGET = ("≥", 10.0)
#: Messages of one post.
_TOGETHER = 10
_POST = b'{"messages": [%b]}' % b",".join([b'{"ttl": %d, "body": %b}' % (TTL, BODY)] * _TOGETHER)
#: Seconds after which a side is measured by what has arrived.
_PATIENCE = 20.0


class NotifyingService(msgspec.Struct, frozen=True):
    """A service that is measured."""

    label: str
    port: int
    #: deliveries for each second of a round
    rate: int
    #: of subscriptions; stock Zaqar has no batches
    options: Mapping[str, int] = {}


class BesideStock:
    def __init__(self, given: Namespace, found: PairedFigures) -> None:
        self._given = given
        self._found = found

    def measure(self) -> None:
        with contextlib.ExitStack() as stack:
            stock = NotifyingService("stock Zaqar", _stock_zaqar(stack), 250)
            store = deployment.redis_server(stack)
            service = stack.enter_context(servers.service(store.uri, options=LOOPBACK))
            ours = NotifyingService("zaqar-redis", service.port, 4000)
            batched = NotifyingService(
                "zaqar-redis, batches", service.port, 8000, {"batch": BATCH_MAX}
            )
            endpoint = WebhookEndpoint204(stack)
            runner = stack.enter_context(asyncio.Runner())
            for subscriptions in (1, 10):
                sides = [stock, ours, batched]
                rates: dict[str, list[float]] = {side.label: [] for side in sides}
                for number, order in in_turns(sides, self._given.rounds, first=0):
                    for side in order:
                        queue = f"{side.options.get('batch', 1)}-{subscriptions}-{number}"
                        rate = runner.run(self._round(side, endpoint, queue, subscriptions))
                        if number:
                            rates[side.label].append(rate)
                            print_progress(f"{subscriptions}, {side.label}: {rate:.0f}/s")
                for side in (ours, batched):
                    what = f"subscriptions: {subscriptions}, {side.label}, messages/s"
                    pair = rates[stock.label], rates[side.label]
                    self._found.add("stock", what, pair, target=_TARGET)

    async def _round(
        self,
        side: NotifyingService,
        endpoint: WebhookEndpoint204,
        queue: str,
        subscriptions: int,
    ) -> float:
        """Returns deliveries a second, from the first post to the last delivery."""
        endpoint.reset()
        connection = HttpConnection("127.0.0.1", side.port, _HEADERS)
        with contextlib.closing(connection):
            path = f"/v2/queues/{queue}"
            await _expect(connection, "PUT", path, b"{}")
            for number in range(subscriptions):
                document = {"subscriber": f"{endpoint.url}{number}", "ttl": TTL}
                subscription = json.dumps(document | {"options": side.options}).encode()
                await _expect(connection, "POST", f"{path}/subscriptions", subscription)
            deliveries = side.rate * self._given.seconds
            posts = max(1, round(deliveries / subscriptions / _TOGETHER))
            begun = time.monotonic()
            for _ in range(posts):
                await _expect(connection, "POST", f"{path}/messages", _POST)
                if time.monotonic() > begun + _PATIENCE:
                    break
        await asyncio.to_thread(
            endpoint.wait_for, posts * _TOGETHER * subscriptions, begun + _PATIENCE
        )
        arrived, last = endpoint.counts.messages, endpoint.counts.last
        if not arrived:
            raise BenchmarkFailed(f"{side.label} delivered nothing within {_PATIENCE:.0f} s")
        return float(arrived / (last - begun))


async def _expect(connection: HttpConnection, method: str, path: str, body: bytes) -> None:
    """Raises BenchmarkFailed unless it succeeds."""
    status, answer = await connection.request(method, path, body)
    if status not in (201, 204):
        raise BenchmarkFailed(f"{method} {path} was answered {status}: {answer!r}")


def _stock_zaqar(stack: contextlib.ExitStack) -> int:
    """Starts stock Zaqar under gunicorn, over a Redis of its own; returns its port."""
    store = deployment.redis_server(stack)
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-stock-")))
    (home / ".zaqar").mkdir()
    settings = _CONFIGURATION.format(socket=store.socket, home=home)
    (home / ".zaqar" / "zaqar.conf").write_text(settings)
    command = [sys.executable, "-m", "gunicorn", "--workers", "1", _APPLICATION]
    _, port = stack.enter_context(
        running(
            "stock Zaqar",
            lambda port: [*command, "--bind", f"127.0.0.1:{port}"],
            {"HOME": str(home)},
        )
    )
    return port
