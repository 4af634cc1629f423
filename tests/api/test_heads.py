# SPDX-License-Identifier: Apache-2.0
"""The head of a request is bounded, and OPTIONS needs no identity headers."""

from __future__ import annotations

import socket

import httpx

from tests.support import servers


def test_endless_request_head_is_refused(service: servers.RunningService) -> None:
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
        answer = b""
        try:
            for _ in range(64):
                connection.sendall(b"x" * 65536)
            answer = connection.recv(4096)
        except OSError:
            answer = answer or b"closed"
    assert answer.startswith((b"HTTP/1.1 431", b"closed"))


def test_options_lists_allowed_methods_without_identity_headers(
    service: servers.RunningService,
) -> None:
    answer = httpx.options(f"{service.url}/v2/queues/orders/messages")
    assert answer.status_code == 200
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["Allow"].split(", "))
