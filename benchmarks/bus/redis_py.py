# SPDX-License-Identifier: Apache-2.0
"""redis-py as it is: each message is a command of its own, and its answer is awaited."""

from __future__ import annotations

import random

import redis

from benchmarks.bus.sessions import BURST, METRICS, ListenSession, PublishSession


def publish(address: str, session: PublishSession) -> None:
    client = redis.Redis.from_url(address)
    client.ping()
    channels, payload = session.channels, session.payload
    session.begin()
    while not session.is_over():
        for _ in range(BURST // 10):  # slow: a burst would last too long
            client.publish(random.choice(channels), payload)
        session.messages += BURST // 10


def listen(address: str, session: ListenSession) -> None:
    client = redis.Redis.from_url(address)
    pubsub = client.pubsub()
    pubsub.subscribe(*session.channels)
    for message in pubsub.listen():
        if message["type"] != "message":
            if message["data"] == len(session.channels):  # how many are confirmed
                session.begin()
        elif report := session.count(message["data"]):
            client.publish(METRICS, report)
