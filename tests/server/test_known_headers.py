# SPDX-License-Identifier: Apache-2.0
"""A header section that the server has read before means the same when it comes again."""

from __future__ import annotations

import json

import pytest

from tests.support import servers
from tests.support.raw_http import CLIENT, RawConnection, request

MESSAGES = "/v2/queues/q/messages"
DOCUMENT = b'{"messages": [{"body": "kept"}]}'
#: More than a claim may have, and less than a post.
_LARGE = 100_000


def post(project: str, *headers: tuple[str, str], version: str = "1.1") -> bytes:
    return request("POST", MESSAGES, project, DOCUMENT, headers, version)


def kept(connection: RawConnection, project: str) -> int:
    connection.send(request("GET", f"{MESSAGES}?echo=true", project))
    return len(json.loads(connection.answer().body)["messages"])


def wait_until_read(beside: RawConnection) -> None:
    """Waits until the server has read what other connections sent."""
    beside.send(request("HEAD", "/v2/ping"))
    beside.answer("HEAD")


@pytest.mark.parametrize("size", [1, len(DOCUMENT) - 1, -1])
def test_known_request_that_comes_in_parts_is_served_once(
    service: servers.RunningService, project: str, size: int
) -> None:
    with RawConnection(service.port) as connection, RawConnection(service.port) as beside:
        for _ in range(3):
            for part in (post(project)[:size], post(project)[size:]):
                connection.send(part)
                wait_until_read(beside)
            assert connection.answer().status == 201
        assert kept(connection, project) == 3


def test_known_request_followed_by_another_in_one_write_is_served_first(
    service: servers.RunningService, project: str
) -> None:
    with RawConnection(service.port) as connection:
        for _ in range(3):
            connection.send(post(project) + request("GET", f"{MESSAGES}/missing", project))
            assert [answer.status for answer in connection.answers(2)] == [201, 404]


def test_known_headers_ask_for_what_the_request_line_says(
    service: servers.RunningService, project: str
) -> None:
    with RawConnection(service.port) as connection:
        for target, status in (
            ("/v2/queues/a", 200),
            ("/v2/queues/b?x=1", 200),
            (f"{MESSAGES}?limit=1#x", 200),
            ("/v2/queues/a/messages/missing", 404),
            (f"{MESSAGES}?limit=x", 400),
            ("/v2/queues/%21", 400),
            ("/v2/", 200),
            ("/missing", 404),
        ):
            connection.send(request("GET", target, project))
            assert connection.answer().status == status, target
        connection.send(request("HEAD", "/v2/queues/a", project))
        assert connection.answer("HEAD").status == 405


def test_known_headers_of_another_version_close_the_connection(
    service: servers.RunningService, project: str
) -> None:
    with RawConnection(service.port) as connection:
        for _ in range(2):
            connection.send(post(project))
            assert connection.answer().status == 201
        connection.send(post(project, version="1.0"))
        assert connection.rest().startswith(b"HTTP/1.1 201 ")


def test_known_headers_with_a_body_over_the_limit_of_the_path_are_refused(
    service: servers.RunningService, project: str
) -> None:
    body = b" " * _LARGE + b"{}"
    with RawConnection(service.port) as connection:
        for path, status in ((MESSAGES, 400), (MESSAGES, 400), ("/v2/queues/q/claims", 400)):
            connection.send(request("POST", path, project, body))
            answer = connection.answer()
            assert answer.status == status
    assert b"A claim may be at most 65536 bytes" in answer.body


@pytest.mark.parametrize("breaks", ["\r\n", "\r\n\n\n\r\n\r\n", "\n", "\r\n\r\n"])
def test_line_breaks_before_a_request_do_not_change_what_others_ask(
    service: servers.RunningService, project: str, breaks: str
) -> None:
    line = "GET /v2/queues/q/stats HTTP/1.1"
    with RawConnection(service.port) as connection:
        connection.send(post(project))
        assert connection.answer().status == 201
        connection.send(breaks.encode() + request("GET", "/v2/queues/q/stats", project))
        assert connection.answer().status == 200
    with RawConnection(service.port) as connection:
        connection.send(post(project))
        assert connection.answer().status == 201
        connection.send(f"{line}{breaks}\r\n\r\n".encode())
        assert connection.answer().status == 400


@pytest.mark.parametrize(
    ("client", "status"), [("00000000-0000-4000-8000-000000000001", 400), (CLIENT, 201)]
)
def test_duplicate_headers_mean_the_same_when_they_come_again(
    service: servers.RunningService, project: str, client: str, status: int
) -> None:
    with RawConnection(service.port) as connection:
        for _ in range(3):
            connection.send(post(project, ("Client-ID", client)))
            assert connection.answer().status == status
        assert kept(connection, project) == (3 if status == 201 else 0)


def test_two_requests_in_one_write_keep_their_own_headers(
    service: servers.RunningService, project: str
) -> None:
    other = f"{project}-other"
    with RawConnection(service.port) as connection:
        connection.send(post(project))
        assert connection.answer().status == 201
        first, second = (request("GET", f"{MESSAGES}?echo=true", one) for one in (project, other))
        for _ in range(2):
            connection.send(first + second)
            found = [json.loads(answer.body)["messages"] for answer in connection.answers(2)]
            assert [len(messages) for messages in found] == [1, 0]
            for each, count in ((first, 1), (second, 0)):
                connection.send(each)
                assert len(json.loads(connection.answer().body)["messages"]) == count


def test_body_that_looks_like_a_known_request_is_a_body(
    service: servers.RunningService, project: str
) -> None:
    with RawConnection(service.port) as connection, RawConnection(service.port) as beside:
        for _ in range(2):
            connection.send(post(project))
            assert connection.answer().status == 201
        whole = request("POST", MESSAGES, project, post(project))
        connection.send(whole.removesuffix(post(project)))
        wait_until_read(beside)
        connection.send(post(project))
        assert connection.answer().status == 400
        assert kept(connection, project) == 2


@pytest.mark.parametrize("ending", [("Connection", "close"), ("Connection", "x, Close")])
def test_known_request_behind_the_last_one_is_ignored(
    service: servers.RunningService, project: str, ending: tuple[str, str]
) -> None:
    """Also by a long poll, which ends when its client leaves."""
    listing = f"{MESSAGES}?wait=20&echo=true"
    with RawConnection(service.port) as connection, RawConnection(service.port) as beside:
        for _ in range(2):
            connection.send(request("GET", "/v2/queues", project))
            assert connection.answer().status == 200
        connection.send(request("GET", listing, project, headers=[ending]))
        wait_until_read(beside)
        connection.send(request("GET", "/v2/queues", project))
        wait_until_read(beside)
        connection.half_close()
        assert connection.rest() == b""
