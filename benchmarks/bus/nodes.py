# SPDX-License-Identifier: Apache-2.0
"""The buses of this service, used as its nodes use them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

import uvloop

from benchmarks.bus.sessions import BURST, METRICS, ListenSession, PublishSession
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.load import load_bus

#: What a node that only publishes subscribes to: a bus starts with a channel.
_SILENT = b"bench/silent"
#: Bytes that are published before the publisher waits: less than may wait in a bus.
_BURST_BYTES = 16 * 1024 * 1024
#: Seconds between the messages of a publisher with a rate.
_TICK_SECONDS = 0.001


def publish(address: str, session: PublishSession) -> None:
    uvloop.run(_publish(address, session))


def publish_at_rate(address: str, session: PublishSession) -> None:
    """Publishes ``session.rate`` messages a second, each with the time when it is published.

    Those that are due together have the time of the first.
    """
    uvloop.run(_publish_at_rate(address, session))


def listen(address: str, session: ListenSession) -> None:
    uvloop.run(_listen(address, session))


async def _publish(address: str, session: PublishSession) -> None:
    channels, payload = session.channels, session.payload
    burst = max(1, min(BURST, _BURST_BYTES // len(payload)))
    async with _publishing(address, session) as bus:
        while not session.is_over():
            for _ in range(burst - 1):
                bus.publish(random.choice(channels), payload)
            await bus.send(random.choice(channels), payload)
            session.messages += burst


async def _publish_at_rate(address: str, session: PublishSession) -> None:
    async with _publishing(address, session) as bus:
        begun = time.monotonic()
        while not session.is_over():
            due = int((time.monotonic() - begun) * session.rate) - session.messages
            payload = session.stamped()
            for _ in range(due):
                bus.publish(random.choice(session.channels), payload)
            session.messages += due
            await asyncio.sleep(_TICK_SECONDS)


@contextlib.asynccontextmanager
async def _publishing(address: str, session: PublishSession) -> AsyncIterator[Bus]:
    bus = load_bus([address], BusSettings())
    await bus.start(lambda channel, payload: 0, lambda: None, [_SILENT])
    await asyncio.to_thread(session.begin)
    try:
        yield bus
    finally:
        await bus.stop()


async def _listen(address: str, session: ListenSession) -> None:
    bus = load_bus([address], BusSettings())

    def deliver(channel: bytes, payload: bytes) -> int:
        if report := session.count(payload):
            bus.publish(METRICS, report)
        return 1

    def on_gap() -> None:
        session.gaps += 1

    await bus.start(deliver, on_gap, session.channels)
    await asyncio.to_thread(session.begin)
    await asyncio.get_running_loop().create_future()
