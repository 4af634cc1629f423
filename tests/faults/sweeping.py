# SPDX-License-Identifier: Apache-2.0
"""A process that sweeps a store once, or is killed when it has tidied so many queues.

    python -m tests.faults.sweeping STORE [QUEUES]

Prints how much was settled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from zaqar_redis.storage.load import load


async def main(uri: str, most: int = sys.maxsize) -> None:
    driver = load(uri, {})
    await driver.start()
    assert driver.sweeper
    tidied: list[str] = []

    def told(queue: str) -> None:
        tidied.append(queue)
        if len(tidied) == most:
            os.kill(os.getpid(), signal.SIGKILL)

    print(await driver.sweeper.sweep(60, told), flush=True)
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
