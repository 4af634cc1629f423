# SPDX-License-Identifier: Apache-2.0
"""A process that sweeps a store once, or kills itself after so many swept queues.

    python -m tests.faults.sweeping STORE [QUEUES]

Prints how many items were settled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.storage.load import load


async def main(uri: str, most: int = sys.maxsize) -> None:
    driver = load(uri, PATIENT_OPTIONS)
    await driver.start()
    assert driver.sweeper
    swept: list[str] = []

    def on_progress(queue: str, more: int) -> None:
        if more:
            return
        swept.append(queue)
        if len(swept) == most:
            os.kill(os.getpid(), signal.SIGKILL)

    print(await driver.sweeper.sweep(60, on_progress), flush=True)
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
