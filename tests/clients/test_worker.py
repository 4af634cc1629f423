# SPDX-License-Identifier: Apache-2.0
"""``examples/worker.py`` does its jobs, gives back those that fail, and stops in good order."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conventions.files import ROOT
from tests.support import servers


def test_worker_does_jobs_gives_back_what_fails_and_stops_in_good_order(
    two_workers: servers.RunningService, project: str, zaqar: Any, queue_name: str, tmp_path: Path
) -> None:
    queue = zaqar.queue(queue_name, force_create=True)
    dead, growing = f"{queue_name}-dead", {"minimum_delay": 60, "backoff_function": "exponential"}
    limits = {"_max_claim_count": 5, "_dead_letter_queue": dead}
    queue.metadata(new_meta=limits)
    queue.post([{"body": {"never": "a job"}}])
    for _ in range(4):
        queue.claim(ttl=60, grace=60).delete()
    queue.metadata(new_meta=limits | {"_redelivery_delay": growing})
    queue.post([{"body": {"job": 1}}, {"body": {"no": "job"}}, {"body": {"job": 2}}])
    said = tmp_path / "worker.log"
    with said.open("w") as out:
        worker = str(ROOT / "examples" / "worker.py")
        command = [sys.executable, worker, two_workers.url, project, queue_name]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    with process:
        servers.wait_for(lambda: said.read_text().count("\n") >= 4, "the jobs to be done")
        queue.post([{"body": {"job": 3}}])
        servers.wait_for(lambda: "done: 3" in said.read_text(), "the worker to go on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert said.read_text().splitlines() == [
        "failed, attempt 5: KeyError('job')",
        "done: 1",
        "failed, attempt 1: KeyError('job')",
        "done: 2",
        "done: 3",
    ]
    left = queue.stats["messages"]
    assert (left["total"], left["free"]) == (1, 1)
    assert not queue.claim(ttl=60, grace=60).id  # it waits
    assert zaqar.queue(dead).stats["messages"]["total"] == 1
