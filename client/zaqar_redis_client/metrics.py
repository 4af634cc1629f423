# SPDX-License-Identifier: Apache-2.0
"""What a worker does, for Prometheus: needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import REGISTRY, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from zaqar_redis_client.consuming import Consumer
from zaqar_redis_client.worker import Worker


class _Worker(Collector):
    """Reads in a thread of the server, so it copies first what the worker changes."""

    def __init__(self, worker: Worker, consumer: Consumer) -> None:
        self._worker, self._consumer = worker, consumer

    def collect(self) -> Iterator[Metric]:
        consumer, prefix, names = self._consumer, "zaqar_redis_worker_", ("task", "queue")
        queues = {"": ""} | {task.name: task.queue for task in self._worker.tasks.values()}
        jobs = CounterMetricFamily(f"{prefix}jobs", "Jobs that ended", labels=(*names, "outcome"))
        for (task, outcome), count in list(consumer.counts.items()):
            jobs.add_metric((task, queues[task], outcome), count)
        seconds = CounterMetricFamily(f"{prefix}job_seconds", "Time of jobs", labels=names)
        for task, total in list(consumer.seconds.items()):
            seconds.add_metric((task, queues[task]), total)
        running = GaugeMetricFamily(f"{prefix}running", "Jobs that run", labels=names)
        run = [each.task for each in list(consumer.running)]
        for task in self._worker.tasks:
            running.add_metric((task, queues[task]), run.count(task))
        yield from (jobs, seconds, running)
        yield GaugeMetricFamily(f"{prefix}slots", "Concurrency", self._worker.concurrency)
        yield GaugeMetricFamily(f"{prefix}held_messages", "Claimed messages", consumer.held)


def serve(worker: Worker, consumer: Consumer, host: str, port: int) -> None:
    """Serves them until the process ends.  Raises OSError."""
    start_http_server(port, host)
    REGISTRY.register(_Worker(worker, consumer))
