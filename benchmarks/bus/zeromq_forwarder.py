# SPDX-License-Identifier: Apache-2.0
"""The article's ZeroMQ clients: PUSH to a forwarder, SUB from it, by pyzmq.

A message is one string, "channel message"; subscribers filter by its beginning.
"""

from __future__ import annotations

import os
import random

import zmq

from benchmarks.bus.sessions import BURST, METRICS, ListenSession, PublishSession

#: Milliseconds that a probe may take before another is sent.
_PROBE_MILLISECONDS = 50


def publish(address: str, session: PublishSession) -> None:
    context = zmq.Context()
    sender = context.socket(zmq.PUSH)
    sender.connect(address.split()[0])
    channels, payload = session.channels, session.payload
    session.begin()
    while not session.is_over():
        for _ in range(BURST):
            sender.send(b"%b %b" % (random.choice(channels), payload))
        session.messages += BURST
    context.destroy(linger=-1)  # sends what waits; the process ends in time anyway


def listen(address: str, session: ListenSession) -> None:
    context = zmq.Context()
    sender, receiver = context.socket(zmq.PUSH), context.socket(zmq.SUB)
    sender.connect(address.split()[0])
    receiver.connect(address.split()[1])
    for channel in session.channels:
        receiver.setsockopt(zmq.SUBSCRIBE, channel + b" ")
    _wait_for_subscriptions(sender, receiver)
    session.begin()
    while True:
        _, _, payload = receiver.recv().partition(b" ")
        if report := session.count(payload):
            sender.send(b"%b %b" % (METRICS, report))


def _wait_for_subscriptions(sender: zmq.Socket[bytes], receiver: zmq.Socket[bytes]) -> None:
    """Returns when a subscription arrives that was sent after all others."""
    probe = b"bench/probe/%d" % os.getpid()
    receiver.setsockopt(zmq.SUBSCRIBE, probe)
    while not receiver.poll(_PROBE_MILLISECONDS):
        sender.send(probe)
    while receiver.poll(_PROBE_MILLISECONDS):
        receiver.recv()
    receiver.setsockopt(zmq.UNSUBSCRIBE, probe)
