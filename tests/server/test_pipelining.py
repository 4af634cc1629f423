# SPDX-License-Identifier: Apache-2.0
"""Requests sent before the answers of others are answered in order, whichever way they take."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable
from itertools import cycle, islice

import pytest

from tests.server.exchanges import MESSAGES, bodies, kept, post
from tests.support import servers
from tests.support.raw_http import RawAnswer, RawConnection, request
from tests.support.ways import ASGI, HOT, WAYS

#: What stands in a stream instead of a request.
GARBAGE = b"\x01\x02 garbage\r\n\r\n"
_MANY = 1000
#: Where Linux' struct tcp_info has tcpi_data_segs_in.
_DATA_SEGMENTS_IN = 152


def missing(project: str, number: int, way: str) -> bytes:
    """Returns a request whose answer names the number."""
    return request("GET", f"{MESSAGES}/{number}", project, headers=WAYS[way].items())


def named(answers: Iterable[RawAnswer]) -> list[int]:
    return [int(json.loads(answer.body)["description"].split()[1]) for answer in answers]


@pytest.mark.parametrize("ways", [[HOT], [ASGI], [HOT, ASGI], [HOT, HOT, HOT, ASGI]])
def test_many_small_requests_in_one_write_are_answered_in_order(
    connection: RawConnection, project: str, ways: list[str]
) -> None:
    of_each = islice(cycle(ways), _MANY)
    connection.send(b"".join(missing(project, number, way) for number, way in enumerate(of_each)))
    assert named(connection.answers(_MANY)) == list(range(_MANY))


@pytest.mark.parametrize("ways", [[HOT], [ASGI], [HOT, ASGI]])
def test_pipelined_posts_are_done_in_order(
    connection: RawConnection, project: str, ways: list[str]
) -> None:
    posts = [post(project, way, number) for number, way in zip(range(20), cycle(ways))]
    connection.send(b"".join(posts) + request("GET", f"{MESSAGES}?echo=true&limit=20", project))
    assert [answer.status for answer in connection.answers(20)] == [201] * 20
    assert bodies(connection.answer()) == list(range(20))


def test_pipelined_request_waits_for_long_poll_before_it(
    service: servers.RunningService, connection: RawConnection, project: str
) -> None:
    """The long poll takes the message; the requests behind it are begun when it is answered."""
    wait = request("POST", "/v2/queues/q/claims?wait=30", project)
    connection.send(wait + request("GET", "/v2/ping") + missing(project, 7, ASGI))
    with RawConnection(service.port) as other:
        assert other.ask(post(project, body="news")).status == 201
    assert bodies(connection.answer("POST")) == ["news"]
    assert connection.answer().status == 204
    assert named([connection.answer()]) == [7]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [1, 2, 20])
def test_garbage_is_refused_after_the_answers_of_requests_before(
    connection: RawConnection, project: str, way: str, count: int
) -> None:
    whole = b"".join(missing(project, number, way) for number in range(count))
    connection.send(whole + GARBAGE)
    assert named(connection.answers(count)) == list(range(count))
    assert connection.answer().status == 400
    assert connection.rest() == b""


@pytest.mark.parametrize("way", WAYS)
def test_bad_chunk_is_refused_after_the_answers_of_requests_before(
    connection: RawConnection, project: str, way: str
) -> None:
    whole = b"".join(missing(project, number, way) for number in range(2))
    bad = request("POST", MESSAGES, project, headers=[("Transfer-Encoding", "chunked")])
    connection.send(whole + bad + b"xyz\r\n")
    assert named(connection.answers(2)) == [0, 1]
    assert connection.answer().status == 400
    assert connection.rest() == b""


@pytest.mark.parametrize("way", WAYS)
def test_request_cut_off_in_a_long_pipeline_is_not_too_large(
    connection: RawConnection, project: str, way: str
) -> None:
    """More bytes than a head may have are in one read, but not in one head."""
    data = b"".join(missing(project, number, way) for number in range(_MANY))
    cut = len(data) - 100
    assert cut > 2 * 64 * 1024
    connection.send(data[:cut])
    assert named(connection.answers(_MANY - 1)) == list(range(_MANY - 1))
    connection.send(data[cut:])
    assert named([connection.answer()]) == [_MANY - 1]


def test_large_bodies_in_a_pipeline_are_read(connection: RawConnection, project: str) -> None:
    """Each is larger than what is read at once."""
    large = ["x" * 200_000] * 5
    ways = [HOT, ASGI, HOT, HOT, ASGI]
    posts = [post(project, way, body) for body, way in zip(large, ways, strict=True)]
    connection.send(b"".join(posts))
    assert [answer.status for answer in connection.answers(5)] == [201] * 5
    assert kept(connection, project) == large


@pytest.mark.parametrize("way", WAYS)
def test_requests_behind_one_that_closes_are_neither_answered_nor_done(
    connection: RawConnection, project: str, way: str, service: servers.RunningService
) -> None:
    closing = [("Connection", "close"), *WAYS[way].items()]
    connection.send(
        request("GET", MESSAGES, project, headers=closing) + post(project, way, "unwanted")
    )
    answer = connection.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert connection.rest() == b""
    with RawConnection(service.port) as other:
        assert kept(other, project) == []


def _segments(connection: RawConnection) -> int:
    """Returns how many times data has come: on loopback, once for each write."""
    information = connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("I", information, _DATA_SEGMENTS_IN)[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", [f"{MESSAGES}?echo=true", f"{MESSAGES}/x", "/healthcheck"])
def test_head_and_body_of_an_answer_leave_in_one_write(
    connection: RawConnection, project: str, way: str, path: str
) -> None:
    assert connection.ask(request("GET", path, project, headers=WAYS[way].items())).body
    assert _segments(connection) == 1


def test_answers_of_one_turn_leave_in_one_write(connection: RawConnection, project: str) -> None:
    connection.send(request("GET", f"{MESSAGES}?limit=x", project) * 20)
    assert [answer.status for answer in connection.answers(20)] == [400] * 20
    assert _segments(connection) == 1
