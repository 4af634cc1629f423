# SPDX-License-Identifier: Apache-2.0
"""Frames that no client should send: the socket stays, unless it is no use."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import msgpack
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.support import fixtures, servers
from tests.support.backends import Backend
from tests.websocket.peers import ApiPeer, api_peer
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import keys


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("", "Can't decode text (JSON) request. "),
        ("{", "Can't decode text (JSON) request. "),
        ('{"action": nothing}', "Can't decode text (JSON) request. "),
        ('{"body": ' + "[" * 60_000, "Can't decode text (JSON) request. "),
        (
            '{"action": "message_post", "body": {"messages": [{"body": "\\ud800"}]}}',
            "Can't decode text (JSON) request. DecodeError: \\ud800 is half of a surrogate pair",
        ),
        ("[1]", "Unexpected body type. Expected dict or dict like."),
        ("null", "Unexpected body type. Expected dict or dict like."),
        (b"", "Can't decode binary (MessagePack) request. "),
        (b"\xc1", "Can't decode binary (MessagePack) request. "),
        (b"\xdf\xff\xff\xff\xff", "Can't decode binary (MessagePack) request. "),
        (b"\x91" * 60_000, "Can't decode binary (MessagePack) request. "),
        (msgpack.packb({"a": float("nan")}), "Can't decode binary (MessagePack) request. "),
        (msgpack.packb({"a": b"bytes"}), "Can't decode binary (MessagePack) request. "),
        (msgpack.packb({"a": msgpack.Timestamp(1)}), "Can't decode binary (MessagePack) request. "),
        (msgpack.packb(5), "Unexpected body type. Expected dict or dict like."),
    ],
)
def test_undecodable_frame_is_answered_without_an_action(
    text_peer: ApiPeer, frame: str | bytes, error: str
) -> None:
    text_peer.socket.send(frame)
    text_peer.binary = isinstance(frame, bytes)
    response = text_peer.receive()
    assert response["headers"] == {"status": 400}
    assert response["body"]["error"].startswith(error)
    assert response["request"] == {"action": None, "body": {}, "headers": {}, "api": "v2"}
    assert text_peer.ask("queue_list").status == 200


@pytest.mark.parametrize(
    "action",
    [
        *("nothing", "__init__", "queue_list ", "pool_list", "", "ü"),
        *(None, 5, ["queue_list"], {"queue_list": 1}),
    ],
)
def test_unknown_action_is_answered_with_its_name(text_peer: ApiPeer, action: Any) -> None:
    shown = action if isinstance(action, str) else json.dumps(action)
    status, body = text_peer.ask(action)
    assert (status, body["error"]) == (400, f"{shown} is not a valid action")
    assert text_peer.ask("queue_list").status == 200


def test_action_that_is_nested_deeply_is_refused(text_peer: ApiPeer) -> None:
    text_peer.socket.send('{"action": ' + "[" * 900 + "]" * 900 + "}")
    assert text_peer.receive()["headers"] == {"status": 400}
    assert text_peer.ask("queue_list").status == 200


def test_unexpected_error_is_logged_and_the_socket_stays(
    redis_server: Backend, project: str
) -> None:
    with servers.service(redis_server.uri) as service, api_peer(service, project) as peer:
        peer.ask("queue_create", queue_name="q", metadata={"a": 1})
    with redis_server.client() as client:
        client.hset(keys.of_queue(project, "q").queue, "metadata", "damaged")
    with pytest.raises(BenchmarkFailed, match="unexpected error in a request of a socket"):
        _read_damaged(redis_server, project)


def _read_damaged(redis_server: Backend, project: str) -> None:
    with servers.service(redis_server.uri) as service, api_peer(service, project) as peer:
        assert peer.ask("queue_get", queue_name="q") == (500, {"error": "Unexpected error."})
        assert peer.ask("queue_create", queue_name="other").status == 201


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("queue_list", {"limit": "1"}),
        ("queue_list", {"limit": True}),
        ("queue_create", {}),
        ("queue_create", {"queue_name": 1}),
        ("queue_create", {"queue_name": "q", "metadata": []}),
        ("message_post", {"queue_name": "q", "messages": {}}),
        ("message_post", {"queue_name": "q", "messages": [{"ttl": 60}]}),
        ("message_get_many", {"queue_name": "q", "message_ids": [1]}),
        ("claim_create", {"queue_name": "q", "ttl": 60.5}),
    ],
)
def test_body_of_the_wrong_shape_is_refused(
    text_peer: ApiPeer, action: str, body: dict[str, Any]
) -> None:
    status, answer = text_peer.ask(action, **body)
    assert (status, answer["error"]) == (400, "Schema validation failed.")
    assert answer["exception"]
    assert text_peer.ask("queue_list").body == {"queues": []}


@pytest.mark.parametrize("part", ["headers", "body"])
@pytest.mark.parametrize("value", [None, 5, "text", []])
def test_part_that_is_no_object_is_refused(text_peer: ApiPeer, part: str, value: Any) -> None:
    text_peer.send({"action": "queue_list", "headers": text_peer.headers} | {part: value})
    response = text_peer.receive()
    assert response["headers"] == {"status": 400}
    assert response["request"][part] == value


@pytest.mark.parametrize(
    "headers",
    [
        *({"Client-ID": None}, {"Client-ID": "no uuid"}, {"Client-ID": 5}),
        *({"X-Project-ID": ""}, {"X-Project-ID": "p" * 257}, {"X-Project-ID": "line\nbreak"}),
        *({"X-Auth-Token": "line\n"}, {"URL-Methods": "GET"}),
    ],
)
def test_wrong_header_is_refused(text_peer: ApiPeer, headers: dict[str, Any]) -> None:
    assert text_peer.ask("queue_list", headers).status == 400
    assert text_peer.ask("queue_list").status == 200


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("queue_create", {"queue_name": "a/b"}),
        ("queue_create", {"queue_name": "q", "metadata": {"_default_message_ttl": 1}}),
        ("queue_purge", {"queue_name": "q", "resource_types": ["everything"]}),
        ("message_post", {"queue_name": "q", "messages": []}),
        ("message_post", {"queue_name": "q", "messages": [{"body": 1, "ttl": 1}]}),
        ("message_list", {"queue_name": "q", "limit": 0}),
        ("message_list", {"queue_name": "q", "limit": 21}),
        ("message_get_many", {"queue_name": "q", "message_ids": []}),
        ("message_delete_many", {"queue_name": "q", "pop": 0}),
        ("claim_create", {"queue_name": "q", "grace": 1}),
        ("subscription_list", {"queue_name": "q", "limit": 21}),
    ],
)
def test_limits_are_those_of_the_rest_api(
    text_peer: ApiPeer, action: str, body: dict[str, Any]
) -> None:
    status, answer = text_peer.ask(action, **body)
    assert status == 400
    assert answer["error"] != "Schema validation failed."
    assert answer["exception"]


def test_post_larger_than_the_limit_of_the_service_is_refused(
    redis_server: Backend, project: str
) -> None:
    options = {
        "transport": {"max_messages_post_size": 100},
        "drivers:transport:websocket": {"port": (port := servers.free_port())},
    }
    message = [{"body": "x" * 100, "ttl": 60}]
    with servers.service(redis_server.uri, options=options) as service:
        with api_peer(service, project) as peer:
            assert peer.ask("message_post", queue_name="q", messages=message).status == 400
            assert peer.ask("queue_list").body == {"queues": []}
        # Old clients use a port of its own, and no path.
        service.port = port
        with api_peer(service, project, path="/") as peer:
            assert peer.ask("queue_list").status == 200


def test_clients_of_stock_zaqar_connect_without_a_path(
    service: servers.RunningService, project: str
) -> None:
    with api_peer(service, project, path="/") as peer:
        assert peer.ask("queue_list").status == 200


@pytest.mark.parametrize("size", [65_536, 16_384])
def test_message_of_more_than_64_kib_closes_the_socket(text_peer: ApiPeer, size: int) -> None:
    text = json.dumps({"action": "x" * 65_536})
    with contextlib.suppress(ConnectionClosed):  # perhaps before its last part is sent
        text_peer.socket.send(text[at : at + size] for at in range(0, len(text), size))
    assert text_peer.expect_close()[0] == 1009


def test_page_of_another_origin_is_refused(service: servers.RunningService) -> None:
    url = f"ws://127.0.0.1:{service.port}/v2/ws"
    with pytest.raises(InvalidStatus) as refused:
        connect(url, proxy=None, origin=Origin("http://evil.example.org")).close()
    assert refused.value.response.status_code == 403


def test_socket_at_another_path_is_told_where_there_are_some(
    service: servers.RunningService,
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{service.port}/nowhere", proxy=None).close()
    answer = refused.value.response
    assert answer.status_code == 404
    assert answer.body is not None
    text = json.loads(answer.body)["description"]
    assert text.startswith("There is no WebSocket at /nowhere: connect to /connection/websocket or")
    assert text.endswith("/v2/ws.")


def test_plain_request_is_told_to_upgrade(service: servers.RunningService) -> None:
    answer = httpx.get(f"{service.url}/v2/ws")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


_REQUEST = json.dumps({"action": "x" * 60_000}).encode()
#: Masked with zeros; the response is twice as long.
_FRAME = struct.pack("!BBHL", 0x81, 0x80 | 126, len(_REQUEST), 0) + _REQUEST


@contextlib.contextmanager
def _flooding(service: servers.RunningService, timeout: float) -> Iterator[socket.socket]:
    """Yields a socket whose client decides when to read."""
    with socket.create_connection(("127.0.0.1", service.port), 60) as connection:
        connection.sendall(
            b"GET /v2/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        connection.settimeout(timeout)
        yield connection


def _fill(connection: socket.socket) -> Iterator[int]:
    """Yields the number of requests, until nobody takes more of them."""
    for number in itertools.count(1):
        connection.sendall(_FRAME)
        yield number


def test_requests_of_a_client_that_does_not_read_wait_and_are_answered_in_the_end(
    service: servers.RunningService,
) -> None:
    sent = 0
    with _flooding(service, timeout=1) as connection:
        with contextlib.suppress(TimeoutError):
            for sent in _fill(connection):  # noqa: B007  # what was sent when it ended
                pass
        connection.settimeout(60)
        with connection.makefile("rb") as answers:
            for _ in range(sent):
                head, size = struct.unpack("!HQ", answers.read(10))
                assert head == 0x817F
                assert json.loads(answers.read(size))["headers"] == {"status": 400}


# Long enough for a client of a busy machine to say in time who it is.
impatient = fixtures.service({"server": {"request_timeout": 6}})


def test_client_that_reads_nothing_is_cut_off_and_others_are_served(
    impatient: servers.RunningService, project: str
) -> None:
    with _flooding(impatient, timeout=60) as connection, pytest.raises(ConnectionError):
        list(_fill(connection))
    with api_peer(impatient, project) as peer:
        assert peer.ask("queue_list").status == 200


def test_client_that_never_says_who_it_is_is_closed(
    impatient: servers.RunningService, project: str
) -> None:
    with api_peer(impatient, project) as known, api_peer(impatient, project) as stranger:
        assert known.ask("queue_list").status == 200
        assert stranger.ask("queue_create", queue_name="no name").status == 400
        assert stranger.expect_close() == (4003, "Not authenticated.")
        assert known.ask("queue_list").status == 200
