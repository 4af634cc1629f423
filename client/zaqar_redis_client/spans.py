# SPDX-License-Identifier: Apache-2.0
"""Spans of jobs, in the traces of what has posted them, and durations: needs OpenTelemetry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from time import monotonic

from zaqar_redis_client.records import DraftFields, Message

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    _HAS_TRACES = False
else:
    _HAS_TRACES = True
    _TRACER = trace.get_tracer("zaqar_redis_client")
    _DURATION = metrics.get_meter("zaqar_redis_client").create_histogram(
        "messaging.process.duration", "s", "How long jobs run, failed ones by their error."
    )
    _PROPAGATOR = TraceContextTextMapPropagator()

#: Of W3C Trace Context, in a message as in HTTP.
_PARENT = "traceparent"


def in_trace(fields: DraftFields) -> DraftFields:
    """Returns fields of a message that belongs to the current span, if that is sampled."""
    if not _HAS_TRACES or not trace.get_current_span().get_span_context().trace_flags.sampled:
        return fields
    context: dict[str, str] = {}
    _PROPAGATOR.inject(context)
    return {**fields, "attributes": {_PARENT: context[_PARENT], **fields.get("attributes", {})}}


@contextlib.contextmanager
def span_of(task: str, queue: str, message: Message) -> Iterator[None]:
    """Makes what follows a span, and measures it; an error ends it as failed."""
    if not _HAS_TRACES:
        yield
        return
    context = _PROPAGATOR.extract({_PARENT: str(message.attributes.get(_PARENT, ""))})
    attributes = {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "code.function.name": task,
    }
    of_span = attributes | {"messaging.message.id": message.id}
    began = monotonic()
    try:
        with _TRACER.start_as_current_span(
            f"process {task}", context, trace.SpanKind.CONSUMER, of_span
        ):
            yield
    except BaseException as error:
        attributes["error.type"] = type(error).__name__
        raise
    finally:
        _DURATION.record(monotonic() - began, attributes)
