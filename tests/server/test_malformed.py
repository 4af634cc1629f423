# SPDX-License-Identifier: Apache-2.0
"""What is no whole request of HTTP/1.1: what its client is told, and what the log has of it."""

from __future__ import annotations

import json

import pytest

from tests.support import fixtures
from tests.support.raw_http import RawConnection, request
from tests.support.servers import RunningService

_REQUEST = request("GET", "/v2/ping")
#: The beginning of a ClientHello.
_TLS = bytes.fromhex("16030100c2010000be0303")


service = fixtures.service({"server": {"request_timeout": "5", "max_connections": "1"}})


def _refused(connection: RawConnection, status: int, *words: str) -> None:
    answer = connection.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert answer.headers["content-type"] == "application/json"
    text = json.loads(answer.body)["description"]
    assert [word for word in words if word not in text] == [], text
    assert connection.rest() == b""


def _lines(service: RunningService, words: str) -> list[str]:
    return [line for line in service.log.read_text().splitlines() if words in line]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"nonsense\r\n\r\n", "method"),
        (_TLS, "it is TLS, and this port takes http:// only"),
        (_REQUEST.replace(b"Host: h\r\n", b""), "it has no header Host"),
        (_REQUEST.replace(b"HTTP/1.1", b"HTTP/9.7"), "version"),
    ],
)
def test_malformed_requests_are_told_why_and_are_one_line_of_the_log(
    service: RunningService, sent: bytes, words: str
) -> None:
    for _ in range(5):
        with RawConnection(service.port) as connection:
            connection.send(sent)
            _refused(connection, 400, "The request is not valid HTTP/1.1: ", words)
    [line] = [each for each in _lines(service, words) if "HTTP/1.1" in each]
    assert "a request of 127.0.0.1 is not valid HTTP/1.1: " in line


def test_upgrade_to_what_is_not_spoken_is_ignored_without_a_line(service: RunningService) -> None:
    with RawConnection(service.port) as connection:
        connection.send(
            request("GET", "/v2/ping", headers=[("Connection", "Upgrade"), ("Upgrade", "h2c")])
        )
        assert connection.answer().status == 204
    assert _lines(service, "pgrade") == []


def test_large_head_is_told_how_large_it_may_be(service: RunningService) -> None:
    with RawConnection(service.port) as connection:
        connection.send(b"GET /v2/ping HTTP/1.1\r\nX-Large: " + b"x" * 1024 * 1024)
        _refused(connection, 431, "64 KiB")


def test_slow_request_is_told_which_option_it_took_too_long_for(service: RunningService) -> None:
    with RawConnection(service.port) as connection:
        connection.send(_REQUEST[:10])
        _refused(connection, 408, "[server] request_timeout")


def test_connection_too_many_is_told_which_option_allows_more(service: RunningService) -> None:
    with RawConnection(service.port) as first, RawConnection(service.port) as second:
        assert first.ask(_REQUEST).status == 204
        _refused(second, 503, "[server] max_connections")
