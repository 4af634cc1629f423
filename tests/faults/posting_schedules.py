# SPDX-License-Identifier: Apache-2.0
"""A process that posts schedules until none is due, or kills itself behind so many posts.

    python -m tests.faults.posting_schedules STORE [POSTS]

It does so whatever other processes do: roles only spare work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.keyspace.script import Verb
from zaqar_redis.rules import Limits
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.schedules import ScheduleService
from zaqar_redis.storage import pools


async def main(uri: str, most: int = sys.maxsize) -> None:
    driver = pools.create(uri, uri, PATIENT_OPTIONS)
    await driver.start()
    messages = MessageService(driver, Limits(), None, LongPoll(None, 1))
    service = ScheduleService(driver.control, messages, Limits(), None)
    post, posted = messages.post, 0

    async def counted(*args: Any, **how: Any) -> Any:
        nonlocal posted
        verb: Verb[Any] = post(*args, **how)
        answer = await verb
        posted += 1
        if posted == most:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def lead(role: str, seconds: float) -> bool:
        return True

    messages.post = counted  # type: ignore[method-assign,assignment]
    driver.control.lead = lead  # type: ignore[method-assign]
    while (await driver.control.schedules.due(1)).items:
        await service.round()
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
