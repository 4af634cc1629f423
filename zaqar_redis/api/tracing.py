# SPDX-License-Identifier: Apache-2.0
"""Spans of requests, by OpenTelemetry.

A request of the queue API is a span, in the trace that its ``traceparent`` names (W3C Trace
Context).  A message carries the context of the span that posted it, and what claims, reads or
deletes the message links to that, as the semantic conventions for messaging want.  These are not
final: names of attributes may change.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Message

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, SpanContext

#: By action: name and type of the operation, as the conventions for messaging want.
_OPERATIONS = {
    "messages:create": ("post", "send"),
    "messages:get": ("get", "receive"),
    "messages:get_all": ("list", "receive"),
    "messages:delete": ("delete", "settle"),
    "messages:delete_all": ("delete", "settle"),
    "claims:create": ("claim", "receive"),
    "claims:get": ("show_claim", "receive"),
    "claims:update": ("renew", "settle"),
    "claims:delete": ("release", "settle"),
}


#: Seconds that a process which stops takes to send what is left.
_LAST_SECONDS = 3.0


class _HeaderFilter(logging.Filter):
    """Logs that OpenTelemetry cannot read a header without the header: it may be a credential."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = (
            "a header in OTEL_EXPORTER_OTLP_HEADERS, or OTEL_EXPORTER_OTLP_TRACES_HEADERS, is "
            "not sent: write it as name=value, with the value URL-encoded"
        )
        record.args = ()
        return True


logging.getLogger("opentelemetry.util.re").addFilter(_HeaderFilter())


class TracingSettings(msgspec.Struct, frozen=True):
    enabled: Annotated[
        bool,
        "Send spans of requests to an OpenTelemetry collector. The variables OTEL_* of the "
        "environment say where and what, e.g. OTEL_EXPORTER_OTLP_ENDPOINT and "
        "OTEL_TRACES_SAMPLER. It needs the extra opentelemetry.",
    ] = False


class RequestSpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """What messages carry that the request posts; empty when nobody samples the span."""
        context = self._span.get_span_context()
        if not context.trace_flags.sampled:
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def add_links(self, messages: Iterable[Message]) -> None:
        """Links the span to those that posted the messages."""
        count = 0
        for message in messages:
            count += 1
            if message.traceparent and (posted := _context(message.traceparent)) is not None:
                self._span.add_link(posted, {"messaging.message.id": message.id})
        self._span.set_attribute("messaging.batch.message_count", count)

    def end(self, status: int, error: BaseException | None = None) -> None:
        """*status*: that of the answer; 0: there is none, the client has left."""
        from opentelemetry.trace import Status, StatusCode

        span = self._span
        if status:
            span.set_attribute("http.response.status_code", status)
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
        if error is not None and (status >= 500 or not status):
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()


class RequestTracing:
    """Makes spans of the requests of one worker, and sends them."""

    def __init__(self, exporter: SpanExporter, resource: Resource) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._exporter = exporter
        self._provider = provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        # Bounded by OTEL_BSP_MAX_QUEUE_SIZE, 2048 spans: beyond, the oldest are dropped.
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = provider.get_tracer("zaqar_redis")
        self._extract = TraceContextTextMapPropagator().extract

    def trace(self, route: ApiRoute) -> ApiRoute:
        """Returns the route with a handler whose requests are spans."""
        return msgspec.structs.replace(route, handler=_TracedHandler(self, route).answer)

    def begin(self, route: ApiRoute, request: Request[Any, Any], queue: str) -> RequestSpan:
        """Begins the span of a request; *queue* is empty where the path names none."""
        from opentelemetry.trace import SpanKind

        attributes = {
            "http.request.method": route.method,
            "http.route": route.path,
            "url.path": request.path,
            "zaqar.project": request.project,
        }
        operation = _OPERATIONS.get(route.action)
        if operation is not None:
            attributes |= {
                "messaging.system": "zaqar",
                "messaging.operation.name": operation[0],
                "messaging.operation.type": operation[1],
                "messaging.destination.name": queue,
                "messaging.client.id": request.client,
            }
        names = ("traceparent", "tracestate")
        carrier = {name: request.header(name.encode()) or "" for name in names}
        return RequestSpan(
            self._tracer.start_span(
                f"{route.method} {route.path}",
                context=self._extract(carrier),
                kind=SpanKind.SERVER,
                attributes=attributes,
            )
        )

    async def close(self) -> None:
        """Sends what is left, for some seconds."""
        sending = asyncio.ensure_future(asyncio.to_thread(self._provider.shutdown))
        _, unfinished = await asyncio.wait([sending], timeout=_LAST_SECONDS)
        if unfinished:
            await asyncio.to_thread(self._exporter.shutdown)  # it retries no more
            await sending


class _TracedHandler(ComposedVerbs):
    def __init__(self, tracing: RequestTracing, route: ApiRoute) -> None:
        self._tracing = tracing
        self._route = route
        self._handler = route.handler
        self._is_named = "{queue}" in route.path or "{topic}" in route.path

    @verb
    def answer(self, request: Request[Any, Any], *params: str) -> Steps[Answer]:
        span = self._tracing.begin(self._route, request, params[0] if self._is_named else "")
        request.span = span
        try:
            answer: Answer = yield self._handler(request, *params)
        except BaseException as error:  # also when the client has left
            span.end(_status(error), error)
            raise
        span.end(answer.status)
        return answer


def _status(error: BaseException) -> int:
    if isinstance(error, errors.Problem):
        return error.status
    return 500 if isinstance(error, Exception) else 0


def _context(traceparent: str) -> SpanContext | None:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
    context = trace.get_current_span(found).get_span_context()
    return context if context.is_valid else None


def load(settings: TracingSettings) -> Callable[[], RequestTracing] | None:
    """Returns a factory for workers, which send from a thread of their own; None: it is off.

    Raises BadConfiguration when OpenTelemetry is missing.
    """
    if not settings.enabled:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise errors.BadConfiguration(
            "[tracing] enabled: it needs OpenTelemetry, of the extra opentelemetry: "
            "pip install '.[opentelemetry]'"
        ) from None
    return lambda: RequestTracing(OTLPSpanExporter(), _resource())


def _resource() -> Resource:
    """Returns what spans of this process say of their sender.

    The environment decides: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
    """
    from opentelemetry.sdk.resources import Resource

    # Not every release of the SDK tells instances apart.
    resource = Resource({"service.instance.id": str(uuid.uuid4())}).merge(Resource.create())
    if str(resource.attributes["service.name"]).startswith("unknown_service"):  # not set
        resource = resource.merge(Resource({"service.name": "zaqar_redis"}))
    return resource
