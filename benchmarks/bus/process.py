# SPDX-License-Identifier: Apache-2.0
"""A process of a measured client: ``python -m benchmarks.bus.process SPEC``.

It prints a line when it is ready, reads the schedule of the round, and prints its result.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any, NamedTuple

import msgspec

from benchmarks.bus import sessions
from benchmarks.bus.contenders import CONTENDERS
from benchmarks.bus.sessions import ClientSession, ClientSpec, RoundSchedule
from zaqar_redis import errors, garbage_collection

READY = b"ready\n"
#: Seconds that connecting and subscribing may take.
READY_SECONDS = 30.0


class ClientRole(NamedTuple):
    session: Callable[[ClientSpec], ClientSession]
    #: of the contender's module
    function: str


ROLES = {
    "publisher": ClientRole(sessions.PublishSession, "publish"),
    "subscriber": ClientRole(sessions.CountSession, "listen"),
    "collector": ClientRole(sessions.CollectSession, "listen"),
    "rated-publisher": ClientRole(sessions.PublishSession, "publish_at_rate"),
    "latency-subscriber": ClientRole(sessions.LatencySession, "listen"),
}


def main() -> None:
    """Runs the client of the argument, ends the process."""
    spec = msgspec.json.decode(sys.argv[1], type=ClientSpec)
    role = ROLES[spec.role]
    session = role.session(spec)
    function = getattr(CONTENDERS[spec.contender].client(), role.function)
    # A thread, which ends with the process: what listens never returns.
    worker = Thread(target=_work, args=(function, spec.address, session), daemon=True)
    worker.start()
    if not session.ready.wait(READY_SECONDS):
        _fail(f"it was not ready within {READY_SECONDS:g} s")
    garbage_collection.tune()  # for all contenders as in the service
    _print(READY)
    schedule = msgspec.json.decode(sys.stdin.buffer.readline(), type=RoundSchedule)
    session.schedule.set_result(schedule)
    counted, cpu = _measure(session, schedule)
    if isinstance(session, sessions.PublishSession):
        worker.join(schedule.drain_until - time.monotonic())
    else:
        sessions.wait_until_quiet(session, schedule.drain_until)
    result = msgspec.structs.replace(session.result(), counted=counted, cpu=cpu)
    _print(msgspec.json.encode(result) + b"\n")
    os._exit(0)


def _work(function: Callable[..., Any], address: str, session: ClientSession) -> None:
    try:
        function(address, session)
    except Exception as error:
        _fail(errors.reason(error))


def _measure(session: ClientSession, schedule: RoundSchedule) -> tuple[int, float]:
    """Returns the messages, and the seconds of CPU, between the warm-up and the end."""
    time.sleep(max(0.0, schedule.count_from - time.monotonic()))
    messages, cpu = session.messages, time.process_time()
    time.sleep(max(0.0, schedule.end - time.monotonic()))
    return session.messages - messages, time.process_time() - cpu


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _fail(reason: str) -> None:
    print(reason, file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # Python would wait for the threads, which wait for a round that never begins.
        _fail(errors.reason(error))
