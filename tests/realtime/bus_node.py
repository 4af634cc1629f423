# SPDX-License-Identifier: Apache-2.0
"""A process with a bus that counts what it receives: ``python -m tests.realtime.bus_node``.

Its arguments are the bus's URI and a channel.  It prints "ready", and for each message "report N"
on the channel N, how many messages it has received, and how many frames it has missed.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.load import load_bus


def dropped(bus: str, reason: str) -> float:
    """Returns how many messages this process has counted."""
    return sum(row[0] for labels, row in metrics.BUS_DROPPED.rows() if labels == (bus, reason))


async def main(uri: str, channel: str) -> None:
    bus = load_bus([uri], BusSettings())
    received = 0

    def deliver(_: bytes, payload: bytes) -> int:
        nonlocal received
        received += 1
        if payload.startswith(b"report"):
            print(
                payload.decode().removeprefix("report "),
                received,
                int(dropped(bus.name, "missed")),
                flush=True,
            )
        return 1

    await bus.start(deliver, lambda: None, (channel.encode(),))
    assert bus.live
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
