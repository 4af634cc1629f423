# SPDX-License-Identifier: Apache-2.0
"""Failures in a server's log fail the test or run that started it."""

from __future__ import annotations

import pytest

from tests.support import servers
from tests.support.backends import Backend
from zaqar_redis.benchmarks.logs import check_log
from zaqar_redis.benchmarks.service import BenchmarkFailed

_LINE = "[2026-11-22 01:24:16,000] [6928] [WARNING] "


@pytest.mark.parametrize(
    "wrong",
    [
        f"{_LINE}the sweeper failed\nTraceback (most recent call last):\n  File ...\n",
        f"{_LINE}Error while closing socket [Errno 9] Bad file descriptor\n",
        f"{_LINE}no connection to redis://localhost: \n",
        f"{_LINE}no connection to redis://localhost:",
    ],
)
def test_unexplained_failure_in_log_is_reported(wrong: str) -> None:
    with pytest.raises(BenchmarkFailed, match="the log of the service shows a bug") as failure:
        check_log("the service", f"{_LINE}store: redis://localhost\n{wrong}")
    assert wrong.strip() in str(failure.value)


def test_explained_failure_in_log_is_accepted() -> None:
    check_log("the service", f"{_LINE}no connection to redis://localhost: TimeoutError\n")
    check_log("the service", "")


def test_traceback_in_service_log_fails_the_test(
    redis_server: Backend,
) -> None:
    with (
        pytest.raises(BenchmarkFailed, match="the log of the service shows a bug"),
        servers.service(redis_server.uri) as service,
        service.log.open("a") as log,
    ):
        log.write("Traceback (most recent call last):\n")
