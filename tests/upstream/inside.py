# SPDX-License-Identifier: Apache-2.0
"""The process that has zaqar in it: prepares a driver and runs tests on it."""

from __future__ import annotations

import contextlib
import copy
import fnmatch
import os
import sys
import unittest
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tests.upstream import clock, configs, paths, places, suites, targets
from tests.upstream.inapplicable import needless, racing
from tests.upstream.recorder import Recorder
from tests.upstream.task import Task

#: For tests that lose a race with a thread of their own now and then.
_MORE_TRIES = 2


def run(task: Task) -> None:
    target = targets.find(task.target)
    uri = target.uri.format(port=task.port, socket=task.socket)
    os.environ |= suites.environment(task.suite, uri, str(task.configs))
    configs.make(_installed_configs(), task.configs, target, uri)
    places.lend(target)
    if target.data.startswith("zaqar_redis."):
        clock.lend()
        paths.lend()
    with contextlib.nullcontext() if task.as_is else places.of_mongodb(target):
        tests = _wanted(suites.tests(task.suite, target), task)
    with task.results.open("w") as output:
        recorder = Recorder(output, _store(task).flushall)
        recorder.plan(tests, metadata.version("zaqar"))
        for test in _mine(tests, Path(task.shared)):
            _run(test, recorder)


def _run(test: unittest.TestCase, recorder: Recorder) -> None:
    # Copies: a test of stock's that has run has changed itself.
    more = [copy.copy(test) for _ in range(_MORE_TRIES if test.id() in racing() else 0)]
    # Fixtures of a class would not be run; stock has none.
    test.run(recorder)
    for again in more:
        if test.id() in recorder.failed:
            again.run(recorder)


def _installed_configs() -> Path:
    (tests,) = import_module("zaqar.tests").__path__
    return Path(tests) / "etc"


def _wanted(tests: list[unittest.TestCase], task: Task) -> list[unittest.TestCase]:
    left_out = () if task.as_is else needless()
    return [
        test
        for test in tests
        if fnmatch.fnmatchcase(test.id(), task.only) and test.id() not in left_out
    ]


def _mine(tests: list[unittest.TestCase], shared: Path) -> Iterator[unittest.TestCase]:
    """Each test that no other process has taken before."""
    for number, test in enumerate(tests):
        with contextlib.suppress(FileExistsError):
            (shared / str(number)).touch(exist_ok=False)
            yield test


def _store(task: Task) -> Any:
    return import_module("redis").Redis(unix_socket_path=task.socket)


if __name__ == "__main__":
    run(Task.read(sys.argv[1]))
    # Not the usual way: threads that notify subscribers who are not there would be
    # waited for, up to two minutes.
    os._exit(0)
