# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: every test has a name of its own, and every test that was collected ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

#: so many names are shown: more help nobody
_SHOWN = 20


def shared_ids(ids: Sequence[str]) -> list[str]:
    """Returns the ids of more than one test.  xdist runs one test for each id."""
    return [id for id, count in Counter(ids).items() if count > 1]


class Completeness:
    """Fails a run in which tests share an id, or one was collected and not reported.

    With xdist it does so in the process that hands out the tests.
    """

    def __init__(self) -> None:
        self._collected: list[str] = []
        self._reported: set[str] = set()
        self._missing: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not session.config.option.collectonly:
            self._collect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._collect(ids)

    def _collect(self, ids: Sequence[str]) -> None:
        if shared := shared_ids(ids):
            raise pytest.UsageError(_listed("several tests have the same id", shared))
        self._collected = list(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test whose process has died has no last phase.
        if report.when == "teardown" or report.failed:
            self._reported.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        has_ended_early = session.shouldfail or session.shouldstop
        # Other statuses say more than that tests are missing.
        if not has_ended_early and exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
        ):
            self._missing = [id for id in self._collected if id not in self._reported]
        if self._missing:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("tests without a result", red=True)
            terminalreporter.write_line(_listed("collected, but not reported", self._missing))


def _listed(what: str, ids: Sequence[str]) -> str:
    more = [f"and {len(ids) - _SHOWN} more"] if len(ids) > _SHOWN else []
    return "\n  ".join([f"{what}:", *ids[:_SHOWN], *more])
