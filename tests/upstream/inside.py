# SPDX-License-Identifier: Apache-2.0
"""The process in which zaqar is installed: prepares a driver and runs tests on it."""

from __future__ import annotations

import contextlib
import copy
import fnmatch
import functools
import os
import sys
import unittest
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

import redis.utils

from tests.upstream import clock, configs, mongodb_stubs, paths, suites, targets
from tests.upstream.inapplicable import needless, racing
from tests.upstream.recorder import Recorder
from tests.upstream.task import SuiteTask
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace.settings import BatchSettings

#: Attempts for tests that sometimes lose a race with a thread of their own.
_MORE_TRIES = 2


def run(task: SuiteTask) -> None:
    target = targets.find(task.target)
    uri = target.uri.format(uri=task.uri)
    os.environ |= suites.environment(task.suite, uri, str(task.configs))
    configs.make(_installed_configs(), task.configs, target, uri)
    # Each connection parses the metadata of redis-py's package, for its version.
    redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)
    mongodb_stubs.lend(target)
    if target.data.startswith("zaqar_redis."):
        clock.lend()
        paths.lend(uri)
    with contextlib.nullcontext() if task.as_is else mongodb_stubs.of_mongodb(target):
        tests = _wanted(suites.tests(task.suite, target), task)
    with task.results.open("w") as output:
        recorder = Recorder(
            output, functools.partial(_empty, blocking.client(task.uri, BatchSettings()))
        )
        recorder.plan(tests, metadata.version("zaqar"))
        for test in _unclaimed(tests, Path(task.shared)):
            _run(test, recorder)


def _run(test: unittest.TestCase, recorder: Recorder) -> None:
    # Copies: a run changes the state of stock's test objects.
    more = [copy.copy(test) for _ in range(_MORE_TRIES if test.id() in racing() else 0)]
    # Class fixtures would not run; stock has none.
    test.run(recorder)
    for again in more:
        if test.id() in recorder.failed:
            again.run(recorder)


def _installed_configs() -> Path:
    (tests,) = import_module("zaqar.tests").__path__
    return Path(tests) / "etc"


def _wanted(tests: list[unittest.TestCase], task: SuiteTask) -> list[unittest.TestCase]:
    left_out = () if task.as_is else needless()
    return [
        test
        for test in tests
        if fnmatch.fnmatchcase(test.id(), task.only) and test.id() not in left_out
    ]


def _unclaimed(tests: list[unittest.TestCase], shared: Path) -> Iterator[unittest.TestCase]:
    """Yields each test that no other process has claimed."""
    for number, test in enumerate(tests):
        with contextlib.suppress(FileExistsError):
            (shared / str(number)).touch(exist_ok=False)
            yield test


def _empty(store: blocking.BlockingClient) -> None:
    for node in store.nodes():
        node.command("FLUSHALL")


if __name__ == "__main__":
    run(SuiteTask.read(sys.argv[1]))
    # No ordinary exit: it would wait up to two minutes for threads that notify
    # unreachable subscribers.
    os._exit(0)
