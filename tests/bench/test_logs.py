# SPDX-License-Identifier: Apache-2.0
"""A server that failed where nobody reads it fails whoever started it."""

from __future__ import annotations

import pytest

from tests import servers
from zaqar_redis.bench import logs
from zaqar_redis.bench.service import Failed

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
def test_what_a_log_must_not_have_is_found_and_shown(wrong: str) -> None:
    with pytest.raises(Failed, match="the log of the service has") as failure:
        logs.check("the service", f"{_LINE}store: redis://localhost\n{wrong}")
    assert wrong.strip() in str(failure.value)


def test_a_log_that_tells_of_faults_with_their_reasons_is_fine() -> None:
    logs.check("the service", f"{_LINE}no connection to redis://localhost: TimeoutError\n")
    logs.check("the service", "")


def test_a_service_whose_log_has_a_traceback_fails_its_test(
    redis_server: servers.RedisServer,
) -> None:
    with (
        pytest.raises(Failed, match="the log of the service has"),
        servers.service(redis_server.uri) as service,
        service.log.open("a") as log,
    ):
        log.write("Traceback (most recent call last):\n")
