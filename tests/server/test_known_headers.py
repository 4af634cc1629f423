# SPDX-License-Identifier: Apache-2.0
"""A header section that the server has read before means the same when it comes again."""

from __future__ import annotations

import pytest

from tests.server.exchanges import DOCUMENT, MESSAGES, bodies, kept, post, wait_until_read
from tests.support import servers
from tests.support.raw_http import CLIENT, RawConnection, request

#: More than a claim may have, and less than a post.
_LARGE = 100_000


@pytest.mark.parametrize("size", [1, len(DOCUMENT) - 1, -1])
def test_known_request_that_comes_in_parts_is_served_once(
    service: servers.RunningService, connection: RawConnection, project: str, size: int
) -> None:
    for _ in range(3):
        for part in (post(project)[:size], post(project)[size:]):
            connection.send(part)
            wait_until_read(service)
        assert connection.answer().status == 201
    assert kept(connection, project) == ["kept"] * 3


def test_known_request_followed_by_another_in_one_write_is_served_first(
    connection: RawConnection, project: str
) -> None:
    for _ in range(3):
        connection.send(post(project) + request("GET", f"{MESSAGES}/missing", project))
        assert [answer.status for answer in connection.answers(2)] == [201, 404]


def test_known_headers_ask_for_what_the_request_line_says(
    connection: RawConnection, project: str
) -> None:
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
        assert connection.ask(request("GET", target, project)).status == status, target
    assert connection.ask(request("HEAD", "/v2/queues/a", project), "HEAD").status == 405


def test_known_headers_of_another_version_close_the_connection(
    connection: RawConnection, project: str
) -> None:
    for _ in range(2):
        assert connection.ask(post(project)).status == 201
    connection.send(request("POST", MESSAGES, project, DOCUMENT, version="1.0"))
    assert connection.rest().startswith(b"HTTP/1.1 201 ")


def test_known_headers_with_a_body_over_the_limit_of_the_path_are_refused(
    connection: RawConnection, project: str
) -> None:
    body = b" " * _LARGE + b"{}"
    for path, status in ((MESSAGES, 400), (MESSAGES, 400), ("/v2/queues/q/claims", 400)):
        answer = connection.ask(request("POST", path, project, body))
        assert answer.status == status
    assert b"A claim may be at most 65536 bytes" in answer.body


@pytest.mark.parametrize("breaks", ["\r\n", "\r\n\n\n\r\n\r\n", "\n", "\r\n\r\n"])
def test_line_breaks_before_a_request_do_not_change_what_others_ask(
    service: servers.RunningService, project: str, breaks: str
) -> None:
    line = "GET /v2/queues/q/stats HTTP/1.1"
    with RawConnection(service.port) as connection:
        assert connection.ask(post(project)).status == 201
        later = breaks.encode() + request("GET", "/v2/queues/q/stats", project)
        assert connection.ask(later).status == 200
    with RawConnection(service.port) as connection:
        assert connection.ask(post(project)).status == 201
        assert connection.ask(f"{line}{breaks}\r\n\r\n".encode()).status == 400


@pytest.mark.parametrize(
    ("client", "status"), [("00000000-0000-4000-8000-000000000001", 400), (CLIENT, 201)]
)
def test_duplicate_headers_mean_the_same_when_they_come_again(
    connection: RawConnection, project: str, client: str, status: int
) -> None:
    for _ in range(3):
        whole = request("POST", MESSAGES, project, DOCUMENT, [("Client-ID", client)])
        assert connection.ask(whole).status == status
    assert len(kept(connection, project)) == (3 if status == 201 else 0)


def test_two_requests_in_one_write_keep_their_own_headers(
    connection: RawConnection, project: str
) -> None:
    other = f"{project}-other"
    assert connection.ask(post(project)).status == 201
    first, second = (request("GET", f"{MESSAGES}?echo=true", one) for one in (project, other))
    for _ in range(2):
        connection.send(first + second)
        assert [bodies(answer) for answer in connection.answers(2)] == [["kept"], []]
        assert bodies(connection.ask(first)) == ["kept"]
        assert bodies(connection.ask(second)) == []


def test_body_that_looks_like_a_known_request_is_a_body(
    service: servers.RunningService, connection: RawConnection, project: str
) -> None:
    for _ in range(2):
        assert connection.ask(post(project)).status == 201
    whole = request("POST", MESSAGES, project, post(project))
    connection.send(whole.removesuffix(post(project)))
    wait_until_read(service)
    assert connection.ask(post(project)).status == 400
    assert kept(connection, project) == ["kept"] * 2


@pytest.mark.parametrize("ending", [("Connection", "close"), ("Connection", "x, Close")])
def test_known_request_behind_the_last_one_is_ignored(
    service: servers.RunningService,
    connection: RawConnection,
    project: str,
    ending: tuple[str, str],
) -> None:
    """Also by a long poll, which ends when its client leaves."""
    listing = f"{MESSAGES}?wait=20&echo=true"
    for _ in range(2):
        assert connection.ask(request("GET", "/v2/queues", project)).status == 200
    connection.send(request("GET", listing, project, headers=[ending]))
    wait_until_read(service)
    connection.send(request("GET", "/v2/queues", project))
    wait_until_read(service)
    connection.half_close()
    assert connection.rest() == b""
