# SPDX-License-Identifier: Apache-2.0
"""A test result that writes each outcome, one line of JSON per test, at once."""

from __future__ import annotations

import json
import time
import traceback
import unittest
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING

from tests.upstream.report import FAIL, PASS, SKIP

if TYPE_CHECKING:
    from _typeshed import OptExcInfo


class Recorder(unittest.TestResult):
    """The result of a run; first writes the plan of the tests."""

    def __init__(self, output: IO[str], before_each: Callable[[], object]) -> None:
        super().__init__()
        self._output = output
        self._before_each = before_each
        self._began = time.monotonic()
        self._said: set[str] = set()
        #: Names of the tests whose last run failed.
        self.failed: set[str] = set()

    def plan(self, tests: Iterable[unittest.TestCase], version: str) -> None:
        self._write({"planned": [test.id() for test in tests], "zaqar": version})

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._before_each()
        self._began = time.monotonic()
        self._said.discard(test.id())
        self.failed.discard(test.id())

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._report(test, PASS)

    def addExpectedFailure(self, test: unittest.TestCase, err: OptExcInfo) -> None:
        self._report(test, PASS)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._report(test, SKIP, reason)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._report(test, FAIL, "passed, although it is marked as failing")

    def addFailure(self, test: unittest.TestCase, err: OptExcInfo) -> None:
        self._report(test, FAIL, _text(err))

    def addError(self, test: unittest.TestCase, err: OptExcInfo) -> None:
        self._report(test, FAIL, _text(err))

    def _report(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        # A test whose clean-up fails too has two outcomes; the first one counts.
        if test.id() in self._said:
            return
        self._said.add(test.id())
        if outcome == FAIL:
            self.failed.add(test.id())
        seconds = round(time.monotonic() - self._began, 3)
        self._write({"test": test.id(), "outcome": outcome, "seconds": seconds, "text": text})

    def _write(self, line: object) -> None:
        self._output.write(json.dumps(line) + "\n")
        self._output.flush()


def _text(err: OptExcInfo) -> str:
    raised = err[1]
    # testtools passes an exception whose text is the whole report.
    if raised is not None and "Traceback" in str(raised):
        return str(raised)
    return "".join(traceback.format_exception(raised))
