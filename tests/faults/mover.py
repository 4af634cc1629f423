# SPDX-License-Identifier: Apache-2.0
"""A process that moves one queue back and forth between two pools until it is stopped.

    python -m tests.faults.mover STORE PROJECT QUEUE

Prints a line for each finished move, and "again: ..." for a failed one. SIGTERM
ends it between two moves, SIGKILL at any point of a move.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from zaqar_redis import errors
from zaqar_redis.storage import pools


async def main(uri: str, project: str, queue: str) -> None:
    driver = pools.create(uri, uri, {})
    await driver.start()
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    while not ending.is_set():
        try:
            await driver.mover.settle_all()
            source = (await driver.control.catalogue.locate(project, queue)).pool
            if source is not None:
                target = "two" if source == "one" else "one"
                await driver.mover.move(project, queue, source, target)
                print(target, flush=True)
        except (errors.Unavailable, errors.QueueNotInPool) as error:
            print(f"again: {error}", flush=True)
        await asyncio.sleep(0.05)
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
