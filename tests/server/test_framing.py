# SPDX-License-Identifier: Apache-2.0
"""Where requests end, and what old and careful clients send."""

from __future__ import annotations

import pytest

from tests.server.exchanges import DOCUMENT, MESSAGES, kept, post
from tests.support import servers
from tests.support.raw_http import RawConnection, chunked, request
from tests.support.ways import ASGI, HOT, WAYS

#: More than any post may have.
_TOO_LARGE = 512 * 1024


@pytest.mark.parametrize("way", WAYS)
def test_request_sent_byte_by_byte_is_served(
    connection: RawConnection, project: str, way: str
) -> None:
    for byte in post(project, way):
        connection.send(bytes([byte]))
    assert connection.answer().status == 201
    assert kept(connection, project) == ["kept"]


@pytest.mark.parametrize(
    "chunks", [[DOCUMENT], [DOCUMENT[:5], DOCUMENT[5:]], [b"%c" % byte for byte in DOCUMENT]]
)
def test_chunked_body_is_joined(
    connection: RawConnection, project: str, chunks: list[bytes]
) -> None:
    head = request("POST", MESSAGES, project, headers=[("Transfer-Encoding", "chunked")])
    assert connection.ask(head + chunked(*chunks)).status == 201
    assert kept(connection, project) == ["kept"]


def test_client_that_expects_100_continue_is_told_to_continue(
    connection: RawConnection, project: str
) -> None:
    headers = [("Expect", "100-continue")]
    whole = request("POST", MESSAGES, project, DOCUMENT, headers)
    assert connection.ask(whole.removesuffix(DOCUMENT)).status == 100
    assert connection.ask(DOCUMENT).status == 201
    assert kept(connection, project) == ["kept"]


def test_client_that_expects_100_continue_is_refused_before_its_body(
    connection: RawConnection, project: str
) -> None:
    headers = [("Expect", "100-continue"), ("Content-Length", str(_TOO_LARGE))]
    assert connection.ask(request("POST", MESSAGES, project, headers=headers)).status in (100, 400)


@pytest.mark.parametrize("way", WAYS)
def test_body_over_the_limit_is_refused_and_connection_goes_on(
    connection: RawConnection, project: str, way: str
) -> None:
    connection.send(request("POST", MESSAGES, project, b"x" * _TOO_LARGE, WAYS[way].items()))
    answer = connection.answer()
    assert answer.status == 400
    assert b"Messages may be at most" in answer.body
    assert kept(connection, project) == []


def test_chunked_body_over_the_limit_is_refused(connection: RawConnection, project: str) -> None:
    head = request("POST", MESSAGES, project, headers=[("Transfer-Encoding", "chunked")])
    answer = connection.ask(head + chunked(*[b"x" * 4096] * (_TOO_LARGE // 4096)))
    assert answer.status == 400
    assert b"Messages may be at most" in answer.body
    assert kept(connection, project) == []


@pytest.mark.parametrize("way", WAYS)
def test_unread_body_of_a_hot_route_is_skipped(
    connection: RawConnection, project: str, way: str
) -> None:
    for size in (1, 1000, _TOO_LARGE):
        connection.send(request("GET", MESSAGES, project, b"x" * size, WAYS[way].items()))
        assert connection.answer().status == 200
    assert kept(connection, project) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("version", "headers", "closes"),
    [
        ("1.1", [], False),
        ("1.1", [("Connection", "keep-alive")], False),
        ("1.1", [("Connection", "close")], True),
        ("1.0", [], True),
        # As uvicorn does: clients of HTTP/1.0 expect nothing else without the header's echo.
        ("1.0", [("Connection", "keep-alive")], True),
    ],
)
def test_connection_closes_as_version_and_header_say(
    connection: RawConnection,
    project: str,
    way: str,
    version: str,
    headers: list[tuple[str, str]],
    closes: bool,
) -> None:
    sent = [*headers, *WAYS[way].items()]
    answer = connection.ask(request("GET", MESSAGES, project, headers=sent, version=version))
    assert answer.status == 200
    assert answer.head.startswith(b"HTTP/1.1 ")
    assert (answer.headers.get("connection") == "close") is closes
    if closes:
        assert connection.rest() == b""
    else:
        assert kept(connection, project) == []


@pytest.mark.parametrize("path", ["/v2/ping", "/health", "/healthcheck"])
def test_answer_to_head_has_no_body(connection: RawConnection, path: str) -> None:
    connection.send(request("HEAD", path) + request("GET", path))
    without, full = connection.answer("HEAD"), connection.answer()
    assert without.status == full.status
    assert without.headers.get("content-length") == full.headers.get("content-length")


@pytest.mark.parametrize("version", ["2.0", "0.9"])
def test_request_of_another_version_is_refused(
    connection: RawConnection, project: str, version: str
) -> None:
    assert connection.ask(request("GET", MESSAGES, project, version=version)).status == 400
    assert connection.rest() == b""


@pytest.mark.parametrize("before", [[], [HOT], [ASGI], [HOT, HOT, ASGI]])
def test_endless_head_is_refused_after_the_answers_of_requests_before(
    connection: RawConnection, project: str, before: list[str]
) -> None:
    whole = [request("GET", MESSAGES, project, headers=WAYS[way].items()) for way in before]
    connection.send(b"".join(whole) + b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 1024 * 1024)
    assert [answer.status for answer in connection.answers(len(before))] == [200] * len(before)
    assert connection.rest().startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("piece", [b"X: y\r\n", b"x"])
def test_endless_headers_behind_chunks_are_refused(
    connection: RawConnection, project: str, piece: bytes
) -> None:
    head = request("POST", MESSAGES, project, headers=[("Transfer-Encoding", "chunked")])
    connection.send(head + chunked(DOCUMENT).removesuffix(b"\r\n") + piece * 1024 * 1024)
    assert connection.rest().startswith(b"HTTP/1.1 431 ")


def test_headers_behind_chunks_are_ignored(connection: RawConnection, project: str) -> None:
    head = request("POST", MESSAGES, project, headers=[("Transfer-Encoding", "chunked")])
    connection.send(head + chunked(DOCUMENT).removesuffix(b"\r\n") + b"X-Project-ID: other\r\n\r\n")
    assert connection.answer().status == 201
    assert kept(connection, project) == ["kept"]


def upgrade(protocol: str) -> list[tuple[str, str]]:
    """Returns headers, which make the handshake of a socket if *protocol* is ``websocket``."""
    headers = [("Connection", "Upgrade"), ("Upgrade", protocol), ("Sec-WebSocket-Version", "13")]
    return [*headers, ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "other"])
@pytest.mark.parametrize("length", [b"Content-Length: %d", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("apart", [False, True])
def test_upgrade_with_a_body_is_refused_and_the_body_is_no_request(
    connection: RawConnection, project: str, protocol: str, length: bytes, apart: bool
) -> None:
    """Whatever the protocol is, the parser takes no body for it."""
    body = request("DELETE", "/v2/queues/q", project)
    if b"%d" in length:
        length %= len(body)
    else:
        body = chunked(body)
    head = request("POST", MESSAGES, project, headers=upgrade(protocol))
    connection.send(head.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % length))
    if apart:
        assert connection.answer().status == 400
    connection.send(body)
    if not apart:
        assert connection.answer().status == 400
    assert connection.rest() == b""


@pytest.mark.parametrize(
    "headers",
    [
        # As curl --http2 asks: a server may ignore it.
        [("Connection", "Upgrade"), ("Upgrade", "h2c")],
        [*upgrade("h2c"), ("Content-Length", "0")],
        [*upgrade("h2c"), ("Content-Length", "00")],
    ],
)
def test_upgrade_without_a_body_is_answered(
    connection: RawConnection, project: str, headers: list[tuple[str, str]]
) -> None:
    assert connection.ask(request("GET", MESSAGES, project, headers=headers)).status == 200
    assert kept(connection, project) == []


@pytest.mark.parametrize("way", WAYS)
def test_handshake_of_a_socket_does_not_repeat_the_request_before(
    service: servers.RunningService, connection: RawConnection, project: str, way: str
) -> None:
    assert connection.ask(post(project, way)).status == 201
    connection.send(request("GET", "/nowhere", headers=upgrade("websocket")))
    assert connection.until_text(b"\r\n\r\n").startswith(b"HTTP/1.1 404 ")
    with RawConnection(service.port) as other:
        assert kept(other, project) == ["kept"]


@pytest.mark.parametrize("way", WAYS)
def test_handshake_of_a_socket_behind_an_unanswered_request_is_refused_after_its_answer(
    connection: RawConnection, project: str, way: str
) -> None:
    """The answer would come within the socket."""
    wait = request("POST", "/v2/queues/q/claims?wait=1", project, headers=WAYS[way].items())
    connection.send(wait + request("GET", "/nowhere", headers=upgrade("websocket")))
    assert [answer.status for answer in connection.answers(2)] == [204, 400]
    assert connection.rest() == b""


def test_handshake_of_a_socket_behind_an_answer_of_the_same_turn_is_answered_after_it(
    connection: RawConnection, project: str
) -> None:
    """The answer may still wait to be written with others."""
    bad = [(name, text.replace("13", "12")) for name, text in upgrade("websocket")]
    wrong = request("GET", f"{MESSAGES}?limit=x", project)
    assert connection.ask(wrong + request("GET", "/nowhere", headers=bad)).status == 400
    assert connection.until_text(b"\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\nDate: ")
