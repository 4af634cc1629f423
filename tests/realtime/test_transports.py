# SPDX-License-Identifier: Apache-2.0
"""HTTP transports with emulation: two workers, one Redis."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import signal
import uuid
from typing import Any

import httpx
import pytest
from centrifuge.protocol import client_pb2
from google.protobuf import proto

from tests.realtime import streams
from tests.realtime.streams import (
    EMULATED,
    PAGE,
    UNIDIRECTIONAL,
    StreamingClient,
    api,
    connect,
    disconnect,
    emulate,
    lines,
    present,
    token,
)
from tests.support import fixtures, servers
from tests.support.servers import RunningService

OPTIONS = streams.PATIENT


#: A service whose first ping comes within a test.
pinging = fixtures.service(streams.OPTIONS)


def test_http_stream_sends_uncached_json_lines(service: RunningService) -> None:
    with StreamingClient(service, "http_stream", lines(connect())) as stream:
        assert stream.response.status_code == 200
        assert "no-cache" in stream.response.headers["cache-control"]
        assert stream.response.headers["x-accel-buffering"] == "no"
        reply = json.loads(next(stream.lines))
        assert reply["id"] == 1
        assert reply["connect"]["session"] != reply["connect"]["client"]
        assert reply["connect"]["node"]
        assert reply["connect"]["pong"]


def test_sse_starts_with_a_blank_line_and_sends_single_events(service: RunningService) -> None:
    first = lines(connect(), {"id": 2, "rpc": {"method": "x"}})
    with StreamingClient(service, "sse", first) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        seen = [next(stream.lines) for _ in range(5)]
        assert [seen[0], seen[2], seen[4]] == ["", "", ""]
        assert json.loads(seen[1].removeprefix("data: "))["connect"]
        assert json.loads(seen[3].removeprefix("data: "))["error"]["code"] == 108


def test_sse_accepts_post(service: RunningService) -> None:
    url = f"{service.url}/connection/sse"
    with httpx.stream("POST", url, content=lines(connect()), timeout=60) as response:
        found = response.iter_lines()
        assert next(found) == ""
        assert "connect" in json.loads(next(found).removeprefix("data: "))


def test_http_stream_and_emulation_accept_protobuf(service: RunningService, channel: str) -> None:
    def framed(**command: Any) -> bytes:
        written: bytes = client_pb2.Command(**command).SerializeToString()
        return bytes([len(written) & 127 | 128, len(written) >> 7]) + written

    headers = {"content-type": "application/octet-stream"}
    first = framed(id=1, connect=client_pb2.ConnectRequest(token=token()))
    url = f"{service.url}/connection/http_stream"
    with httpx.stream("POST", url, content=first, headers=headers, timeout=60) as response:
        frames = response.iter_raw()

        def reply() -> Any:
            while True:
                source = io.BytesIO(next(frames))
                found = proto.parse_length_prefixed(client_pb2.Reply, source)
                if found is not None and found.id:
                    return found

        connected = reply().connect
        asked = client_pb2.SubscribeRequest(channel=channel)
        emulated = client_pb2.EmulationRequest(
            session=connected.session, node=connected.node, data=framed(id=2, subscribe=asked)
        )
        url, content = f"{service.url}/emulation", emulated.SerializeToString()
        sent = httpx.post(url, content=content, headers=headers, timeout=60)
        assert sent.status_code == 204
        assert reply().subscribe.recoverable


@pytest.mark.parametrize("transport", EMULATED)
def test_second_pong_to_a_ping_is_a_bad_request(pinging: RunningService, transport: str) -> None:
    with StreamingClient(pinging, transport, lines(connect())) as stream:
        stream.connected()
        assert stream.next(pings=True) == {}
        stream.send({}, {})  # the second pong has no ping
        assert stream.last_push() == {"push": disconnect(3501, "bad request")}


@pytest.mark.parametrize("transport", EMULATED)
def test_emulation_request_carries_commands(
    service: RunningService, channel: str, transport: str
) -> None:
    with StreamingClient(service, transport, lines(connect())) as stream:
        stream.connected()
        stream.send({"id": 2, "subscribe": {"channel": channel}})
        assert stream.next()["subscribe"]["recoverable"]
        stream.send({"id": 3, "publish": {"channel": channel, "data": {"text": "a\nb"}}})
        received = [stream.next(), stream.next()]  # in any order
        (push,) = [each["push"] for each in received if "push" in each]
        assert push["pub"]["data"] == {"text": "a\nb"}
        assert {"id": 3, "publish": {}} in received
        stream.send({"id": 4, "unsubscribe": {"channel": channel}})
        assert stream.next() == {"id": 4, "unsubscribe": {}}


def test_emulation_request_is_forwarded_to_the_worker_of_the_stream(
    service: RunningService, channel: str
) -> None:
    refused = lines(connect(), connect())  # a second connect ends the stream, not its connection
    with StreamingClient(service, "http_stream", lines(connect())) as stream:
        stream.connected()
        for _ in range(100):
            other = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
            other.request("POST", "/connection/http_stream", refused)
            replies = [json.loads(line) for line in other.getresponse().read().splitlines()]
            assert replies[1] == {"push": disconnect(3501, "bad request")}
            if replies[0]["connect"]["node"] != stream.node:
                break
            other.close()
        data = lines({"id": 2, "subscribe": {"channel": channel}})
        body = {"session": stream.session, "node": stream.node, "data": data}
        other.request("POST", "/emulation", json.dumps(body))
        assert other.getresponse().status == 204
        assert stream.next()["subscribe"]["recoverable"]
        other.close()


def test_emulation_request_of_unknown_node_or_session(service: RunningService) -> None:
    with StreamingClient(service, "http_stream", lines(connect())) as stream:
        stream.connected()
        assert emulate(service, stream.session, str(uuid.uuid4()), "{}").status_code == 404
        assert emulate(service, stream.session, "", "{}").status_code == 404
        assert emulate(service, str(uuid.uuid4()), stream.node, "{}").status_code == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"nonsense", 400),
        (b'{"session": "a", "node": "b", "data": {"id": 1}}', 400),
        (b'{"session": "a", "node": "b"}', 400),
        (b" " * 65537, 413),
    ],
)
def test_malformed_emulation_request_is_refused(
    service: RunningService, body: bytes, status: int
) -> None:
    assert httpx.post(f"{service.url}/emulation", content=body).status_code == status


def test_stream_without_valid_commands_is_refused(service: RunningService) -> None:
    assert httpx.get(f"{service.url}/connection/sse").status_code == 400
    assert httpx.post(f"{service.url}/connection/http_stream").status_code == 400
    wrong = httpx.get(f"{service.url}/connection/http_stream")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST, OPTIONS")
    with StreamingClient(service, "http_stream", "nonsense") as stream:
        assert stream.last_push() == {"push": disconnect(3501, "bad request")}


def test_cors_headers_name_the_allowed_origin(service: RunningService) -> None:
    asks = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for path in ("/emulation", "/connection/http_stream", "/connection/uni_http_stream"):
        answer = httpx.options(f"{service.url}{path}", headers=asks)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-headers"] == "content-type"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-max-age"] == "600"
    url = f"{service.url}/connection/sse"
    asked = {"cf_connect": lines(connect())}
    with httpx.stream("GET", url, params=asked, headers={"Origin": PAGE}) as response:
        assert response.headers["access-control-allow-origin"] == PAGE
        assert response.headers["access-control-allow-credentials"] == "true"
        assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize(
    "path", ["/emulation", *(f"/connection/{each}" for each in ("http_stream", "uni_sse"))]
)
def test_request_of_foreign_origin_is_refused(service: RunningService, path: str) -> None:
    headers = {"Origin": "https://example.com"}
    for method in ("POST", "OPTIONS"):
        answer = httpx.request(method, service.url + path, content="{}", headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("transport", EMULATED + UNIDIRECTIONAL)
def test_dropped_stream_leaves_presence(
    service: RunningService, channel: str, transport: str
) -> None:
    asked = connect(channel)
    first = lines(asked["connect"] if transport in UNIDIRECTIONAL else asked)
    with StreamingClient(service, transport, first) as stream:
        stream.next()
        assert present(service, channel) == 1
    servers.wait_for(  # it would expire in a minute
        lambda: present(service, channel) == 0, "its presence to be removed", seconds=30
    )


@pytest.mark.parametrize("transport", EMULATED + UNIDIRECTIONAL)
def test_disconnect_push_carries_code_and_reason(
    service: RunningService, channel: str, transport: str
) -> None:
    user = str(uuid.uuid4())
    asked = connect(channel, sub=user)
    one_way = transport in UNIDIRECTIONAL
    with StreamingClient(
        service, transport, lines(asked["connect"] if one_way else asked)
    ) as stream:
        stream.next()
        api(service, "disconnect", user=user, disconnect={"code": 4000, "reason": "go home"})
        push = disconnect(4000, "go home")
        assert stream.last_push() == (push if one_way else {"push": push})


def test_plain_request_to_websocket_endpoint_gets_upgrade_required(service: RunningService) -> None:
    answer = httpx.get(f"{service.url}/connection/websocket")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


def test_pending_commands_are_bounded_while_redis_is_paused() -> None:
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(servers.redis_server())
        options = OPTIONS | {"redis": {"timeout": 60}}  # no command fails meanwhile
        service = stack.enter_context(servers.service(redis.uri, options=options))
        stream = stack.enter_context(
            StreamingClient(service, "http_stream", lines(connect("chat:a")))
        )
        client = stack.enter_context(httpx.Client(base_url=service.url, timeout=60))
        stream.connected()
        redis.signal(signal.SIGSTOP)
        asked = lines({"id": 2, "publish": {"channel": "chat:a", "data": "x" * 60_000}})
        body = {"session": stream.session, "node": stream.node, "data": asked}
        for _ in range(20):  # one is running, and fewer than 18 may wait
            assert client.post("/emulation", json=body).status_code == 204
        assert stream.next() == {"push": disconnect(3013, "too many requests")}
        redis.signal(signal.SIGCONT)
        assert stream.last_push() is None
