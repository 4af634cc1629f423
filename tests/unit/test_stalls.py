# SPDX-License-Identifier: Apache-2.0
"""A stall stops all processes of a command, and lets those go on that it has stopped."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from tests.support import stalls
from tests.support.servers import wait_for

#: It starts a process in a session of its own that stops itself, and one that is left alone.
_TREE = """
import os, signal, subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleep, start_new_session=True).send_signal(signal.SIGSTOP)
subprocess.run(sleep)
"""


@contextlib.contextmanager
def _tree() -> Iterator[list[psutil.Process]]:
    """Yields a process, its child that was stopped, and its child that runs."""
    with subprocess.Popen([sys.executable, "-c", _TREE]) as started:
        top = psutil.Process(started.pid)
        wait_for(lambda: len(top.children()) == 2, "the children")
        found = [top, *sorted(top.children(), key=lambda each: each.pid)]
        try:
            wait_for(lambda: _are_stopped(found) == [False, True, False], "one to stop")
            yield found
        finally:
            for each in found:
                each.kill()


def _are_stopped(found: list[psutil.Process]) -> list[bool]:
    return [each.status() == psutil.STATUS_STOPPED for each in found]


def test_stall_stops_every_process_and_leaves_those_stopped_that_were() -> None:
    with _tree() as found:
        with stalls.stalled(psutil.Process()):
            wait_for(lambda: all(_are_stopped(found)), "all to stop")
        wait_for(lambda: _are_stopped(found) == [False, True, False], "the others to go on")


def test_stall_leaves_out_what_it_is_told_to() -> None:
    with _tree() as found:
        with stalls.stalled(psutil.Process(), found[0].pid) as stopped:
            assert found[0] not in stopped
        assert _are_stopped(found) == [False, True, False]


#: It ends once it has stood still.
_STANDS_STILL = """
import time
last = time.monotonic()
while (now := time.monotonic()) - last < 0.4: last = now
raise SystemExit(3)
"""


def test_command_stands_still_and_its_status_is_returned() -> None:
    run = f"stalls.run(1, [sys.executable, '-c', {_STANDS_STILL!r}], between=(0.1, 0.2))"
    program = f"import sys; from tests.support import stalls; sys.exit({run})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert re.match(r"Seed 1: \d+ stalls, \d+ s in all\.\n", done.stdout)


#: It tells the time of its clock for each line that it reads.
_CLOCKED = """
import sys
from tests.support.clock import running_clock
with running_clock() as clock:
    for _ in sys.stdin: print(clock(), flush=True)
"""


def test_running_clock_stands_still_with_its_process() -> None:
    command = [sys.executable, "-c", _CLOCKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:

        def ask() -> float:
            assert started.stdin is not None
            assert started.stdout is not None
            started.stdin.write(b"\n")
            started.stdin.flush()
            return float(started.stdout.readline())

        asked = time.monotonic()
        before = ask()
        with stalls.stalled(psutil.Process()):
            time.sleep(2)
        ran = ask() - before
        elapsed = time.monotonic() - asked
    assert elapsed - ran > 1.5
