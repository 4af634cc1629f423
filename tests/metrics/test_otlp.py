# SPDX-License-Identifier: Apache-2.0
"""The metrics of a service, as an OpenTelemetry collector receives them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Iterator, Mapping

import httpx
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from tests.faults import load
from tests.support import servers
from tests.support.backends import Backend
from tests.support.collector import Collector
from tests.support.metrics import Samples, Scraper, fallen, measured_service, samples_of
from zaqar_redis.metrics import definitions, telemetry
from zaqar_redis.metrics.merged import MergedMetrics
from zaqar_redis.metrics.otlp import MetricsSender

#: What changes only when a test does something.
_SETTLED = ("zaqar_redis_http_", "zaqar_redis_messages_")
_POSTED = ("zaqar_redis_messages_posted_total", frozenset[tuple[str, str]]())
_SENT = {"otlp_interval": 1}


@pytest.fixture(scope="module")
def measured(
    redis_server: Backend, collector: Collector
) -> Iterator[tuple[servers.RunningService, Scraper]]:
    options = {"metrics": {**_SENT, "queues": "sent/q", "queues_interval": 1}}
    with measured_service(
        redis_server.uri, options=options, environment=collector.environment
    ) as running:
        yield running


def _post(service: servers.RunningService, number: int) -> None:
    for _ in range(number):  # each connection may reach another worker
        answer = httpx.post(
            f"{service.url}/v2/queues/q/messages",
            headers=load.headers("sent"),
            json={"messages": [{"body": 1, "ttl": 60}]},
            verify=False,  # else it reads all certificates
            timeout=60,
        )
        assert answer.status_code == 201


def _settled(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if key[0].startswith(_SETTLED)}


def _last(collector: Collector) -> Samples:
    return samples_of(collector.metrics[-1]) if collector.metrics else {}


def test_collector_receives_the_names_values_and_buckets_of_the_port(
    measured: tuple[servers.RunningService, Scraper], collector: Collector
) -> None:
    service, scraper = measured
    _post(service, 5)

    def is_received() -> bool:
        served = {
            key: value
            for key, value in scraper.samples().items()
            if key[0].startswith("zaqar_redis_")
        }
        received = _last(collector)
        if received.get(_POSTED) != 5:
            return False
        return served.keys() == received.keys() and _settled(served) == _settled(received)

    servers.wait_for(is_received, "the values of the port to be received")
    timed = [name for name, _ in _settled(_last(collector)) if name.endswith("_seconds_bucket")]
    assert timed


def test_counters_count_since_the_start_but_those_of_the_store_since_an_unknown_time(
    measured: tuple[servers.RunningService, Scraper], collector: Collector
) -> None:
    stored_total = "zaqar_redis_queue_posted_total"

    def with_queue() -> list[dict[str, Metric]]:
        """Returns what has a queue: it is away while no worker reads it."""
        return [each for each in collector.metrics if stored_total in each]

    servers.wait_for(lambda: bool(with_queue()), "metrics to be received")
    metrics = with_queue()[-1]
    posted = metrics["zaqar_redis_messages_posted_total"]
    assert posted.description == definitions.POSTED.help
    assert posted.sum.is_monotonic
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    lag = metrics["zaqar_redis_event_loop_lag_seconds"].histogram
    assert posted.sum.aggregation_temporality == lag.aggregation_temporality == cumulative
    [point] = posted.sum.data_points
    assert 0 < point.start_time_unix_nano < point.time_unix_nano
    assert lag.data_points[0].start_time_unix_nano == point.start_time_unix_nano
    [stored] = metrics[stored_total].sum.data_points
    assert stored.start_time_unix_nano == 0
    assert collector.resource["service.name"] == "zaqar_redis"
    assert collector.resource["service.instance.id"]


def test_received_counters_do_not_fall_when_a_worker_is_killed(
    measured: tuple[servers.RunningService, Scraper], collector: Collector
) -> None:
    service, _ = measured
    os.kill(service.workers()[0], signal.SIGKILL)
    exits = ("zaqar_redis_worker_exits_total", frozenset[tuple[str, str]]())
    servers.wait_for(lambda: _last(collector).get(exits) == 1, "the exit to be received")
    received = [
        # Queues are away until another worker reads them.
        {key: value for key, value in samples_of(metrics).items() if "_queue_" not in key[0]}
        for metrics in collector.metrics
    ]
    for before, now in itertools.pairwise(received):
        assert fallen(before, now) == {}


def test_service_without_a_port_sends_once_its_collector_is_there_and_when_it_stops(
    redis_server: Backend,
) -> None:
    port = servers.free_port()
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5",
    }
    options = {"metrics": _SENT}
    with servers.service(redis_server.uri, options=options, environment=environment) as service:
        _post(service, 3)
        servers.wait_for(lambda: "collector_lost" in service.log.read_text(), "the first attempt")
        collector = Collector(port)
        try:
            servers.wait_for(lambda: _last(collector).get(_POSTED) == 3, "metrics to be received")
            _post(service, 4)
            service.process.terminate()
            service.process.wait(60)
            # The service has sent them; it does not wait for a slow answer.
            servers.wait_for(lambda: _last(collector).get(_POSTED) == 7, "the last metrics")
        finally:
            collector.close()


@contextlib.contextmanager
def _sending(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], interval: float = 60
) -> Iterator[None]:
    """Sends metrics of this process: once at the end, unless the interval is less."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    sender = MetricsSender(MergedMetrics(), interval)
    sender.start()
    yield
    sender.close()


def test_collector_that_refuses_is_logged_once_and_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector = Collector()
    collector.refuses = True
    # Longer than an answer takes on a busy machine: no export fails but those that are refused.
    environment = {**collector.environment, "OTEL_EXPORTER_OTLP_TIMEOUT": "60"}
    with _sending(monkeypatch, environment, interval=0.05):
        servers.wait_for(lambda: collector.refused > 2, "more attempts")
        collector.refuses = False
        servers.wait_for(lambda: len(collector.metrics) > 2, "metrics to be received")
    collector.close()
    actions = [vars(record)["action"] for record in caplog.records]
    assert actions == ["collector_lost", "collector_back"]


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("http://u:geheim@127.0.0.1:{}/v1/metrics?key=geheim", "Connection refused"),
        ("htp://u:geheim@127.0.0.1:{}/v1/metrics?key=geheim", "'htp://127.0.0.1:{}/v1/metrics'"),
    ],
)
def test_collector_out_of_reach_is_logged_with_the_reason_but_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    endpoint: str,
    reason: str,
) -> None:
    port = servers.free_port()
    environment = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint.format(port),
        # The exporter names a reason before it tries again, after a second; not twice.
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2.3",
    }
    with _sending(monkeypatch, environment):
        pass
    servers.wait_for(lambda: bool(caplog.messages), "the reason")
    [message] = caplog.messages
    assert reason.format(port) in message
    assert "geheim" not in message


@pytest.mark.parametrize("headers", ["a: geheim", "a=geheim%0A2"])
def test_headers_that_cannot_be_sent_are_logged_once_without_their_values(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, headers: str
) -> None:
    # One that has logged nothing yet.
    monkeypatch.setattr(telemetry.HEADER_LOG, "filters", [telemetry.HeaderFilter()])
    collector = Collector()
    environment = {**collector.environment, "OTEL_EXPORTER_OTLP_HEADERS": headers}
    with _sending(monkeypatch, environment, interval=0.01):
        servers.wait_for(lambda: bool(caplog.messages), "the header to be logged")
    collector.close()
    [message] = caplog.messages
    assert "header" in message
    assert "geheim" not in message


@pytest.mark.parametrize(("disabled", "sends"), [("true", False), ("false", True)])
def test_variable_that_disables_opentelemetry_disables_sending(
    monkeypatch: pytest.MonkeyPatch, disabled: str, sends: bool
) -> None:
    collector = Collector()
    with _sending(monkeypatch, {**collector.environment, "OTEL_SDK_DISABLED": disabled}):
        pass
    if sends:  # the sender does not wait for a slow answer
        servers.wait_for(lambda: bool(collector.metrics), "metrics to be received")
    collector.close()
    assert bool(collector.metrics) == sends
