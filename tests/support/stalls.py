# SPDX-License-Identifier: Apache-2.0
"""Run a command as on a shared machine's bad day: it stands still now and then, and is busy.

    python -m tests.support.stalls SEED COMMAND [ARGUMENTS]

All processes of the command stop together, for times that the seed decides, while two loops keep
processors busy.  Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType

import psutil

#: Seconds: how long a stall takes, and the time between two.
_STALL, _BETWEEN = (0.5, 4.0), (10.0, 30.0)
_BUSY_LOOPS = 2
#: of prctl(2)
_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def stalled(root: psutil.Process, *but: int) -> Iterator[list[psutil.Process]]:
    """Stops all descendants of *root*, other than *but*; those that had been stopped stay so."""
    seen, stopped = {root.pid, *but}, []
    try:
        while level := _children(seen):
            # Parents first: what has been stopped stops, and starts, nobody else.
            for each in level:
                seen.add(each.pid)
                with contextlib.suppress(psutil.NoSuchProcess):
                    if each.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                        each.suspend()
                        stopped.append(each)
        yield stopped
    finally:
        # Children first: a parent that waits for them does not see that they were stopped.
        for each in reversed(stopped):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()


def _children(parents: set[int]) -> list[psutil.Process]:
    """Returns those that are not parents themselves."""
    found = psutil.process_iter(["ppid"])
    return [each for each in found if each.info["ppid"] in parents and each.pid not in parents]


def run(seed: int, command: list[str], between: tuple[float, float] = _BETWEEN) -> int:
    """Returns the exit status of the command.  *between*: seconds between two stalls."""
    # Whoever loses its parent becomes a child of this process, and is found.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, _let_the_command_end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chance = random.Random(seed)
    loop = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    busy = [
        subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
        for _ in range(_BUSY_LOOPS)
    ]
    running = os.posix_spawnp(command[0], command, os.environ)
    count, total, status = 0, 0.0, None
    try:
        while status is None:
            status = _status_after(chance.uniform(*between), running)
            if status is None:
                with stalled(psutil.Process(), *(each.pid for each in busy)):
                    seconds = chance.uniform(*_STALL)
                    time.sleep(seconds)
                count, total = count + 1, total + seconds
    finally:
        if status is None:
            os.kill(running, signal.SIGTERM)
        for each in busy:
            each.kill()
            each.wait()
    print(f"Seed {seed}: {count} stalls, {total:.0f} s in all.", flush=True)
    return status


def _let_the_command_end(number: int, frame: FrameType | None) -> None:
    """A terminal's Ctrl-C reaches the command, too; it stops its servers, which takes a while."""


def _status_after(seconds: float, command: int) -> int | None:
    """Waits; returns the exit status of the command, None: it has not ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.1)
        with contextlib.suppress(ChildProcessError):
            # Of all: those that have lost their parents are waited for by nobody else.
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)) is not None:
                if ended.si_pid == command:
                    return ended.si_status if ended.si_code == os.CLD_EXITED else 1
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.support.stalls")
    parser.add_argument("seed", type=int, help="decides when the command stops, and for how long")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="it and its arguments")
    given = parser.parse_args()
    sys.exit(run(given.seed, given.command))
