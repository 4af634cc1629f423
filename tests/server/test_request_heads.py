# SPDX-License-Identifier: Apache-2.0
"""What a proxy in front could read another way is refused, whichever way a request takes."""

from __future__ import annotations

import json

import pytest

from tests.server.counted_app import KEY
from tests.server.exchanges import DOCUMENT, MESSAGES, kept
from tests.server.test_framing import upgrade
from tests.support import fixtures, servers
from tests.support.raw_http import CLIENT, RawAnswer, RawConnection, chunked, request
from tests.support.ways import WAYS

_OTHER = "00000000-0000-4000-8000-000000000001"
_CHUNKED = ("Transfer-Encoding", "chunked")
_FORM = ("Content-Type", "application/x-www-form-urlencoded")
#: A GET and what else has a handler of its own, or none.
_TARGETS = [
    ("GET", "/v2/queues"),
    ("GET", MESSAGES),
    ("GET", "/v2/pools"),
    ("GET", "/healthcheck"),
    ("OPTIONS", MESSAGES),
    ("POST", "/api/info"),
    ("POST", "/connection/sse"),
    ("GET", "/console/"),
    ("GET", "/nowhere"),
]
Headers = list[tuple[str, str]]


service = fixtures.service({"channels": {"api_key": KEY}})


def refused(answer: RawAnswer, status: int, *words: str) -> None:
    assert answer.status == status, answer
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    text = json.loads(answer.body)["description"]
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("//v2/queues", "more than one slash"),
        ("///v2/queues/q/messages", "more than one slash"),
        ("http://h//v2/queues", "more than one slash"),
        ("//healthcheck", "more than one slash"),
        ("//nowhere", "more than one slash"),
        ("//api/info", "more than one slash"),
        ("/v2%2Fqueues", "%2F"),
        ("/%2fv2/queues", "%2F"),
        ("/v2/queues/q%2Fmessages", "%2F"),
    ],
)
def test_another_spelling_of_a_path_is_not_found(
    connection: RawConnection, project: str, way: str, path: str, words: str
) -> None:
    refused(connection.ask(request("GET", path, project, headers=WAYS[way].items())), 404, words)
    assert kept(connection, project) == []


@pytest.mark.parametrize("path", ["/v2/", "/v2/queues?marker=//%2F", "http://h/v2/queues", "/"])
def test_slashes_elsewhere_are_served(connection: RawConnection, project: str, path: str) -> None:
    assert connection.ask(request("GET", path, project)).status in (200, 300)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("X-Tenant-ID", ("a", "b")),
        ("X-Tenant", ("a", "b")),
        ("X-Project-ID", ("other",)),
        ("X-Project-ID", ("",)),
        ("Client-ID", (_OTHER,)),
        ("Client-ID", ("nonsense",)),
        ("Host", ("other",)),
        ("Host", ("h",)),
        ("Authorization", ("Bearer a", "Bearer b")),
        ("Authorization", ("Bearer a", "Bearer a")),
        ("X-Auth-Token", ("a", "b")),
        ("X-Service-Token", ("a", "b")),
        ("X-API-Key", (KEY, "wrong")),
        ("URL-Signature", ("a", "b")),
        ("URL-Expires", ("a", "b")),
        ("Idempotency-Key", ("a", "b")),
        ("Content-Type", (_FORM[1], "application/json")),
        ("Origin", ("http://h", "http://h")),
    ],
)
def test_header_that_decides_is_refused_when_it_comes_with_two_values(
    connection: RawConnection, project: str, way: str, name: str, values: tuple[str, ...]
) -> None:
    for method, path in (("POST", MESSAGES), *_TARGETS):
        headers = [*WAYS[way].items(), *((name, value) for value in values)]
        connection.send(request(method, path, project, DOCUMENT, headers))
        refused(connection.answer(), 400, name.title(), "more than once")
    assert kept(connection, project) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["X-Tenant-ID", "X-Tenant"])
def test_headers_that_name_different_projects_are_refused(
    connection: RawConnection, project: str, way: str, name: str
) -> None:
    for method, path in (("POST", MESSAGES), *_TARGETS):
        headers = [*WAYS[way].items(), (name, "other")]
        connection.send(request(method, path, project, DOCUMENT, headers))
        refused(connection.answer(), 400, "different projects", "X-Project-ID")
    assert kept(connection, project) == []
    headers = [*WAYS[way].items(), (name, project)]
    assert connection.ask(request("POST", MESSAGES, project, DOCUMENT, headers)).status == 201


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("version", "status"), [("1.1", 400), ("1.0", 201)])
def test_request_without_a_host_is_refused_but_in_http_1_0(
    service: servers.RunningService, project: str, way: str, version: str, status: int
) -> None:
    whole = request("POST", MESSAGES, project, DOCUMENT, WAYS[way].items(), version)
    with RawConnection(service.port) as connection:
        assert connection.ask(whole.replace(b"Host: h\r\n", b"")).status == status
        assert connection.rest() == b""
    with RawConnection(service.port) as connection:
        assert kept(connection, project) == ["kept"] * (status == 201)


@pytest.mark.parametrize("way", WAYS)
def test_header_that_comes_twice_with_one_value_is_served(
    connection: RawConnection, project: str, way: str
) -> None:
    twice = [("X-Project-ID", project), ("client-id", CLIENT), *[("Idempotency-Key", "k")] * 2]
    for _ in range(2):
        headers = [*WAYS[way].items(), *twice]
        assert connection.ask(request("POST", MESSAGES, project, DOCUMENT, headers)).status == 201
    assert kept(connection, project) == ["kept"]


@pytest.mark.parametrize("way", WAYS)
def test_lists_in_two_headers_are_one_list(
    connection: RawConnection, project: str, way: str
) -> None:
    for kinds, status in (
        (("text/html", "application/json"), 200),
        (("application/json", "text/html"), 200),
        (("text/html", "text/plain"), 406),
    ):
        headers = [*WAYS[way].items(), *(("Accept", kind) for kind in kinds)]
        assert connection.ask(request("GET", MESSAGES, project, headers=headers)).status == status


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", [MESSAGES, "/api/info", "/connection/sse"])
@pytest.mark.parametrize("codings", [("gzip",), ("identity", "br"), ("Deflate, identity",)])
def test_encoded_body_is_refused(
    connection: RawConnection, project: str, way: str, path: str, codings: tuple[str, ...]
) -> None:
    headers = [*WAYS[way].items(), *(("Content-Encoding", coding) for coding in codings)]
    for whole in (
        request("POST", path, project, DOCUMENT, headers),
        request("POST", path, project, headers=[*headers, _CHUNKED]) + chunked(DOCUMENT),
    ):
        answer = connection.ask(whole)
        refused(answer, 415, "Content-Encoding")
        assert answer.headers["accept-encoding"] == "identity"
    assert kept(connection, project) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coding", ["identity", "Identity", ""])
def test_body_that_is_not_encoded_is_served(
    connection: RawConnection, project: str, way: str, coding: str
) -> None:
    headers = [*WAYS[way].items(), ("Content-Encoding", coding)]
    assert connection.ask(request("POST", MESSAGES, project, DOCUMENT, headers)).status == 201
    assert kept(connection, project) == ["kept"]


@pytest.mark.parametrize("way", WAYS)
def test_coding_of_no_body_is_ignored(connection: RawConnection, project: str, way: str) -> None:
    headers = [*WAYS[way].items(), ("Content-Encoding", "gzip")]
    assert connection.ask(request("GET", MESSAGES, project, headers=headers)).status == 200


@pytest.mark.parametrize("path", [MESSAGES, "/api/info", "/connection/sse", "/nowhere"])
@pytest.mark.parametrize(
    "codings", [("gzip, chunked",), ("gzip", "chunked"), ("identity, chunked",), ("x,chunked",)]
)
def test_another_transfer_coding_is_refused_and_connection_goes_on(
    connection: RawConnection, project: str, path: str, codings: tuple[str, ...]
) -> None:
    headers = [("Transfer-Encoding", coding) for coding in codings]
    connection.send(request("POST", path, project, headers=headers) + chunked(DOCUMENT))
    refused(connection.answer(), 400, "Transfer-Encoding", "chunked")
    assert kept(connection, project) == []


@pytest.mark.parametrize("coding", ["Chunked", " , chunked"])
def test_other_spelling_of_chunked_is_served(
    connection: RawConnection, project: str, coding: str
) -> None:
    headers = [("Transfer-Encoding", coding)]
    connection.send(request("POST", MESSAGES, project, headers=headers) + chunked(DOCUMENT))
    assert connection.answer().status == 201
    assert kept(connection, project) == ["kept"]


def test_transfer_coding_in_http_1_0_is_refused_and_the_body_is_no_request(
    connection: RawConnection, project: str
) -> None:
    head = request("POST", MESSAGES, project, headers=[_CHUNKED], version="1.0")
    assert connection.ask(head + chunked(DOCUMENT)).status == 400
    assert connection.rest() == b""


@pytest.mark.parametrize("way", WAYS)
def test_form_is_refused_whatever_tells_its_length(
    connection: RawConnection, project: str, way: str
) -> None:
    headers = [*WAYS[way].items(), _FORM]
    for whole in (
        request("POST", MESSAGES, project, DOCUMENT, headers),
        request("POST", MESSAGES, project, headers=[*headers, _CHUNKED]) + chunked(DOCUMENT),
    ):
        refused(connection.ask(whole), 400, _FORM[1])
    assert kept(connection, project) == []


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        ("//v2/ws", [], 404),
        ("/v2%2Fws", [], 404),
        ("/connection%2Fwebsocket", [], 404),
        ("/v2/ws", [("Host", "other")], 400),
        ("/v2/ws", [("X-Project-ID", "other")], 400),
        ("/connection/uni_websocket", [("Host", "other")], 400),
        ("/connection/websocket", [("Authorization", "a"), ("Authorization", "b")], 400),
    ],
)
def test_handshake_of_a_socket_is_refused_alike(
    connection: RawConnection, path: str, more: Headers, status: int
) -> None:
    connection.send(request("GET", path, headers=[*upgrade("websocket"), *more]))
    head, _, body = connection.rest().partition(b"\r\n\r\n")
    answer = RawAnswer(head + b"\r\n\r\n", body)
    refused(answer, status, "slash" if status == 404 else "more than once")


@pytest.mark.parametrize("path", ["/v2/ws", "/connection/websocket", "/"])
def test_handshake_of_a_socket_with_usual_headers_is_accepted(
    connection: RawConnection, path: str
) -> None:
    more = [("Origin", "http://h"), ("Client-ID", CLIENT)]
    connection.send(request("GET", path, headers=[*upgrade("websocket"), *more]))
    assert connection.until_text(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
