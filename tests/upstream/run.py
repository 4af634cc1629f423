# SPDX-License-Identifier: Apache-2.0
"""Runs stock Zaqar's tests on a driver: ``python -m tests.upstream.run --help``."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.backends import BACKENDS
from tests.upstream import report
from tests.upstream.inapplicable import inapplicable
from tests.upstream.suites import SUITES
from tests.upstream.targets import TARGETS
from tests.upstream.task import SuiteTask

_ROOT = Path(__file__).parents[2]

#: Timeout of one process in seconds; the longest suite takes some minutes in one process.
_SECONDS = 900


def run(
    python: str,
    target: str,
    suite: str,
    *,
    store: str = "redis",
    jobs: int = 1,
    only: str = "*",
    as_is: bool = False,
) -> report.SuiteReport:
    """Runs a suite in *jobs* processes, each with its own store."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        tasks, processes = [], []
        shared = stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-upstream-"))
        for _ in range(jobs):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-upstream-"))
            backend = stack.enter_context(BACKENDS[store]())
            tasks.append(
                SuiteTask(
                    target=target,
                    suite=suite,
                    uri=backend.over_tcp(),
                    folder=folder,
                    shared=shared,
                    only=only,
                    as_is=as_is,
                )
            )
            processes.append(stack.enter_context(_process(python, tasks[-1])))
        _wait(processes, tasks)
        return report.gather(
            target, suite, time.monotonic() - began, [task.results for task in tasks]
        )


@contextlib.contextmanager
def _process(python: str, task: SuiteTask) -> Iterator[subprocess.Popen[bytes]]:
    # Stock's tests read their settings from the environment.
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("ZAQAR_")}
    path = os.pathsep.join([str(_ROOT), *filter(None, [inherited.get("PYTHONPATH")])])
    with (Path(task.folder) / "log").open("wb") as log:
        process = subprocess.Popen(
            [python, "-m", "tests.upstream.inside", task.written()],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=inherited | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=task.folder,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait(processes: list[subprocess.Popen[bytes]], tasks: list[SuiteTask]) -> None:
    """Waits for the processes; raises RuntimeError with the log of a failed one."""
    end = time.monotonic() + _SECONDS
    for process, task in zip(processes, tasks, strict=True):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0, end - time.monotonic()))
        if process.returncode:
            raise RuntimeError((Path(task.folder) / "log").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--target", default="zaqar-redis", help=f"{[*TARGETS]} or module:NAME")
    parser.add_argument(
        "--python",
        type=os.path.abspath,
        default=sys.executable,
        help="interpreter of an environment that has zaqar",
    )
    parser.add_argument("--store", choices=BACKENDS, default="redis")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="*", help="pattern of the tests' names")
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="do not replace MongoDB's classes, and run inapplicable tests too",
    )
    parser.add_argument("--output", type=Path, default=Path("upstream-results"))
    options = parser.parse_args()
    done = run(
        options.python,
        options.target,
        options.suite,
        store=options.store,
        jobs=options.jobs,
        only=options.only,
        as_is=options.as_is,
    )
    return _print_summary(done, done.write(options.output))


def _print_summary(done: report.SuiteReport, path: Path) -> int:
    listed = inapplicable()
    wrong = done.wrong(listed)
    for name, ending in sorted(wrong.items()):
        print(f"{ending.outcome} {name}: {ending.reason}")
    for name in done.needless(listed):
        print(f"listed as inapplicable, but passes: {name}")
    print(f"zaqar {done.zaqar}, {done.suite} on {done.target}: {done.counts}")
    print(f"{len(wrong)} unexpected outcomes in {done.seconds} s; see {path}")
    return 1 if wrong or not done.tests else 0


if __name__ == "__main__":
    sys.exit(main())
