# SPDX-License-Identifier: Apache-2.0
"""Run the tests as CI does: what fails beside others is run once more, alone.

A machine that stands still for seconds may fail a test that is right.  What passes when it runs
alone is called unsteady, and does not fail the run: it is a defect report, of the test or of the
product.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

#: So many failures are not a busy machine, and would take long to run again.
MOST_FAILURES = 15
#: where the names of unsteady tests, and the tracebacks of their failures, are appended
REPORT = Path("build/unsteady.txt")
#: the argument of the second run, before the names of its files
_AGAIN = "--again"


class Outcomes:
    """A plugin of pytest: how each test ended."""

    def __init__(self) -> None:
        #: the tracebacks of each test that has failed, by its id
        self.failed: dict[str, list[str]] = {}
        self._called: set[str] = set()
        #: with xdist the run goes on when a file cannot be read, and says only that tests failed
        self.is_all_read = True

    @property
    def passed(self) -> set[str]:
        return self._called - self.failed.keys()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_all_read &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append(report.longreprtext)
        elif report.when == "call" and report.passed:
            self._called.add(report.nodeid)


def run(arguments: Sequence[str]) -> int:
    """Returns the exit status: that of pytest, but 0 when only unsteady tests have failed."""
    first = Outcomes()
    status = int(pytest.main([*arguments], plugins=[first]))
    failed = first.failed
    if status != pytest.ExitCode.TESTS_FAILED or not failed or not first.is_all_read:
        return status
    if len(failed) > MOST_FAILURES:
        print(f"\n{len(failed)} tests have failed: more than {MOST_FAILURES} are not run again.")
        return status
    print(f"\nAlone, once more: {len(failed)} tests that have failed.", flush=True)
    again, passed = _run_again([*failed])
    unsteady = {id: tracebacks for id, tracebacks in failed.items() if id in passed}
    if unsteady:
        report = _report(unsteady)
        REPORT.parent.mkdir(exist_ok=True)
        with REPORT.open("a", encoding="utf-8") as file:
            file.write(report + "\n")
        print(f"\n{report}", flush=True)
    return again if len(unsteady) == len(failed) else again or status


def _run_again(ids: Sequence[str]) -> tuple[int, set[str]]:
    """Runs tests one after another; returns the exit status, and the ids of those that passed."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "ids.txt"), Path(folder, "passed.json")
        asked.write_text("\n".join(ids), encoding="utf-8")
        # After Ctrl-C it stops its servers by itself, which takes longer than Python would wait.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A process of its own: this one has imported what the first run needed.
        command = [sys.executable, "-m", __spec__.name, _AGAIN, str(asked), str(answered)]
        status = subprocess.run(command).returncode
        signal.signal(signal.SIGINT, before)
        # There is none when a test has ended the process.
        passed = json.loads(answered.read_text()) if answered.exists() else []
    return status, set(passed)


def _answer(ids: str, passed: str) -> int:
    """Runs the tests whose ids a file has, and writes those that passed to another one."""
    second = Outcomes()
    status = int(pytest.main([f"@{ids}"], plugins=[second]))
    Path(passed).write_text(json.dumps([*second.passed]))
    return status


def _report(failed: Mapping[str, Sequence[str]]) -> str:
    tracebacks = [f"{'_' * 8} {id} {'_' * 8}\n" + "\n".join(failed[id]) + "\n" for id in failed]
    about = f"{len(failed)} unsteady, which failed beside others and passed alone:"
    return "\n".join([*tracebacks, about, *(f"UNSTEADY {id}" for id in failed)])


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(_answer(*given[1:]) if given[:1] == [_AGAIN] else run(given))
