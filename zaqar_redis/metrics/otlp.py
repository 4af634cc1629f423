# SPDX-License-Identifier: Apache-2.0
"""The metrics over OTLP: a thread of the parent process sends them to an OpenTelemetry collector.

They are those that the port serves, with their names: the collector's Prometheus exporters add
``_total`` to a counter only if it is not there.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from zaqar_redis import errors
from zaqar_redis.metrics import definitions, telemetry, threads
from zaqar_redis.metrics.merged import MergedMetrics, all_labels, served_name
from zaqar_redis.metrics.values import Histogram, Rows, StoredCounter

LOG = logging.getLogger(__name__)
_EXPORTER_LOG = logging.getLogger(OTLPMetricExporter.__module__)

_CUMULATIVE = AggregationTemporality.CUMULATIVE
#: Of a URL: a password, and a query, which may have a token.  And what a header has.
_SECRETS = re.compile(r"(?<=//)[^/@\s]*@|\?[^\s'\")]*|(?<=in header value): .*")


def create_exporter() -> MetricExporter:
    """Raises BadConfiguration when OpenTelemetry refuses a variable."""
    try:
        return OTLPMetricExporter()
    except Exception as error:  # among others of plug-ins
        raise errors.BadConfiguration(
            "[metrics] otlp_interval: OpenTelemetry refuses the variables OTEL_* of the "
            f"environment: {errors.reason(error)}"
        ) from error


class MetricsSender:
    """Sends the metrics again and again; what fails is not kept: the next values include it."""

    def __init__(self, merged: MergedMetrics, interval: float) -> None:
        """*interval*: seconds."""
        self._merged = merged
        self._interval = interval
        self._resource = telemetry.service_resource()
        self._scope = InstrumentationScope("zaqar_redis")
        #: since when counters count, as Unix time in nanoseconds
        self._started = time.time_ns()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._was_lost = False

    def start(self) -> None:
        """Sends from now on, unless the environment disables OpenTelemetry."""
        if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
            return
        _EXPORTER_LOG.setLevel(logging.WARNING)  # whatever the level of the service's log
        self._thread = threads.start(self._run, "otlp")

    def close(self) -> None:
        """Sends what was counted last, for some seconds."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(telemetry.LAST_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(self._interval)
            try:
                reason = self._send()
            except Exception as error:
                reason = errors.reason(error)
            self._note(reason)

    def _send(self) -> str:
        """Returns why it failed; "": it did not."""
        log = _ExporterLog()
        # With a connection of its own: workers that start meanwhile inherit none that stays open.
        exporter = create_exporter()
        _EXPORTER_LOG.addFilter(log)
        try:
            result = exporter.export(self._data())
        finally:
            _EXPORTER_LOG.removeFilter(log)
            exporter.shutdown()
        if result is MetricExportResult.SUCCESS:
            return ""
        return log.first or "the exporter does not say why"

    def _note(self, reason: str) -> None:
        """Logs that the collector is lost, or back: once, however long it takes."""
        if reason and not self._was_lost:
            LOG.warning(
                "metrics do not reach the OpenTelemetry collector, and are sent again every %g s: "
                "%s",
                self._interval,
                _SECRETS.sub("", reason),
                extra={"action": "collector_lost"},
            )
        elif self._was_lost and not reason:
            LOG.info(
                "metrics reach the OpenTelemetry collector again",
                extra={"action": "collector_back"},
            )
        self._was_lost = bool(reason)

    def _data(self) -> MetricsData:
        now = time.time_ns()
        metrics = [
            _converted(name, rows, self._started, now)
            for name, rows in self._merged.snapshot().items()
            if rows
        ]
        of_scope = ScopeMetrics(self._scope, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [of_scope], "")])


class _ExporterLog(logging.Filter):
    """Keeps what the exporter logs from the service's log, where it would repeat each attempt."""

    def __init__(self) -> None:
        super().__init__()
        #: of the attempts at one time; it says more than those after it
        self.first = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if not self.first:
            causes = [each for each in record.args or () if isinstance(each, Exception)]
            self.first = errors.reason(_root(causes[0])) if causes else record.getMessage()
        return False


def _root(error: BaseException) -> BaseException:
    """Returns the error that an error began with: those around it repeat it, and name objects."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _converted(name: str, rows: Rows, started: int, now: int) -> Metric:
    """Returns rows as OpenTelemetry wants them.  *started*, *now*: Unix time in nanoseconds."""
    metric = definitions.METRICS[name]
    labels = all_labels(metric)
    points = [(dict(zip(labels, values, strict=True)), row) for values, row in rows]
    data: Sum | Gauge | HistogramData
    if isinstance(metric, Histogram):
        histograms = [
            HistogramDataPoint(
                attributes=attributes,
                start_time_unix_nano=started,
                time_unix_nano=now,
                count=int(sum(row[1:])),
                sum=row[0],
                bucket_counts=[int(number) for number in row[1:]],
                explicit_bounds=metric.buckets,
                min=None,  # type: ignore[arg-type]  # it is optional, but not typed so
                max=None,  # type: ignore[arg-type]  # the same
            )
            for attributes, row in points
        ]
        data = HistogramData(histograms, _CUMULATIVE)
    else:
        # What a store counts has begun with the queue, nobody knows when: 0 says so.
        since = 0 if isinstance(metric, StoredCounter) else started
        numbers = [
            NumberDataPoint(attributes, since, now, float(row[0])) for attributes, row in points
        ]
        data = Sum(numbers, _CUMULATIVE, True) if metric.kind == "counter" else Gauge(numbers)
    return Metric(served_name(metric), metric.help, "", data)
