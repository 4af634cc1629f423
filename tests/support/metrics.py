# SPDX-License-Identifier: Apache-2.0
"""Metrics of a running service, as Prometheus reads them."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support import servers

#: By name and labels.
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraper:
    """Reads the port for metrics."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/metrics"
        self._seconds: list[float] = []

    @property
    def typical_seconds(self) -> float:
        """The median of all scrapes: on a busy machine single ones may take long."""
        return statistics.median(self._seconds)

    def text(self) -> str:
        began = time.monotonic()
        answer = httpx.get(self.url, timeout=30, verify=False)  # else it reads all certificates
        self._seconds.append(time.monotonic() - began)
        answer.raise_for_status()
        return answer.text

    def samples(self) -> Samples:
        """Returns all values."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Returns the sum of all values of ``zaqar_redis_NAME`` that have these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (found, its_labels), value in self.samples().items()
            if found == f"zaqar_redis_{name}" and wanted <= its_labels
        )

    def wait_for(self, name: str, expected: float, **labels: str) -> None:
        """Waits until the sum is as expected: workers report once a second."""
        servers.wait_for(
            lambda: self.value(name, **labels) == expected, f"{name} {labels} to be {expected}"
        )


def fallen(before: Samples, now: Samples) -> dict[object, tuple[float, float | None]]:
    """Returns counters and histograms that are less than before, or gone: none may be."""
    return {
        (name, labels): (value, now.get((name, labels)))
        for (name, labels), value in before.items()
        if name.endswith(("_total", "_count", "_sum", "_bucket"))
        and now.get((name, labels), -1.0) < value
    }


@contextlib.contextmanager
def measured_service(
    uri: str,
    *words: str,
    workers: int = 2,
    options: Mapping[str, Mapping[str, object]] = {},
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[servers.RunningService, Scraper]]:
    """Runs a service with metrics."""
    port = servers.free_port()
    given = {**options, "metrics": {"port": port, **options.get("metrics", {})}}
    running = servers.service(uri, *words, workers=workers, options=given, environment=environment)
    with running as service:
        yield service, Scraper(port)
