# SPDX-License-Identifier: Apache-2.0
"""A worker dies while it serves: others continue, a new one starts, nothing is lost."""

from __future__ import annotations

import os
import signal

from tests.faults import load
from tests.support import servers
from tests.support.backends import Backend


def test_killed_worker_loses_and_duplicates_nothing(redis_server: Backend, project: str) -> None:
    with servers.service(redis_server.uri, workers=2, options=load.OPTIONS) as service:
        # Enough clients for both workers to have some.
        with load.QueueLoad(service, project, keyed=6, plain=3, takers=3) as clients:
            clients.wait_for_more()
            for _ in range(2):
                before = service.workers()
                assert len(before) == 2
                os.kill(before[0], signal.SIGKILL)
                clients.wait_for_more()
                servers.wait_for(
                    lambda gone=before[0]: _replaced(service, gone),  # type: ignore[misc]  # mypy: lambda defaults
                    "a new worker",
                )
        clients.check()
        # Redis was available all the time, so no request may have been refused.
        assert clients.statuses[503] == 0


def _replaced(service: servers.RunningService, gone: int) -> bool:
    workers = service.workers()
    return len(workers) == 2 and gone not in workers
