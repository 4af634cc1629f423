# SPDX-License-Identifier: Apache-2.0
"""Channels over HTTP, as they look on the wire: two workers, one Redis."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import jwt
import pytest
from centrifuge.protocol import client_pb2
from google.protobuf import proto
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket

from tests import servers

KEY = "the operator's key"
SECRET = "a secret that is long enough for HS256"
PAGE = "https://app.example.org"
OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "token_hmac_secret_key": SECRET,
        "api_key": KEY,
        "allowed_origins": "https://*.example.org",
        # Pings come at once, and need not be answered while a test lasts.
        "ping_interval": 1,
        "pong_timeout": 60,
        "namespaces": "chat,flood",
    },
    "channels:chat": {
        "presence": True,
        "history_size": 20,
        "history_ttl": 60,
        "force_recovery": True,
        "allow_subscribe_for_client": True,
        "allow_publish_for_subscriber": True,
    },
    "channels:flood": {"presence": True},
}
EMULATED = ["http_stream", "sse"]
UNIDIRECTIONAL = ["uni_http_stream", "uni_sse"]


@pytest.fixture(scope="module")
def service(redis_server: servers.RedisServer) -> Iterator[servers.Service]:
    with servers.service(redis_server.uri, workers=2, options=OPTIONS) as running:
        yield running


@pytest.fixture
def channel() -> str:
    return f"chat:{uuid.uuid4()}"


def token(*channels: str, **claims: Any) -> str:
    """Of ann, who is subscribed to *channels*."""
    return jwt.encode({"sub": "ann", "channels": channels} | claims, SECRET, algorithm="HS256")


def connect(*channels: str, **claims: Any) -> dict[str, Any]:
    return {"id": 1, "connect": {"token": token(*channels, **claims)}}


def lines(*commands: dict[str, Any]) -> str:
    return "\n".join(json.dumps(command) for command in commands)


class Stream:
    """A client of a stream that does not end."""

    def __init__(self, service: servers.Service, transport: str, first: str) -> None:
        self._service = service
        self._stack = contextlib.ExitStack()
        client = self._stack.enter_context(httpx.Client(base_url=service.url, timeout=10))
        path = f"/connection/{transport}"
        if transport.endswith("sse"):
            asked = client.stream("GET", path, params={"cf_connect": first})
        else:
            asked = client.stream("POST", path, content=first)
        self.response = self._stack.enter_context(asked)
        self.lines = self.response.iter_lines()
        self.session = self.node = ""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def next(self, *, pings: bool = False) -> Any:
        """The next reply or push; pings are passed over."""
        for line in self.lines:
            said = json.loads(line.removeprefix("data: ")) if line else {}
            if said or (pings and line):
                return said
        raise EOFError

    def connected(self) -> Any:
        """The result of connect; from then on the client can `say` something."""
        said = self.next()
        result = said["connect"]
        self.session, self.node = result["session"], result["node"]
        return result

    def say(self, *commands: dict[str, Any]) -> None:
        answer = emulate(self._service, self.session, self.node, lines(*commands))
        assert answer.status_code == 204

    def ends(self) -> Any:
        """With which push it does; whatever comes before is passed over."""
        last: Any = None
        with contextlib.suppress(EOFError):
            while True:
                last = self.next()
        return last


def emulate(service: servers.Service, session: str, node: str, data: str) -> httpx.Response:
    body = {"session": session, "node": node, "data": data}
    return httpx.post(f"{service.url}/emulation", json=body)


def api(service: servers.Service, method: str, **asked: Any) -> Any:
    answer = httpx.post(f"{service.url}/api/{method}", json=asked, headers={"X-API-Key": KEY})
    return answer.json()["result"]


def present(service: servers.Service, channel: str) -> int:
    return int(api(service, "presence_stats", channel=channel)["num_clients"])


def disconnect(code: int, reason: str) -> dict[str, Any]:
    again = {} if 3500 <= code < 4000 else {"reconnect": True}
    return {"disconnect": {"code": code, "reason": reason} | again}


def test_a_stream_is_replies_in_lines_that_nobody_keeps(service: servers.Service) -> None:
    with Stream(service, "http_stream", lines(connect())) as stream:
        assert stream.response.status_code == 200
        assert "no-cache" in stream.response.headers["cache-control"]
        assert stream.response.headers["x-accel-buffering"] == "no"
        reply = json.loads(next(stream.lines))
        assert reply["id"] == 1
        assert reply["connect"]["session"] != reply["connect"]["client"]
        assert reply["connect"]["node"]
        assert reply["connect"]["pong"]


def test_events_begin_with_a_blank_line_and_come_one_by_one(service: servers.Service) -> None:
    first = lines(connect(), {"id": 2, "rpc": {"method": "x"}})
    with Stream(service, "sse", first) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        seen = [next(stream.lines) for _ in range(5)]
        assert [seen[0], seen[2], seen[4]] == ["", "", ""]
        assert json.loads(seen[1].removeprefix("data: "))["connect"]
        assert json.loads(seen[3].removeprefix("data: "))["error"]["code"] == 108


def test_events_may_be_asked_for_by_post(service: servers.Service) -> None:
    url = f"{service.url}/connection/sse"
    with httpx.stream("POST", url, content=lines(connect())) as response:
        found = response.iter_lines()
        assert next(found) == ""
        assert "connect" in json.loads(next(found).removeprefix("data: "))


def test_clients_of_protobuf_get_and_send_it(service: servers.Service, channel: str) -> None:
    def framed(**command: Any) -> bytes:
        written: bytes = client_pb2.Command(**command).SerializeToString()
        return bytes([len(written) & 127 | 128, len(written) >> 7]) + written

    headers = {"content-type": "application/octet-stream"}
    first = framed(id=1, connect=client_pb2.ConnectRequest(token=token()))
    with httpx.stream(
        "POST", f"{service.url}/connection/http_stream", content=first, headers=headers
    ) as response:
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
        sent = httpx.post(
            f"{service.url}/emulation", content=emulated.SerializeToString(), headers=headers
        )
        assert sent.status_code == 204
        assert reply().subscribe.recoverable


@pytest.mark.parametrize("transport", EMULATED)
def test_pings_come_and_are_answered_once(service: servers.Service, transport: str) -> None:
    with Stream(service, transport, lines(connect())) as stream:
        stream.connected()
        assert stream.next(pings=True) == {}
        stream.say({})
        stream.say({})  # to no ping
        assert stream.ends() == {"push": disconnect(3501, "bad request")}


@pytest.mark.parametrize("transport", EMULATED)
def test_commands_come_by_requests_of_their_own(
    service: servers.Service, channel: str, transport: str
) -> None:
    with Stream(service, transport, lines(connect())) as stream:
        stream.connected()
        stream.say({"id": 2, "subscribe": {"channel": channel}})
        assert stream.next()["subscribe"]["recoverable"]
        stream.say(
            {"id": 3, "publish": {"channel": channel, "data": {"text": "a\nb"}}},
            {"id": 4, "unsubscribe": {"channel": channel}},
        )
        heard = [stream.next() for _ in range(3)]
        (push,) = [each["push"] for each in heard if "push" in each]
        assert push["pub"]["data"] == {"text": "a\nb"}
        assert [each for each in heard if "id" in each] == [
            {"id": 3, "publish": {}},
            {"id": 4, "unsubscribe": {}},
        ]


def test_a_request_may_reach_another_worker_than_the_stream(
    service: servers.Service, channel: str
) -> None:
    refused = lines(connect(), connect())  # a second connect ends the stream, not its connection
    with Stream(service, "http_stream", lines(connect())) as stream:
        stream.connected()
        for _ in range(100):
            other = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
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


def test_requests_for_what_is_not_there(service: servers.Service) -> None:
    with Stream(service, "http_stream", lines(connect())) as stream:
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
def test_requests_that_cannot_be_read(service: servers.Service, body: bytes, status: int) -> None:
    assert httpx.post(f"{service.url}/emulation", content=body).status_code == status


def test_a_stream_begins_with_commands(service: servers.Service) -> None:
    assert httpx.get(f"{service.url}/connection/sse").status_code == 400
    assert httpx.post(f"{service.url}/connection/http_stream").status_code == 400
    wrong = httpx.get(f"{service.url}/connection/http_stream")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST, OPTIONS")
    with Stream(service, "http_stream", "nonsense") as stream:
        assert stream.ends() == {"push": disconnect(3501, "bad request")}


def test_browsers_are_told_which_pages_may_come(service: servers.Service) -> None:
    asks = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for path in ("/emulation", "/connection/http_stream", "/connection/uni_http_stream"):
        answer = httpx.options(f"{service.url}{path}", headers=asks)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-headers"] == "content-type"
        assert "POST" in answer.headers["access-control-allow-methods"]
    url = f"{service.url}/connection/sse"
    asked = {"cf_connect": lines(connect())}
    with httpx.stream("GET", url, params=asked, headers={"Origin": PAGE}) as response:
        assert response.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize(
    "path",
    ["/emulation", *(f"/connection/{each}" for each in ("http_stream", "uni_sse"))],
)
def test_pages_of_other_origins_are_refused(service: servers.Service, path: str) -> None:
    headers = {"Origin": "https://example.com"}
    for method in ("POST", "OPTIONS"):
        answer = httpx.request(method, service.url + path, content="{}", headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("transport", EMULATED + UNIDIRECTIONAL)
def test_who_drops_the_stream_is_not_present_any_more(
    service: servers.Service, channel: str, transport: str
) -> None:
    asked = connect(channel)
    first = lines(asked["connect"] if transport in UNIDIRECTIONAL else asked)
    with Stream(service, transport, first) as stream:
        stream.next()
        assert present(service, channel) == 1
    servers.wait_for(lambda: present(service, channel) == 0, "its presence to end", seconds=5)


@pytest.mark.parametrize("transport", EMULATED + UNIDIRECTIONAL)
def test_a_push_says_why_a_stream_ends(
    service: servers.Service, channel: str, transport: str
) -> None:
    user = str(uuid.uuid4())
    asked = connect(channel, sub=user)
    one_way = transport in UNIDIRECTIONAL
    with Stream(service, transport, lines(asked["connect"] if one_way else asked)) as stream:
        stream.next()
        api(service, "disconnect", user=user, disconnect={"code": 4000, "reason": "go home"})
        push = disconnect(4000, "go home")
        assert stream.ends() == (push if one_way else {"push": push})


def test_who_reads_too_slowly_is_told_so(service: servers.Service) -> None:
    channel = f"flood:{uuid.uuid4()}"
    body = json.dumps(connect(channel)["connect"]).encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", service.port))
        slow.sendall(
            b"POST /connection/uni_http_stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        servers.wait_for(lambda: present(service, channel) == 1, "it to come")
        # More than the system keeps for a connection, and then what the service keeps.
        some = "x" * 500_000
        for _ in range(20):
            api(service, "publish", channel=channel, data=some)
        servers.wait_for(lambda: present(service, channel) == 0, "it to be left", seconds=5)
        slow.settimeout(10)
        end = b""
        while part := slow.recv(1 << 20):
            end = (end + part)[-200:]
    assert b'{"disconnect":{"code":3008,"reason":"slow","reconnect":true}}\n' in end
    assert end.endswith(b"\r\n0\r\n\r\n")


def uni_next(service: servers.Service, transport: str, asked: Any) -> Any:
    """A session's words, one after the other."""
    if transport == "uni_websocket":
        url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket"
        with websocket(url) as connection:
            connection.send(json.dumps(asked))
            while True:
                for line in str(connection.recv(10)).splitlines():
                    yield json.loads(line)
    with Stream(service, transport, json.dumps(asked)) as stream:
        while True:
            yield stream.next(pings=True)


@pytest.mark.parametrize("transport", [*UNIDIRECTIONAL, "uni_websocket"])
def test_who_only_listens_gets_bare_pushes(
    service: servers.Service, channel: str, transport: str
) -> None:
    heard = uni_next(service, transport, {"token": token(channel)})
    connected = next(heard)["connect"]
    assert connected["session"]
    assert not connected.get("pong")
    position = connected["subs"][channel]
    assert (position["recoverable"], position.get("offset", 0)) == (True, 0)
    api(service, "publish", channel=channel, data={"n": 1})
    said = [next(heard)]
    while not said[-1]:  # pings
        said.append(next(heard))
    assert said[-1]["channel"] == channel
    assert (said[-1]["pub"]["data"], said[-1]["pub"]["offset"]) == ({"n": 1}, 1)
    while said[-1]:
        said.append(next(heard))
    heard.close()

    # When it comes back with the position, it gets what it missed.
    for n in (2, 3):
        api(service, "publish", channel=channel, data={"n": n})
    since = {"recover": True, "offset": 1, "epoch": position["epoch"]}
    heard = uni_next(service, transport, {"token": token(channel), "subs": {channel: since}})
    found = next(heard)["connect"]["subs"][channel]
    assert found["recovered"]
    assert [each["data"] for each in found["publications"]] == [{"n": 2}, {"n": 3}]
    heard.close()


def test_a_uni_websocket_takes_the_request_by_its_address(service: servers.Service) -> None:
    asked = quote(json.dumps({"token": token()}))
    url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket?cf_connect={asked}"
    with websocket(url) as connection:
        assert "connect" in json.loads(connection.recv(10))
        connection.send("whatever it says, nobody listens")
        assert json.loads(connection.recv(10)) == {}
    assert asked not in service.log.read_text()  # it is a secret


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({"token": token(exp=time.time() - 60)}, 3005, "connection expired"),
        ({"token": "nonsense"}, 3500, "invalid token"),
        ({}, 3501, "bad request"),
    ],
)
def test_who_only_listens_is_told_of_errors_by_the_end(
    service: servers.Service, asked: Any, code: int, reason: str
) -> None:
    with Stream(service, "uni_sse", json.dumps(asked)) as stream:
        assert stream.ends() == disconnect(code, reason)
    url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket"
    with websocket(url) as connection:
        connection.send(json.dumps(asked))
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(10)
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, reason)


def test_a_plain_request_to_a_websocket_is_told_what_to_do(service: servers.Service) -> None:
    answer = httpx.get(f"{service.url}/connection/websocket")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


def test_without_a_store_health_is_good_and_what_waits_is_bounded() -> None:
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(servers.redis_server())
        service = stack.enter_context(servers.service(redis.uri, options=OPTIONS))
        stream = stack.enter_context(Stream(service, "http_stream", lines(connect("chat:a"))))
        client = stack.enter_context(httpx.Client(base_url=service.url))
        stream.connected()
        redis.signal(signal.SIGSTOP)
        assert client.get("/health").json() == {}
        asked = lines({"id": 2, "publish": {"channel": "chat:a", "data": 1}})
        body = {"session": stream.session, "node": stream.node, "data": asked}
        for _ in range(258):  # one is being done, and 256 may wait
            assert client.post("/emulation", json=body).status_code == 204
        assert stream.next() == {"push": disconnect(3013, "too many requests")}
        redis.signal(signal.SIGCONT)
        assert stream.ends() is None


def test_a_service_that_stops_sends_everybody_elsewhere(
    redis_server: servers.RedisServer,
) -> None:
    channel = f"flood:{uuid.uuid4()}"
    shutdown = disconnect(3001, "shutdown")
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        service = enter(servers.service(redis_server.uri, options=OPTIONS))
        streams = [
            enter(Stream(service, each, lines(connect(channel)["connect"] if uni else connect())))
            for uni, each in enumerate(["http_stream", "uni_sse"])
        ]
        socket_ = enter(websocket(f"ws://127.0.0.1:{service.port}/connection/websocket"))
        socket_.send(lines(connect()))
        socket_.recv(10)
        began = time.monotonic()
        service.process.terminate()
        assert streams[0].ends() == {"push": shutdown}
        assert streams[1].ends() == shutdown
        with contextlib.suppress(ConnectionClosed):
            while True:
                socket_.recv(10)
        assert socket_.close_code == 3001
        service.process.wait(20)
        assert time.monotonic() - began < 15
