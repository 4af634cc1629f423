# SPDX-License-Identifier: Apache-2.0
"""nats-py as it is."""

from __future__ import annotations

import asyncio
import random

import nats
import uvloop
from nats.aio.msg import Msg

from benchmarks.bus.sessions import BURST, METRICS, ListenSession, PublishSession


def publish(address: str, session: PublishSession) -> None:
    uvloop.run(_publish(address, session))


def listen(address: str, session: ListenSession) -> None:
    uvloop.run(_listen(address, session))


def _subject(channel: bytes) -> str:
    return channel.decode().replace("/", ".")


async def _publish(address: str, session: PublishSession) -> None:
    client = await nats.connect(address)
    subjects, payload = [_subject(channel) for channel in session.channels], session.payload
    await asyncio.to_thread(session.begin)
    while not session.is_over():
        for _ in range(BURST):
            await client.publish(random.choice(subjects), payload)
        await client.flush()
        session.messages += BURST
    await client.drain()


async def _listen(address: str, session: ListenSession) -> None:
    client = await nats.connect(address)

    async def receive(message: Msg) -> None:
        if report := session.count(message.data):
            await client.publish(_subject(METRICS), report)

    for channel in session.channels:
        await client.subscribe(_subject(channel), cb=receive)
    await client.flush()  # answered after all that was sent before
    await asyncio.to_thread(session.begin)
    await asyncio.get_running_loop().create_future()
