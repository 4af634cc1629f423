# SPDX-License-Identifier: Apache-2.0
"""A process that moves one queue back and forth between two pools until it is stopped.

    python -m benchmarks.chaos.mover STORE PROJECT QUEUE [FILE CLIENT]

Prints a line for each finished move, and "again: ..." for a failed one. SIGTERM
ends it between two moves, SIGKILL at any point of a move.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from benchmarks.chaos.history import ActOutcome, ActRecorder
from zaqar_redis import errors
from zaqar_redis.storage import pools


async def main(
    uri: str, project: str, queue: str, file: str = os.devnull, client: str = "mover"
) -> None:
    recorder = ActRecorder(Path(file), client)
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
                act = recorder.begin("move", queue)
                await driver.mover.move(project, queue, source, target)
                recorder.end(act, ActOutcome.OK)
                print(target, flush=True)
        except (errors.Unavailable, errors.QueueNotInPool) as error:
            print(f"again: {error}", flush=True)
        await asyncio.sleep(0.05)
    await driver.close()
    recorder.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
