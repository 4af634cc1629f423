# SPDX-License-Identifier: Apache-2.0
"""A worker's reports: it measures itself, and writes what it has counted, each second."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import time
from pathlib import Path

from zaqar_redis import runner
from zaqar_redis.metrics import definitions, sampling
from zaqar_redis.metrics.log_events import count_log_events
from zaqar_redis.metrics.process_load import LOAD, resident_memory
from zaqar_redis.metrics.shared import SnapshotTooLarge, WorkerSlot

LOG = logging.getLogger(__name__)

#: Seconds between samples.
_SAMPLE_INTERVAL = 0.1
#: Samples between reports; what was counted since the last one is lost when a worker is killed.
_REPORT_EVERY = 10
#: Reports between counts of open files: with thousands of them a count takes milliseconds.
_FILES_EVERY = 15
_FILES = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")


class WorkerReporter:
    def __init__(self, slot: WorkerSlot) -> None:
        self._slot = slot
        self._reports = 0
        self._too_large = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Reports from now on."""
        count_log_events()
        self._task = asyncio.create_task(self._run(), name="metrics")

    async def stop(self) -> None:
        """Reports for the last time."""
        if self._task is not None:
            await runner.cancel(self._task)

    async def _run(self) -> None:
        try:
            while True:
                self.report()
                for _ in range(_REPORT_EVERY):
                    await LOAD.sleep(_SAMPLE_INTERVAL)
                    sampling.sample()
        finally:
            self.report()

    def report(self) -> None:
        try:
            if self._reports % _FILES_EVERY == 0:
                _measure_files()
            self._reports += 1
            definitions.WORKER_CPU.total = time.process_time()
            definitions.WORKER_MEMORY.set(resident_memory())
            self._slot.write(definitions.snapshot())
        except SnapshotTooLarge:
            if not self._too_large:
                self._too_large = True
                LOG.error(
                    "the metrics of this worker do not fit in its memory for them, and stand "
                    "still: lower [metrics] queues_max",
                    extra={"action": "metrics_too_large"},
                )
        except Exception:  # the next report may succeed
            LOG.exception("cannot report metrics", extra={"action": "metrics_failed"})


def _measure_files() -> None:
    definitions.WORKER_FILES.set(len(os.listdir(_FILES)))
    definitions.WORKER_FILES_MAX.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
