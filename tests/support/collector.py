# SPDX-License-Identifier: Apache-2.0
"""A collector of OpenTelemetry, for tests: it keeps what it is sent over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.http_handlers import QuietHandler, local_server

AnyValue = str | int


class Collector:
    def __init__(self, port: int = 0) -> None:
        """*port*: 0 is any free port."""
        #: in the order in which they came
        self.spans: list[Span] = []
        #: of the process that sent the last ones
        self.resource: dict[str, AnyValue] = {}
        collector = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                collector.receive(self.body())
                self.answer(200)

        self._server = local_server(Handler, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a service needs to send here at once."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def receive(self, data: bytes) -> None:
        for of_process in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.resource = attributes(of_process.resource)
            for of_scope in of_process.scope_spans:
                self.spans += of_scope.spans

    def wait_for(self, wanted: Callable[[Span], bool], seconds: float = 60.0) -> Span:
        """Returns the first span that is *wanted*, once it has come."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if found := next(filter(wanted, list(self.spans)), None):
                return found
            time.sleep(0.02)
        raise AssertionError(f"no such span; there are {[span.name for span in self.spans]}")


def attributes(of: object) -> dict[str, AnyValue]:
    """Returns the attributes of spans, links, resources and points: texts and integers."""
    found: dict[str, AnyValue] = {}
    for pair in of.attributes:  # type: ignore[attr-defined]  # of generated classes
        kind = pair.value.WhichOneof("value")
        if kind in ("string_value", "int_value"):
            found[pair.key] = getattr(pair.value, kind)
    return found
