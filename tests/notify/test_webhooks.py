# SPDX-License-Identifier: Apache-2.0
"""Messages of a queue reach a webhook by the process that delivers, with its options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.contract.test_deliveries import subscribe
from tests.support import servers
from tests.support.notifiers import notifier
from tests.support.stores import opened


@pytest.fixture
def received() -> Iterator[tuple[int, list[object]]]:
    """The port of an endpoint, and the documents that it has got."""
    documents: list[object] = []

    class _Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            documents.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with servers.http_server(ThreadingHTTPServer(("127.0.0.1", 0), _Handler)) as server:
        yield server.server_port, documents


def test_messages_reach_a_webhook_in_a_network_that_the_operator_allows(
    received: tuple[int, list[object]], project: str
) -> None:
    port, documents = received
    options = {"notification": {"allowed_networks": "127.0.0.0/8"}}
    with servers.redis_server() as server, opened(server.uri, project) as store:
        store.create_for_processes()
        subscribe(store, f"http://127.0.0.1:{port}/", ttl=3600)
        store.post("a", "b")
        with notifier(server.uri, options):
            servers.wait_for(lambda: len(documents) == 2, "both messages")
    expected = [
        {"body": body, "ttl": 3600, "Message_Type": "Notification", "queue_name": "q"}
        for body in "ab"
    ]
    assert sorted(documents, key=str) == sorted(expected, key=str)


def test_batch_and_its_messages_by_themselves_have_different_webhook_ids(project: str) -> None:
    # A receiver that has recorded the id of a batch must not take a part of it for done.
    ids: list[str] = []
    delivered: list[str] = []

    class _OneByOne(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids.append(self.headers["webhook-id"])
            bodies = [message["body"] for message in document["messages"]]
            delivered.extend(bodies if len(bodies) == 1 else [])
            self.send_response(204 if len(bodies) == 1 else 400)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with servers.http_server(ThreadingHTTPServer(("127.0.0.1", 0), _OneByOne)) as endpoint:
        with servers.redis_server() as server, opened(server.uri, project) as store:
            store.create_for_processes()
            hook = f"http://127.0.0.1:{endpoint.server_port}/"
            options = {"batch": 10, "ordered": True}
            assert store.driver.subscriptions
            store.run(
                store.driver.subscriptions.create(
                    project, "q", hook, ttl=600, options=options, delivers=True
                )
            )
            store.post("a", "b", "c")
            with notifier(server.uri, {"notification": {"allowed_networks": "127.0.0.0/8"}}):
                servers.wait_for(lambda: len(delivered) == 3, "all messages", 20)
        endpoint.shutdown()
    assert delivered == ["a", "b", "c"]
    assert len(ids) > 3
    assert len(set(ids)) == len(ids)
