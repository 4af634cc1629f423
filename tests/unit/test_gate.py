# SPDX-License-Identifier: Apache-2.0
"""The run of all tests: what is run again, what fails it, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import gate
from tests.support.tiers import in_gate

_ROOT = Path(__file__).parents[2]
#: No plugins but that of parallel runs: to load them takes seconds.
_ENVIRONMENT = {
    "PYTHONPATH": str(_ROOT),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "xdist.plugin",
}
_CONFTEST = """
from tests.support.completeness import Completeness

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Completeness())
"""
#: fails in its first run only
_UNSTEADY = """
import os
from pathlib import Path

import pytest

@pytest.mark.parametrize("case", ["GET /a", "x::y"])
def test_steady(case):
    pass

@pytest.mark.parametrize("case", ["GET /a::[b]"])
def test_unsteady(case):
    first = not Path("was_here").exists()
    Path("was_here").touch()
    assert not first, "a stall"
"""
#: how a run may be: in one process, in several
_WAYS = [(), ("--numprocesses", "2")]
#: two tests with one id
_TWINS = """
import pytest

class Twins(pytest.Module):
    def collect(self):
        return [*super().collect(), *super().collect()]

def pytest_pycollect_makemodule(module_path, parent):
    return Twins.from_parent(parent, path=module_path)
"""
#: a test that is collected, and says nothing when it runs
_SILENT = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    return True if "silent" in item.name else None
"""


@dataclass(frozen=True)
class _Suite:
    """A folder with tests of its own."""

    folder: Path

    def write(self, tests: str, conftest: str = "") -> None:
        (self.folder / "conftest.py").write_text(_CONFTEST + conftest)
        (self.folder / "test_it.py").write_text(tests)

    def run(self, *arguments: str, module: str = "tests.support.gate") -> tuple[int, str]:
        """Returns the exit status and the output."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments, "-p", "no:cacheprovider"],
            cwd=self.folder,
            env=os.environ | _ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    @property
    def report(self) -> str | None:
        path = self.folder / gate.REPORT
        return path.read_text() if path.exists() else None


@pytest.fixture
def suite(tmp_path: Path) -> _Suite:
    return _Suite(tmp_path)


@pytest.mark.parametrize("parallel", in_gate(_WAYS, _WAYS[1]))
def test_test_that_fails_in_the_first_run_only_is_reported_and_the_run_passes(
    suite: _Suite, parallel: Sequence[str]
) -> None:
    suite.write(_UNSTEADY)
    status, output = suite.run(*parallel)
    assert status == 0
    assert suite.report is not None
    assert suite.report.endswith("\nUNSTEADY test_it.py::test_unsteady[GET /a::[b]]\n")
    assert "AssertionError: a stall" in suite.report
    assert "test_steady" not in suite.report
    assert output.endswith(suite.report)


def test_test_that_fails_alone_fails_the_run_beside_one_that_is_unsteady(suite: _Suite) -> None:
    suite.write("def test_broken():\n    assert not 'always'\n" + _UNSTEADY)
    status, output = suite.run("--numprocesses", "2")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "Alone, once more: 2 tests" in output
    assert suite.report is not None
    assert "UNSTEADY test_it.py::test_unsteady" in suite.report
    assert "test_broken" not in suite.report


@pytest.mark.nightly
@pytest.mark.parametrize("later", ["os._exit(0)", "pytest.skip('not today')"])
def test_test_that_does_not_end_when_it_runs_alone_fails_the_run(suite: _Suite, later: str) -> None:
    suite.write(_UNSTEADY.replace('assert not first, "a stall"', f"assert not first\n    {later}"))
    status, _ = suite.run()
    assert status == pytest.ExitCode.TESTS_FAILED
    assert suite.report is None


@pytest.mark.nightly
def test_run_with_more_failures_than_are_run_again_fails(suite: _Suite) -> None:
    many = gate.MOST_FAILURES + 1
    suite.write(f"""
import pytest

@pytest.mark.parametrize("number", range({many}))
def test_broken(number):
    assert False
""")
    status, output = suite.run()
    assert status == pytest.ExitCode.TESTS_FAILED
    assert f"{many} tests have failed: more than {gate.MOST_FAILURES} are not run again" in output


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        ((), pytest.ExitCode.INTERRUPTED),
        (("--numprocesses", "2"), pytest.ExitCode.TESTS_FAILED),  # it runs what it can read
    ],
)
def test_run_that_cannot_read_a_file_of_tests_fails_beside_an_unsteady_test(
    suite: _Suite, parallel: Sequence[str], expected: int
) -> None:
    suite.write(_UNSTEADY)
    (suite.folder / "test_unread.py").write_text("import no_such_module")
    status, output = suite.run(*parallel)
    assert status == expected
    assert "once more" not in output


@pytest.mark.nightly
def test_run_that_ends_at_its_first_failure_misses_no_test(suite: _Suite) -> None:
    suite.write("def test_broken():\n    assert not 'always'\n\ndef test_next():\n    pass\n")
    status, output = suite.run("-x", module="pytest")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "test_next" not in output


@pytest.mark.nightly
@pytest.mark.parametrize("parallel", _WAYS)
@pytest.mark.parametrize("module", ["pytest", "tests.support.gate"])
def test_two_tests_with_one_id_are_refused(
    suite: _Suite, parallel: Sequence[str], module: str
) -> None:
    suite.write("def test_twin():\n    pass\n", _TWINS)
    status, output = suite.run(*parallel, module=module)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "several tests have the same id:\n  test_it.py::test_twin" in output


@pytest.mark.parametrize("parallel", in_gate(_WAYS, _WAYS[1]))
def test_test_without_a_result_fails_the_run(suite: _Suite, parallel: Sequence[str]) -> None:
    suite.write("def test_silent():\n    pass\n\ndef test_loud():\n    pass\n", _SILENT)
    status, output = suite.run(*parallel)
    assert status == pytest.ExitCode.INTERNAL_ERROR
    assert "collected, but not reported:\n  test_it.py::test_silent\n" in output
    assert "test_it.py::test_loud" not in output
