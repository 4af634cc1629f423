# SPDX-License-Identifier: Apache-2.0
"""Messages of a queue reach a webhook by the process that delivers, with its options."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

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

    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port, documents
        server.shutdown()
        thread.join()


def test_messages_reach_a_webhook_in_a_network_that_the_operator_allows(
    received: tuple[int, list[object]], project: str
) -> None:
    port, documents = received
    options = {"notification": {"allowed_networks": "127.0.0.0/8"}}
    with servers.redis_server() as server, opened(server.uri, project) as store:
        store.clock.now = round(time.time() * 1000)
        store.create()
        subscribe(store, f"http://127.0.0.1:{port}/", ttl=3600)
        ids = store.post("a", "b").ids
        with notifier(server.uri, options):
            servers.wait_for(lambda: len(documents) == 2, "both messages")
    expected = [
        {"id": id, "body": body, "ttl": 3600, "Message_Type": "Notification", "queue_name": "q"}
        for id, body in zip(ids, "ab", strict=True)
    ]
    assert sorted(documents, key=str) == sorted(expected, key=str)
