# SPDX-License-Identifier: Apache-2.0
"""What a service with metrics serves, over all its workers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import httpx
import pytest
import websockets.sync.client as sockets
from websockets.exceptions import ConnectionClosed

from tests.support import servers
from tests.support.backends import Backend
from tests.support.metrics import Scraper, measured_service
from tests.support.notifiers import notifier
from tests.support.servers import RunningService
from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.merged import all_labels

POST = {"method": "POST", "route": "/v2/queues/{queue}/messages"}


@pytest.fixture(scope="module")
def measured(redis_server: Backend) -> Iterator[tuple[RunningService, Scraper]]:
    options: dict[str, dict[str, object]] = {
        "metrics": {"queues": "chosen/named,chosen/z*", "queues_max": 2, "queues_interval": 1},
        "quota": {"messages": 1000},
    }
    with measured_service(redis_server.uri, options=options) as running:
        yield running


def _client(service: RunningService, project: str) -> httpx.Client:
    headers = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": project}
    return httpx.Client(base_url=f"{service.url}/v2", headers=headers, timeout=60)


def test_requests_of_both_paths_are_counted_by_route_and_status(
    measured: tuple[RunningService, Scraper],
) -> None:
    service, scraper = measured
    for _ in range(9):
        with _client(service, "counted") as client:  # each connection may reach another worker
            client.post("/queues/q/messages", json={"messages": [{"body": 1, "ttl": 60}] * 3})
    with _client(service, "counted") as client:
        client.post("/queues/q/messages", json={"messages": []})
        client.put("/queues/q", json={})
        client.get("/nothing/here")
        claimed = client.post("/queues/q/claims?limit=4", json={}).json()["messages"]
    assert len(claimed) == 4
    scraper.wait_for("http_requests_total", 9, status="201", **POST)
    scraper.wait_for("http_requests_total", 1, status="400", **POST)
    scraper.wait_for("http_requests_total", 1, method="PUT", route="/v2/queues/{queue}")
    scraper.wait_for("http_requests_total", 1, method="other", status="404")
    scraper.wait_for("messages_posted_total", 27)
    scraper.wait_for("messages_claimed_total", 4)
    scraper.wait_for("claims_total", 1)
    timed = scraper.value("http_request_duration_seconds_count", status="201", **POST)
    assert 1 <= timed <= 9
    assert scraper.value("http_request_duration_seconds_sum", status="201", **POST) > 0
    assert scraper.value("http_request_duration_seconds_count", method="PUT") == 1


def test_stores_and_workers_are_shown_by_name(
    measured: tuple[RunningService, Scraper], redis_server: Backend
) -> None:
    _, scraper = measured
    for worker in ("1", "2"):
        scraper.wait_for("store_up", 1, store=redis_server.uri, worker=worker)
        assert scraper.value("worker_resident_memory_bytes", worker=worker) > 1e6
        assert scraper.value("worker_open_fds", worker=worker) > 3
        assert scraper.value("worker_report_age_seconds", worker=worker) < 60
    assert scraper.value("workers") == 2
    servers.wait_for(
        lambda: scraper.value("store_memory_used_bytes", store="default") > 1e5,
        "the memory of the store",
    )
    assert scraper.value("store_memory_limit_bytes", store="default") > 1e6
    servers.wait_for(
        lambda: scraper.value("store_call_duration_seconds_count", verb="quota_report") > 0,
        "a call to be measured",
    )
    assert scraper.value("store_batch_commands_count") > 0
    assert scraper.value("event_loop_lag_seconds_count") > 0
    assert scraper.value("store_connections_lost_total") == 0
    assert scraper.value("log_events_total", level="info") > 0


@pytest.mark.nightly
def test_chosen_queues_are_shown_up_to_the_bound(measured: tuple[RunningService, Scraper]) -> None:
    service, scraper = measured
    with _client(service, "chosen") as client:

        def post(queue: str) -> None:
            posted = [{"body": 1, "ttl": 600}, {"body": 2, "ttl": 600}, {"body": 3, "delay": 600}]
            answer = client.post(f"/queues/{queue}/messages", json={"messages": posted})
            assert answer.status_code == 201

        for queue in ("named", "other", "z1", "z2"):
            post(queue)
        # Once, with the number at that time.
        told = "3 queues match [metrics] queues, but only 2 have metrics"
        servers.wait_for(lambda: told in service.log.read_text(), "the omission to be logged")
        post("z3")
        claimed = client.post("/queues/named/claims?limit=1", json={"ttl": 600, "grace": 60})
        assert claimed.status_code == 201
    named = {"project": "chosen", "queue": "named"}
    for state in ("free", "claimed", "delayed"):
        scraper.wait_for("queue_messages", 1, state=state, **named)
    scraper.wait_for("queue_posted_total", 3, **named)
    scraper.wait_for("queue_claimed_total", 1, **named)
    scraper.wait_for("queues_omitted", 2)
    assert scraper.value("queue_bytes", **named) > 0
    scraper.wait_for("queue_posted_total", 3, project="chosen", queue="z1")
    shown = {
        dict(labels)["queue"]
        for (name, labels) in scraper.samples()
        if name == "zaqar_redis_queue_oldest_message_age_seconds"
    }
    assert shown == {"named", "z1"}


def test_refusals_are_counted_by_their_reason(measured: tuple[RunningService, Scraper]) -> None:
    service, scraper = measured
    quota = scraper.value("quota_refusals_total", quota="messages")
    malformed = scraper.value("http_connections_rejected_total", status="400")
    auth = scraper.value("auth_refusals_total", reason="unauthenticated")
    with _client(service, "refused") as client:
        messages = {"messages": [{"body": 1}] * 1001}
        answer = client.post("/queues/q/messages", json=messages)
        assert answer.status_code == 403
        signed = {"URL-Signature": "x", "URL-Paths": "/v2", "URL-Methods": "GET"}
        expires = {"URL-Expires": "2099-01-01T00:00:00"}
        assert client.get("/queues/q/messages", headers=signed | expires).status_code == 404
    with socket.create_connection(("127.0.0.1", service.port)) as raw:
        raw.sendall(b"no HTTP\r\n\r\n")
        assert b"400" in raw.recv(100)
    scraper.wait_for("quota_refusals_total", quota + 1, quota="messages")
    scraper.wait_for("auth_refusals_total", auth + 1, reason="unauthenticated")
    scraper.wait_for("http_connections_rejected_total", malformed + 1, status="400")


def test_channels_and_their_clients_are_counted(measured: tuple[RunningService, Scraper]) -> None:
    service, scraper = measured
    url = f"ws://127.0.0.1:{service.port}"
    with sockets.connect(f"{url}/v2/ws", subprotocols=None):
        scraper.wait_for("websocket_connections", 1, api="queues")
    scraper.wait_for("websocket_connections", 0, api="queues")
    with sockets.connect(f"{url}/connection/websocket"):
        scraper.wait_for("websocket_connections", 1, api="channels")


def test_clients_that_are_disconnected_are_counted_by_code_and_logged_now_and_then(
    redis_server: Backend,
) -> None:
    options: dict[str, dict[str, object]] = {"server": {"request_timeout": 5}}
    with measured_service(redis_server.uri, workers=1, options=options) as (service, scraper):
        channels, queues = (
            f"ws://127.0.0.1:{service.port}{path}" for path in ("/connection/websocket", "/v2/ws")
        )
        for _ in range(3):
            with sockets.connect(channels) as client:
                client.send("nonsense")
                _wait_until_closed(client)
        with sockets.connect(channels) as client:
            client.send("x" * 70_000)
            _wait_until_closed(client)
        with sockets.connect(queues) as silent:
            _wait_until_closed(silent)
        with sockets.connect(queues):
            pass  # a client that leaves is none that was disconnected
        scraper.wait_for("client_disconnects_total", 3, code="3501")
        scraper.wait_for("client_disconnects_total", 1, code="1009")
        scraper.wait_for("client_disconnects_total", 1, code="4003")
        assert scraper.value("client_disconnects_total") == 5
        log = service.log.read_text().splitlines()
        lines = [line for line in log if "action=client_disconnected" in line]
    bad, large, unknown = lines
    assert "disconnected a client (websocket): 3501 bad request action" in bad
    assert "disconnected a client (websocket): 1009 " in large
    assert "disconnected a client (WebSocket API): 4003 Not authenticated. action" in unknown
    assert [line for line in lines if not line.endswith("peer=127.0.0.1")] == []


def _wait_until_closed(client: sockets.ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            client.recv(60)


def test_every_series_is_of_a_defined_metric_with_its_labels(
    measured: tuple[RunningService, Scraper],
) -> None:
    _, scraper = measured
    names = {
        f"{metric.name}{suffix}": set(all_labels(metric))
        for metric in definitions.METRICS.values()
        for suffix in {"counter": ("_total",), "gauge": ("",)}.get(
            metric.kind, ("_bucket", "_count", "_sum")
        )
    }
    found = {name: {label for label, _ in labels} - {"le"} for (name, labels) in scraper.samples()}
    own = {name: labels for name, labels in found.items() if name.startswith("zaqar_redis_")}
    assert {name: names.get(name) for name in own} == own
    assert "process_cpu_seconds_total" in found


def test_port_in_use_is_an_error_at_the_start(
    measured: tuple[RunningService, Scraper], redis_server: Backend
) -> None:
    _, scraper = measured
    port = httpx.URL(scraper.url).port
    options = {"metrics": {"port": port or 0}}
    with (
        pytest.raises(RuntimeError, match=rf"\[metrics\] port: cannot listen on .*{port}"),
        servers.service(redis_server.uri, options=options),
    ):
        pass


def test_clients_that_send_nothing_do_not_hold_up_others(
    measured: tuple[RunningService, Scraper],
) -> None:
    _, scraper = measured
    port = httpx.URL(scraper.url).port
    silent = [socket.create_connection(("127.0.0.1", port or 0)) for _ in range(4)]
    try:
        assert scraper.value("workers") == 2
    finally:
        for each in silent:
            each.close()


def test_notifier_serves_metrics_of_its_own(redis_server: Backend) -> None:
    port = servers.free_port()
    with notifier(redis_server.uri, {"metrics": {"port": port}}):
        scraper = Scraper(port)
        scraper.wait_for("store_up", 1, store=redis_server.uri, worker="1")
        scraper.wait_for("workers", 1)
        assert scraper.value("log_events_total", level="info") > 0
        assert scraper.value("build_info") == 1
        assert scraper.value("notification_sources") == 0
