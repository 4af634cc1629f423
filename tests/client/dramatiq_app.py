# SPDX-License-Identifier: Apache-2.0
"""Actors for the command `dramatiq`; what they have done is in the queue `done`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dramatiq
from zaqar_redis_client.dramatiq import ZaqarBroker

broker = ZaqarBroker(os.environ["SERVICE"], os.environ["PROJECT"], claim_ttl=3)
dramatiq.set_broker(broker)


@dramatiq.actor(min_backoff=1)
def work(number: int, seconds: float = 0) -> None:
    broker.queue("begun").post(number)
    time.sleep(seconds)
    broker.queue("done").post(number)


@dramatiq.actor(queue_name="q")
def count(folder: str, number: int) -> None:
    with Path(folder, "counted").open("a") as file:
        file.write(f"{number}\n")
