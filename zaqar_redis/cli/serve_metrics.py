# SPDX-License-Identifier: Apache-2.0
"""The metrics of ``zaqar-redis serve``: gunicorn's hooks for what its workers count.

A process without workers, like ``zaqar-redis notify``, is its own only worker.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from zaqar_redis.conf.groups import MetricsSettings
from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.log_events import count_log_events
from zaqar_redis.metrics.merged import MergedMetrics
from zaqar_redis.metrics.reporter import WorkerReporter
from zaqar_redis.metrics.server import MetricsServer
from zaqar_redis.metrics.shared import WorkerLock


class ServiceMetrics:
    """Serves the metrics of the workers from their parent process."""

    def __init__(self, settings: MetricsSettings) -> None:
        """Listens on the port.  Raises BadConfiguration when that fails."""
        self._merged = MergedMetrics()
        self._server = MetricsServer(settings.bind, settings.port, self._merged)
        #: of the worker that reads the chosen queues
        self.lock = WorkerLock()

    def hooks(self) -> dict[str, Any]:
        """Returns gunicorn's settings."""
        return {
            "when_ready": self._on_ready,
            "pre_fork": self._before_fork,
            "post_fork": self._after_fork,
        }

    @contextlib.asynccontextmanager
    async def of_this_process(self) -> AsyncIterator[None]:
        """Serves what this process counts, which has no workers."""
        slot = self._merged.open_slot()
        slot.begin()
        reporter = WorkerReporter(slot)
        reporter.start()
        self._on_ready(None)
        try:
            yield
        finally:
            await reporter.stop()

    def count_log_events(self) -> None:
        """Counts the events of the log, which has just begun."""
        count_log_events()

    def _on_ready(self, arbiter: Any) -> None:
        self.count_log_events()
        self._server.start()

    def _before_fork(self, arbiter: Any, worker: Any) -> None:
        worker.slot = self._merged.open_slot()

    def _after_fork(self, arbiter: Any, worker: Any) -> None:
        self._server.close()
        definitions.reset()
        worker.slot.begin()
