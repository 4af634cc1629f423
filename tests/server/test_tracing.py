# SPDX-License-Identifier: Apache-2.0
"""Requests as spans, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.api.client import NOTHING, ZaqarTestClient
from tests.support import servers
from tests.support.backends import Backend
from tests.support.collector import Collector, attributes
from zaqar_redis.api import tracing

QUEUE = "/v2/queues/{queue}"


@pytest.fixture(scope="module")
def traced(redis_server: Backend, collector: Collector) -> Iterator[str]:
    """The URL of a service whose requests are spans."""
    options = {"tracing": {"enabled": True}}
    with servers.service(
        redis_server.uri, options=options, environment=collector.environment
    ) as running:
        yield running.url


class TracedClient:
    """Sends requests that each belong to a trace of their own."""

    def __init__(self, api: ZaqarTestClient, collector: Collector) -> None:
        self._api = api
        self._collector = collector

    def request(
        self, method: str, path: str, document: object = None, *, status: int, sampled: bool = True
    ) -> tuple[dict[str, Any], Span]:
        """Returns headers and document of the answer as one, and the span of the request."""
        trace, parent = secrets.token_hex(16), secrets.token_hex(8)
        headers = {"traceparent": f"00-{trace}-{parent}-{sampled:02x}"}
        answer = self._api.request(
            method, path, NOTHING if document is None else document, headers=headers
        )
        assert answer.status_code == status, answer.text
        found = {**answer.headers, **(answer.json() if answer.content else {})}
        if not sampled:
            return found, Span()
        span = self._collector.wait_for(lambda span: span.trace_id.hex() == trace)
        assert span.parent_span_id.hex() == parent
        return found, span


@pytest.fixture
def client(traced: str, collector: Collector, project: str) -> Iterator[TracedClient]:
    with httpx.Client(timeout=60) as http:
        yield TracedClient(ZaqarTestClient(http, traced, project), collector)


def _links(span: Span) -> list[tuple[bytes, bytes]]:
    return [(link.trace_id, link.span_id) for link in span.links]


def _post(client: TracedClient, queue: str = "q", *, sampled: bool = True) -> tuple[str, Span]:
    document = {"messages": [{"body": 1, "ttl": 300}]}
    posted, span = client.request(
        "POST", f"/queues/{queue}/messages", document, status=201, sampled=sampled
    )
    [href] = posted["resources"]
    return href.rsplit("/", 1)[1], span


def test_spans_of_claim_and_delete_link_to_that_of_the_post(
    client: TracedClient, collector: Collector
) -> None:
    one, first = _post(client)
    _, second = _post(client)
    assert first.name == f"POST {QUEUE}/messages"
    assert first.kind == Span.SPAN_KIND_SERVER
    found = attributes(first)
    assert (found["http.request.method"], found["http.response.status_code"]) == ("POST", 201)
    assert (found["http.route"], found["url.path"]) == (
        f"{QUEUE}/messages",
        "/v2/queues/q/messages",
    )
    assert found["messaging.destination.name"] == "q"
    assert found["messaging.operation.type"] == "send"
    claimed, claim = client.request("POST", "/queues/q/claims", {"ttl": 300}, status=201)
    assert _links(claim) == [(each.trace_id, each.span_id) for each in (first, second)]
    assert attributes(claim.links[0])["messaging.message.id"] == one
    assert attributes(claim)["messaging.batch.message_count"] == 2
    held = claimed["location"].rsplit("/", 1)[1]
    path = f"/queues/q/messages/{one}?claim_id={held}"
    _, deletion = client.request("DELETE", path, status=204)
    assert _links(deletion) == [(first.trace_id, first.span_id)]
    assert attributes(deletion)["messaging.operation.type"] == "settle"
    assert collector.resource["service.name"] == "zaqar_redis"


def test_description_of_a_traced_service_has_the_texts_of_its_handlers(traced: str) -> None:
    paths = httpx.get(f"{traced}/openapi.json", timeout=60).json()["paths"]
    operations = [each for path in paths.values() for each in path.values()]
    assert all(each["summary"] for each in operations)
    assert len({each["operationId"] for each in operations}) == len(operations)


def test_dead_letter_links_to_the_post_of_its_message(client: TracedClient) -> None:
    client.request(
        "PUT", "/queues/q", {"_max_claim_count": 1, "_dead_letter_queue": "dead"}, status=201
    )
    _, post = _post(client)
    claimed, _ = client.request("POST", "/queues/q/claims", {}, status=201)
    client.request("DELETE", claimed["location"].removeprefix("/v2"), status=204)
    client.request("POST", "/queues/q/claims", {}, status=204)
    _, pop = client.request("DELETE", "/queues/dead/messages?pop=1", status=200)
    assert _links(pop) == [(post.trace_id, post.span_id)]


def test_post_that_nobody_samples_leaves_no_span_and_no_link(client: TracedClient) -> None:
    _post(client, sampled=False)
    _, claim = client.request("POST", "/queues/q/claims", {}, status=201)
    assert _links(claim) == []


def test_refused_request_is_a_span_with_the_error_but_no_failure(client: TracedClient) -> None:
    _, span = client.request("GET", "/queues/q/messages/none", status=404)
    assert attributes(span)["http.response.status_code"] == 404
    assert attributes(span)["error.type"] == "NotFound"
    assert span.status.code == Status.STATUS_CODE_UNSET


@pytest.mark.nightly
def test_requests_are_answered_while_the_collector_is_away(
    redis_server: Backend, project: str
) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{servers.free_port()}"}
    options = {"tracing": {"enabled": True}}
    running = servers.service(redis_server.uri, options=options, environment=away)
    with running as service, httpx.Client(timeout=60) as http:
        api = ZaqarTestClient(http, service.url, project)
        for _ in range(100):
            assert api.post("q", {"body": 1}).status_code == 201


def test_header_that_cannot_be_sent_is_logged_without_its_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a: geheim")
    create = tracing.load(tracing.TracingSettings(enabled=True))
    assert create is not None
    asyncio.run(create().close())
    assert "a header in OTEL_EXPORTER_OTLP_HEADERS" in caplog.text
    assert "geheim" not in caplog.text
