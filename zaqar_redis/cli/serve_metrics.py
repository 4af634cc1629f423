# SPDX-License-Identifier: Apache-2.0
"""The metrics of ``zaqar-redis serve``: gunicorn's hooks for what its workers count.

A process without workers, like ``zaqar-redis notify``, is its own only worker.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from zaqar_redis.conf.groups import MetricsSettings
from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.log_events import count_log_events
from zaqar_redis.metrics.merged import MergedMetrics
from zaqar_redis.metrics.reporter import WorkerReporter
from zaqar_redis.metrics.server import MetricsServer
from zaqar_redis.metrics.shared import WorkerLock

if TYPE_CHECKING:
    from zaqar_redis.metrics.otlp import MetricsSender


class ServiceMetrics:
    """Serves the metrics of the workers from their parent process, and sends them."""

    def __init__(self, settings: MetricsSettings) -> None:
        """Listens on the port.  Raises BadConfiguration when that fails."""
        self._merged = MergedMetrics()
        self._server: MetricsServer | None = None
        if settings.port:
            self._server = MetricsServer(settings.bind, settings.port, self._merged)
        self._sender: MetricsSender | None = None
        if settings.otlp_interval:
            from zaqar_redis.metrics.otlp import MetricsSender  # of an extra

            self._sender = MetricsSender(self._merged, settings.otlp_interval)
        #: of the worker that reads the chosen queues
        self.lock = WorkerLock()

    def hooks(self) -> dict[str, Any]:
        """Returns gunicorn's settings."""
        return {
            "when_ready": self._on_ready,
            "pre_fork": self._before_fork,
            "post_fork": self._after_fork,
            "on_exit": self._on_exit,
        }

    @contextlib.asynccontextmanager
    async def of_this_process(self) -> AsyncIterator[None]:
        """Serves and sends what this process counts, which has no workers."""
        slot = self._merged.open_slot()
        slot.begin()
        reporter = WorkerReporter(slot)
        reporter.start()
        self._on_ready(None)
        try:
            yield
        finally:
            await reporter.stop()
            self._on_exit(None)

    def count_log_events(self) -> None:
        """Counts the events of the log, which has just begun."""
        count_log_events()

    def _on_ready(self, arbiter: Any) -> None:
        self.count_log_events()
        for each in (self._server, self._sender):
            if each is not None:
                each.start()

    def _before_fork(self, arbiter: Any, worker: Any) -> None:
        worker.slot = self._merged.open_slot()

    def _after_fork(self, arbiter: Any, worker: Any) -> None:
        if self._server is not None:
            self._server.close()
        definitions.reset()
        worker.slot.begin()

    def _on_exit(self, arbiter: Any) -> None:
        if self._sender is not None:
            self._sender.close()  # workers have reported for the last time
