# SPDX-License-Identifier: Apache-2.0
"""Processes that post schedules race, and are killed: each time is posted once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time

from tests.support import servers
from tests.support.stores import PATIENT, opened
from zaqar_redis.cron import Cron
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.records import NewMessage
from zaqar_redis.schedule_records import Schedule
from zaqar_redis.storage.redis.control import RedisControl

_SCHEDULES = 150
_COMMAND = (sys.executable, "-m", "tests.faults.posting_schedules")
_YEARLY = Schedule("q", "@yearly", NewMessage(b"", ttl=86_400))


async def _create(uri: str) -> None:
    past = round((time.time() - 366 * 86_400) * 1000)
    control = RedisControl(keyspace.client(uri, PATIENT), lambda: past)
    await control.start()
    due = Cron(_YEARLY.cron, _YEARLY.timezone).next(past)
    assert due
    for number in range(_SCHEDULES):
        schedule = Schedule("q", "@yearly", NewMessage(str(number).encode(), ttl=86_400))
        await control.schedules.put("p", f"s{number}", schedule, due)
    await control.close()


def _ends(uri: str, *most: int) -> list[int]:
    """Runs processes beside each other, and returns how they ended."""
    commands = [[*_COMMAND, uri, *([str(each)] if each else [])] for each in most]
    return [each.wait(100) for each in [subprocess.Popen(each) for each in commands]]


def test_racing_and_killed_processes_post_each_time_once() -> None:
    with servers.redis_server() as server:
        asyncio.run(_create(server.uri))
        assert _ends(server.uri, 30, 60) == [-signal.SIGKILL] * 2
        with opened(server.uri, "p") as store:
            store.clock.now = round(time.time() * 1000)
            assert 0 < len(store.listed()) < _SCHEDULES
            assert _ends(server.uri, 0, 0) == [0, 0]
            assert sorted(map(int, store.listed())) == list(range(_SCHEDULES))
