# SPDX-License-Identifier: Apache-2.0
"""Unidirectional clients, and those that stop reading."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket

from tests.realtime.streams import OPTIONS as OPTIONS  # of the fixture
from tests.realtime.streams import (
    PATIENT,
    UNIDIRECTIONAL,
    StreamingClient,
    api,
    connect,
    disconnect,
    lines,
    present,
    token,
)
from tests.support import servers
from tests.support.backends import Backend
from zaqar_redis.api.server import streams
from zaqar_redis.api.server import transport as server_transport
from zaqar_redis.api.server.transport import CloseTimer


@contextlib.contextmanager
def stalled_client(service: servers.RunningService, channel: str) -> Iterator[socket.socket]:
    """Yields the socket of a subscriber that does not read."""
    body = json.dumps(connect(channel)["connect"]).encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", service.port))
        slow.sendall(
            b"POST /connection/uni_http_stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        servers.wait_for(lambda: present(service, channel) == 1, "the client to subscribe")
        slow.settimeout(60)
        yield slow


def test_slow_unidirectional_client_gets_slow_disconnect(service: servers.RunningService) -> None:
    channel = f"flood:{uuid.uuid4()}"

    def is_disconnected() -> bool:
        # The system's socket buffers fill first, then the service's.
        api(service, "publish", channel=channel, data="x" * 500_000)
        return present(service, channel) == 0

    with stalled_client(service, channel) as slow:
        servers.wait_for(is_disconnected, "the client to be disconnected")
        end = b""
        while part := slow.recv(1 << 20):
            end = (end + part)[-200:]
    assert b'{"disconnect":{"code":3008,"reason":"slow","reconnect":true}}\n' in end
    assert end.endswith(b"\r\n0\r\n\r\n")


def uni_next(service: servers.RunningService, transport: str, asked: Any) -> Any:
    """Yields the messages of a session, one by one."""
    if transport == "uni_websocket":
        url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket"
        with websocket(url) as connection:
            connection.send(json.dumps(asked))
            while True:
                for line in str(connection.recv(60)).splitlines():
                    yield json.loads(line)
    with StreamingClient(service, transport, json.dumps(asked)) as stream:
        while True:
            yield stream.next(pings=True)


@pytest.mark.parametrize("transport", [*UNIDIRECTIONAL, "uni_websocket"])
def test_unidirectional_client_gets_bare_pushes(
    service: servers.RunningService, channel: str, transport: str
) -> None:
    replies = uni_next(service, transport, {"token": token(channel)})
    connected = next(replies)["connect"]
    assert connected["session"]
    assert not connected.get("pong")
    position = connected["subs"][channel]
    assert (position["recoverable"], position.get("offset", 0)) == (True, 0)
    api(service, "publish", channel=channel, data={"n": 1})
    seen = [next(replies)]
    while not seen[-1]:  # pings
        seen.append(next(replies))
    assert seen[-1]["channel"] == channel
    assert (seen[-1]["pub"]["data"], seen[-1]["pub"]["offset"]) == ({"n": 1}, 1)
    while seen[-1]:
        seen.append(next(replies))
    replies.close()

    # A reconnect with the position recovers missed publications.
    for n in (2, 3):
        api(service, "publish", channel=channel, data={"n": n})
    since = {"recover": True, "offset": 1, "epoch": position["epoch"]}
    replies = uni_next(service, transport, {"token": token(channel), "subs": {channel: since}})
    found = next(replies)["connect"]["subs"][channel]
    assert found["recovered"]
    assert [each["data"] for each in found["publications"]] == [{"n": 2}, {"n": 3}]
    replies.close()


def test_uni_websocket_accepts_connect_request_in_url(service: servers.RunningService) -> None:
    asked = quote(json.dumps({"token": token()}))
    url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket?cf_connect={asked}"
    with websocket(url) as connection:
        assert "connect" in json.loads(connection.recv(60))
        connection.send("whatever it says, nobody listens")
        assert json.loads(connection.recv(60)) == {}
    assert asked not in service.log.read_text()  # it is a secret


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({"token": token(exp=time.time() - 60)}, 3005, "connection expired"),
        ({"token": "nonsense"}, 3500, "invalid token"),
        ({}, 3501, "bad request"),
    ],
)
def test_unidirectional_connect_error_ends_with_disconnect(
    service: servers.RunningService, asked: Any, code: int, reason: str
) -> None:
    with StreamingClient(service, "uni_sse", json.dumps(asked)) as stream:
        assert stream.last_push() == disconnect(code, reason)
    url = f"ws://127.0.0.1:{service.port}/connection/uni_websocket"
    with websocket(url) as connection:
        connection.send(json.dumps(asked))
        assert json.loads(connection.recv(60)) == disconnect(code, reason)
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(60)
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, reason)


def test_stopping_service_disconnects_clients_with_shutdown(redis_server: Backend) -> None:
    channel = f"flood:{uuid.uuid4()}"
    shutdown = disconnect(3001, "shutdown")
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        service = enter(servers.service(redis_server.uri, options=PATIENT))
        enter(stalled_client(service, channel))
        for _ in range(6):  # more than the socket buffers hold
            api(service, "publish", channel=channel, data="x" * 500_000)
        emulated = enter(StreamingClient(service, "http_stream", lines(connect())))
        listener = enter(StreamingClient(service, "uni_sse", lines(connect()["connect"])))
        both_ways = enter(websocket(f"ws://127.0.0.1:{service.port}/connection/websocket"))
        both_ways.send(lines(connect()))
        both_ways.recv(60)
        service.process.terminate()
        assert emulated.last_push() == {"push": shutdown}
        assert listener.last_push() == shutdown
        with contextlib.suppress(ConnectionClosed):
            while True:
                both_ways.recv(60)
        assert both_ways.close_code == 3001
        service.process.wait(20)  # also with a client that does not read


def test_reload_closes_websockets_with_1012_and_streams_with_shutdown(
    redis_server: Backend,
) -> None:
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        service = enter(servers.service(redis_server.uri, options=PATIENT))
        listener = enter(StreamingClient(service, "uni_sse", lines(connect()["connect"])))
        url = f"ws://127.0.0.1:{service.port}"
        both_ways = [
            enter(websocket(f"{url}{path}")) for path in ("/connection/websocket", "/v2/ws")
        ]
        both_ways[0].send(lines(connect()))
        both_ways[0].recv(60)
        service.process.send_signal(signal.SIGHUP)
        assert listener.last_push() == disconnect(3001, "shutdown")
        for each in both_ways:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    each.recv(60)
            assert each.close_code == 1012


@pytest.mark.parametrize(("taken", "is_cut_off"), [(64 * 1024, False), (1000, True)])
async def test_client_that_takes_enough_before_its_end_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch, taken: int, is_cut_off: bool
) -> None:
    """It learns why it was disconnected, however long it takes for what was written before."""

    class Transport(asyncio.Transport):
        unsent, is_aborted = 2**20, False
        ended = asyncio.Event()

        def get_write_buffer_size(self) -> int:
            self.unsent = max(0, self.unsent - taken)
            if not self.unsent:
                self.ended.set()
            return self.unsent

        def abort(self) -> None:
            self.is_aborted = True
            self.ended.set()

    monkeypatch.setattr(server_transport, "_CLOSE_TIMEOUT", 0)
    transport = Transport()
    timer = CloseTimer(transport)
    async with asyncio.timeout(30):
        await transport.ended.wait()
    timer.cancel()
    assert transport.is_aborted == is_cut_off


async def test_client_that_leaves_a_short_rest_unread_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_CLOSE_TIMEOUT", 0.05)

    class Connection(asyncio.Protocol):
        def __init__(self) -> None:
            self.lost = asyncio.Event()

        def connection_lost(self, error: Exception | None) -> None:
            self.lost.set()

    ours, theirs = socket.socketpair()
    with theirs:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.connect_accepted_socket(Connection, ours)
        transport.set_write_buffer_limits(high=2**24)  # as if no writer had to wait

        transport.write(bytes(2**23))
        assert transport.get_write_buffer_size() > 0
        streams.ResponseStream(transport, transport.close).limit_close().cancel()
        transport.close()  # as a server does after the last response
        async with asyncio.timeout(30):
            await connection.lost.wait()
