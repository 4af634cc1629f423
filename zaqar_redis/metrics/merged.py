# SPDX-License-Identifier: Apache-2.0
"""The metrics of all workers, added up in their parent process."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.shared import WorkerSlot
from zaqar_redis.metrics.values import Histogram, Labels, Metric, Row, Rows, Snapshot

#: The label of metrics that have a row for each worker.
WORKER = "worker"


class MergedMetrics(Collector):
    """Adds up what workers have written; counts on from what those had that are gone.

    Workers come and go in the main thread, and another one reads.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._slots: dict[int, WorkerSlot] = {}
        #: of workers that are gone
        self._ended: Snapshot = {}
        definitions.BUILD.set(1, version("zaqar-redis"), platform.python_version())

    def open_slot(self) -> WorkerSlot:
        """Returns the memory of a worker that is about to start."""
        with self._guard:
            self._close_ended()
            number = next(each for each in range(1, 10_000) if each not in self._slots)
            slot = self._slots[number] = WorkerSlot(number)
        return slot

    def _close_ended(self) -> None:
        """Keeps what workers have counted that are gone, and frees their memory."""
        for slot in [each for each in self._slots.values() if each.has_ended]:
            last, _ = slot.read()
            lasting = {
                name: rows
                for name, rows in _labelled(last, slot.number).items()
                if definitions.METRICS[name].outlives_worker
            }
            self._ended = _merge([self._ended, lasting])
            del self._slots[slot.number]
            slot.close()
            definitions.WORKER_EXITS.total += 1

    def snapshot(self) -> Snapshot:
        """Returns what all processes have counted, those that are gone included."""
        with self._guard:
            self._close_ended()
            definitions.WORKERS.set(len(self._slots))
            found: list[Snapshot] = [self._ended, self._own()]
            ages = []
            for slot in self._slots.values():
                last, age = slot.read()
                found.append(_labelled(last, slot.number))
                ages.append(((str(slot.number),), [age]))
        merged = dict(_merge(found))
        merged[definitions.WORKER_AGE.name] = ages
        return merged

    def _own(self) -> Snapshot:
        """Returns what this process has counted; nothing if it is a worker and reports that."""
        if any(slot.is_own for slot in self._slots.values()):
            return {}
        return {
            name: rows
            for name, rows in definitions.snapshot().items()
            if not definitions.METRICS[name].per_worker
        }

    def collect(self) -> Iterator[Family]:
        """Yields all metrics, as Prometheus' library wants them."""
        for name, rows in self.snapshot().items():
            yield family(definitions.METRICS[name], rows)

    def describe(self) -> Iterable[Family]:
        """Yields all metrics without their values."""
        return [family(metric, ()) for metric in definitions.METRICS.values()]


def all_labels(metric: Metric) -> Labels:
    """Returns the labels that a metric is served with."""
    return (WORKER, *metric.labels) if metric.per_worker else metric.labels


def family(metric: Metric, rows: Rows) -> Family:
    """Returns rows as Prometheus' library wants them."""
    labels = all_labels(metric)
    if isinstance(metric, Histogram):
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=labels)
        bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
        for values, row in rows:
            total = 0.0
            buckets = []
            for bound, number in zip(bounds, row[1:], strict=True):
                total += number
                buckets.append((bound, total))
            histogram.add_metric(values, buckets, row[0])
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    plain = kind(metric.name, metric.help, labels=labels)
    for values, row in rows:
        plain.add_metric(values, row[0])
    return plain


def _labelled(snapshot: Snapshot, worker: int) -> Snapshot:
    """Returns the snapshot of a worker, with its number where a metric has a row for each."""
    return {
        name: [((str(worker), *labels), row) for labels, row in rows]
        if definitions.METRICS[name].per_worker
        else rows
        for name, rows in snapshot.items()
    }


def _merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    found: dict[str, dict[Labels, list[Row]]] = {}
    for snapshot in snapshots:
        for name, rows in snapshot.items():
            by_labels = found.setdefault(name, {})
            for labels, row in rows:
                by_labels.setdefault(labels, []).append(row)
    return {
        name: [
            (labels, definitions.METRICS[name].combine(rows)) for labels, rows in by_labels.items()
        ]
        for name, by_labels in found.items()
    }
