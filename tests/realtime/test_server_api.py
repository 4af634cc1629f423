# SPDX-License-Identifier: Apache-2.0
"""The server API as Centrifugo's own library `cent` uses it: two workers, one Redis."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any, NoReturn

import cent
import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as websocket

from tests.realtime.crowd import until
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS, KEY, SECRET, SdkClient, token
from tests.support import servers
from tests.support.servers import RunningService
from zaqar_redis import clock
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.api.app import App
from zaqar_redis.api.channels import ChannelSettings, ChannelsFrontEnd
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.auth import tokens
from zaqar_redis.auth.access import open_access
from zaqar_redis.realtime.engines.memory import MemoryEngine, MemoryHistory
from zaqar_redis.realtime.engines.sent import SentHistory
from zaqar_redis.realtime.session import context
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.storage import pools

pytestmark = IGNORE_UNCLOSED_SOCKETS

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"token_hmac_secret_key": SECRET, "api_key": KEY, "namespaces": "chat,bare,json"},
    "channels:chat": {
        "presence": True,
        "history_size": 20,
        "history_ttl": 60,
        "force_recovery": True,
        "allow_subscribe_for_client": True,
    },
    "channels:bare": {"allow_subscribe_for_client": True},
    "channels:json": {"publication_data_format": "json"},
}


@pytest.fixture(scope="module")
def api(service: RunningService) -> Iterator[cent.Client]:
    client = cent.Client(f"{service.url}/api", KEY)
    yield client
    client.close()


@pytest.fixture
def async_api(runner: asyncio.Runner, service: RunningService) -> Iterator[cent.AsyncClient]:
    async def opened() -> cent.AsyncClient:  # which needs a running loop
        return cent.AsyncClient(f"{service.url}/api", KEY)

    client = runner.run(opened())
    yield client
    runner.run(client.close())


def call_api(service: RunningService, method: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    known = {"X-API-Key": KEY} | {name.replace("_", "-"): each for name, each in headers.items()}
    path = f"/api/{method}" if method else "/api"
    return httpx.post(f"{service.url}{path}", content=content, headers=known, timeout=60)


async def test_publish_returns_position_and_reaches_subscribers_of_every_worker(
    service: RunningService, async_api: cent.AsyncClient, channel: str
) -> None:
    async with SdkClient(service, "a") as one, SdkClient(service, "b") as two:
        await one.subscribe(channel)
        await two.subscribe(channel)
        request = cent.PublishRequest(channel=channel, data={"n": 1}, tags={"a": "b"})
        done = await async_api.publish(request)
        assert done.offset == 1
        assert done.epoch
        assert await one.next() == await two.next() == ("publication", {"n": 1})
    kept = await async_api.history(cent.HistoryRequest(channel=channel, limit=-1))
    assert [(each.offset, each.data) for each in kept.publications] == [(1, {"n": 1})]


def test_broadcast_replies_for_each_channel_in_order(api: cent.Client, channel: str) -> None:
    request = cent.BroadcastRequest(channels=[channel, "nowhere:1", channel], data=1)
    first, second, third = api.broadcast(request).responses
    assert first.result
    assert first.result.offset == 1
    assert second.error
    assert second.error.code == 102
    assert third.result
    assert third.result.offset == 2


def test_idempotency_key_and_version_suppress_duplicate_publications(
    service: RunningService, api: cent.Client, channel: str
) -> None:
    once = cent.PublishRequest(channel=channel, data=1, idempotency_key="k")
    assert api.publish(once) == api.publish(once)
    versioned = {"channel": channel, "data": 2, "version": 7, "version_epoch": "e"}
    for _ in range(2):
        assert call_api(service, "publish", versioned).json()["result"]["offset"] == 2
    assert len(api.history(cent.HistoryRequest(channel=channel, limit=-1)).publications) == 2
    api.publish(cent.PublishRequest(channel=channel, data=3, skip_history=True))
    assert api.history(cent.HistoryRequest(channel=channel)).offset == 2


def test_history_is_paged_and_removed(api: cent.Client, channel: str) -> None:
    for n in range(5):
        epoch = api.publish(cent.PublishRequest(channel=channel, data=n)).epoch
    since = cent.StreamPosition(offset=2, epoch=epoch or "")
    page = api.history(cent.HistoryRequest(channel=channel, limit=2, since=since))
    assert [each.data for each in page.publications] == [2, 3]
    back = api.history(cent.HistoryRequest(channel=channel, limit=2, since=since, reverse=True))
    assert [each.data for each in back.publications] == [0]
    api.history_remove(cent.HistoryRemoveRequest(channel=channel))
    left = api.history(cent.HistoryRequest(channel=channel, limit=-1))
    assert (left.publications, left.offset, left.epoch) == ([], 5, epoch)
    elsewhere = cent.StreamPosition(offset=1, epoch="other")
    with pytest.raises(cent.CentApiResponseError, match="unrecoverable"):
        api.history(cent.HistoryRequest(channel=channel, since=elsewhere))


async def test_user_is_subscribed_unsubscribed_and_disconnected_on_any_worker(
    service: RunningService, async_api: cent.AsyncClient, channel: str
) -> None:
    user = str(uuid.uuid4())
    async with SdkClient(service, user) as one, SdkClient(service, "other") as other:
        await async_api.subscribe(cent.SubscribeRequest(user=user, channel=channel, info={"a": 1}))
        assert await one.next() == ("subscribed", channel)
        present = await async_api.presence(cent.PresenceRequest(channel=channel))
        assert [each.user for each in present.presence.values()] == [user]
        assert [each.chan_info for each in present.presence.values()] == [{"a": 1}]
        stats = await async_api.presence_stats(cent.PresenceStatsRequest(channel=channel))
        assert (stats.num_clients, stats.num_users) == (1, 1)
        await async_api.publish(cent.PublishRequest(channel=channel, data="hi"))
        assert await one.next() == ("publication", "hi")
        await async_api.unsubscribe(cent.UnsubscribeRequest(user=user, channel=channel))
        assert await one.next() == ("unsubscribed", channel)
        enough = cent.Disconnect(code=4501, reason="enough")
        await async_api.disconnect(cent.DisconnectRequest(user=user, disconnect=enough))
        assert await one.next() == ("disconnected", (4501, "enough"))
        assert other.events.empty()


async def test_refresh_extends_or_expires_a_connection(
    service: RunningService, async_api: cent.AsyncClient
) -> None:
    user = str(uuid.uuid4())
    async with SdkClient(service, user) as one:
        await async_api.refresh(cent.RefreshRequest(user=user, expire_at=0))
        await async_api.refresh(cent.RefreshRequest(user=user, expired=True))
        assert await one.next() == ("connecting", 3005)
        await one.client.ready(timeout=60)  # it reconnects by itself


async def test_channels_and_info_cover_all_workers(
    service: RunningService, async_api: cent.AsyncClient, channel: str
) -> None:
    some = [SdkClient(service, f"u{n}") for n in range(8)]
    for one in some:
        await one.__aenter__()
        await one.subscribe(channel)
    found = await async_api.channels(cent.ChannelsRequest(pattern="chat:*"))
    assert found.channels[channel].num_clients == 8
    assert (await async_api.channels(cent.ChannelsRequest(pattern="bare:*"))).channels == {}

    async def are_counted() -> bool:
        nodes = (await async_api.info(cent.InfoRequest())).nodes
        clients = sum(node.num_clients for node in nodes)
        return (len(nodes), clients, sum(node.num_subs for node in nodes)) == (2, 8, 8)

    # Clients of the tests before may have left only a moment ago.
    await until(are_counted, "these clients alone")
    for one in some:
        await one.__aexit__()


def test_batch_replies_to_every_command(service: RunningService, api: cent.Client) -> None:
    channel = f"chat:{uuid.uuid4()}"
    publish = cent.PublishRequest(channel=channel, data=1)
    history = cent.HistoryRequest(channel=channel, limit=1)
    for parallel in (False, True):
        request = cent.BatchRequest(requests=[publish, history], parallel=parallel)
        assert len(api.batch(request).replies) == 2
    body = {"commands": [{"publish": {"channel": "x:y", "data": 1}}, {}, {"batch": {}}]}
    replies = call_api(service, "batch", body).json()["replies"]
    assert [reply["error"]["code"] for reply in replies] == [102, 107, 104]


@pytest.mark.parametrize(
    ("method", "body", "code"),
    [
        ("publish", {"channel": "nowhere:x", "data": 1}, 102),
        ("publish", {"data": 1}, 107),
        ("publish", {"channel": "chat:x"}, 107),
        ("publish", {"channel": "chat:x", "b64data": "%"}, 107),
        ("publish", {"channel": "json:x", "b64data": "eA=="}, 107),  # not JSON
        ("publish", {"channel": "chat:x", "data": 1, "version": "a"}, 107),
        ("publish", {"channel": "chat:x", "data": 1, "version": -1}, 107),
        ("subscribe", {"user": "a", "channel": "queue:no name"}, 107),
        ("publish", {"channel": "json:x", "b64data": "W1tbW1tbW1tbW1tbW1tb" * 5000}, 107),  # deep
        ("broadcast", {"data": 1}, 107),
        *(("history", {"channel": "bare:x"}, 108), ("history_remove", {"channel": "bare:x"}, 108)),
        *(("presence", {"channel": "bare:x"}, 108), ("presence_stats", {"channel": "bare:x"}, 108)),
        ("history", {"channel": "chat:x", "reverse": True, "since": {"offset": 0}}, 107),
        ("disconnect", {}, 107),
        ("disconnect", {"user": "a", "disconnect": {"code": 1000}}, 107),
        ("disconnect", {"user": "a", "disconnect": {"code": 3500, "reason": "x" * 124}}, 107),
        ("subscribe", {"user": "a"}, 107),
        ("rpc", {"method": "x"}, 108),
    ],
)
def test_invalid_request_is_refused_with_error_code(
    service: RunningService, method: str, body: Any, code: int
) -> None:
    plain = call_api(service, method, body)
    assert plain.status_code == 200
    assert plain.json()["error"]["code"] == code
    loud = call_api(service, method, body, X_Centrifugo_Error_Mode="transport")
    assert loud.status_code == {102: 404, 107: 400, 108: 400}[code]


def test_unknown_method_is_not_found(service: RunningService) -> None:
    assert call_api(service, "nothing", {}).status_code == 404
    without_key = httpx.post(f"{service.url}/api/nothing")
    assert without_key.status_code == 404
    assert "the methods are publish, broadcast, " in without_key.json()["description"]
    old = httpx.post(f"{service.url}/api", json={"method": "nothing"}, headers={"X-API-Key": KEY})
    assert (old.status_code, old.json()["error"]["code"]) == (200, 104)


def read_until_closed(connection: ClientConnection) -> NoReturn:
    while True:
        connection.recv(60)


@contextlib.contextmanager
def connected(service: RunningService, path: str, user: str) -> Iterator[ClientConnection]:
    command: dict[str, Any] = {"token": token(user)}
    if path == "websocket":
        command = {"id": 1, "connect": command}
    with websocket(f"ws://127.0.0.1:{service.port}/connection/{path}") as connection:
        connection.send(json.dumps(command))
        connection.recv(60)
        yield connection


@pytest.mark.parametrize("path", ["websocket", "uni_websocket"])
def test_disconnected_client_gets_code_and_reason(service: RunningService, path: str) -> None:
    user = str(uuid.uuid4())
    for given, code, reason in (
        ({"code": 3001, "reason": "bye"}, 3001, "bye"),
        ({"code": 3001}, 3001, "force disconnect"),
        ({"code": 4321, "reason": "your own"}, 4321, "your own"),
        (None, 3503, "force disconnect"),
    ):
        with connected(service, path, user) as connection:
            call_api(service, "disconnect", {"user": user, "disconnect": given})
            with pytest.raises(ConnectionClosed) as caught:
                read_until_closed(connection)
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, reason)


@pytest.mark.parametrize("path", ["websocket", "uni_websocket"])
def test_client_disconnected_with_3000_gets_neither_push_nor_close_frame(
    service: RunningService, path: str
) -> None:
    user = str(uuid.uuid4())
    with connected(service, path, user) as connection:
        call_api(service, "disconnect", {"user": user, "disconnect": {"code": 3000}})
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(60)
    assert caught.value.rcvd is None


async def test_newlines_in_payload_do_not_split_frames(
    service: RunningService, channel: str
) -> None:
    async with SdkClient(service, "a") as one:
        await one.subscribe(channel)
        body = f'{{"channel": "{channel}", "data": {{"a":\r\n\n1}}}}'
        assert "result" in (await asyncio.to_thread(call_api, service, "publish", body)).json()
        assert await one.next() == ("publication", {"a": 1})


def test_request_without_valid_api_key_is_unauthorized(service: RunningService) -> None:
    for headers in ({}, {"X-API-Key": "wrong"}, {"Authorization": "apikey wrong"}):
        answer = httpx.post(f"{service.url}/api/info", json={}, headers=headers)
        assert (answer.status_code, answer.json()["title"]) == (401, "Unauthorized")
        assert answer.headers["WWW-Authenticate"] == "ApiKey"
    shown = httpx.post(f"{service.url}/api/info", headers={"Authorization": f"apikey {KEY}"})
    assert shown.status_code == 200
    assert httpx.post(f"{service.url}/api/info", params={"api_key": KEY}).status_code == 200


def test_legacy_request_form_is_accepted_and_malformed_json_refused(
    service: RunningService, channel: str
) -> None:
    old = {"method": "publish", "params": {"channel": channel, "data": 1}}
    assert call_api(service, "", old).json()["result"]["offset"] == 1
    assert call_api(service, "", "{").status_code == 400
    assert call_api(service, "publish", "{").status_code == 400
    assert call_api(service, "publish", b"x" * (5 * 1024 * 1024)).status_code == 413


def test_channels_are_separate_per_project(service: RunningService, channel: str) -> None:
    body = {"channel": channel, "data": 1}
    assert call_api(service, "publish", body, X_Project_ID="a").json()["result"]["offset"] == 1
    assert call_api(service, "publish", body, X_Project_ID="b").json()["result"]["offset"] == 1
    assert call_api(service, "history", {"channel": channel}).json()["result"]["offset"] == 0


def test_history_since_a_future_offset_is_empty(service: RunningService, channel: str) -> None:
    call_api(service, "publish", {"channel": channel, "data": 1})
    for offset in (2**53, 2**64 - 1):
        since = {"offset": offset, "epoch": ""}
        found = call_api(service, "history", {"channel": channel, "limit": -1, "since": since})
        assert found.json()["result"]["publications"] == []


class FailingHistory(MemoryHistory):
    async def remove_history(self, channel: str) -> None:
        raise ZeroDivisionError


async def call_insecure_node(method: str, headers: dict[str, str]) -> httpx.Response:
    """Calls a node without an API key; returns its response."""
    given = ChannelSettings(
        namespaces=Namespaces(ChannelOptions(history_size=1, history_ttl=1), {}),
        tokens=tokens.TokenSettings(),
        session=context.SessionSettings(),
        allowed_origins=("https://*.example.org",),
        project="default",
        api_key=ApiKeySettings(insecure=True),
    )
    engine = MemoryEngine(clock.process)
    engine.history = SentHistory(FailingHistory(clock.process), engine.events)
    access = open_access()
    channels = ChannelsFrontEnd(engine, given, access)
    await channels.node.start()
    driver = pools.create("unix:///nowhere", "unix:///nowhere", {})  # it is never started
    app = App(compose(ApiSettings(), ServiceParts(driver, access, lambda *_: channels)))
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # an ASGI app
    async with httpx.AsyncClient(base_url="http://here:8888", transport=transport) as client:
        answered = await client.post(f"/api/{method}", json={"channel": "news"}, headers=headers)
    await channels.node.close()
    return answered


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        *((None, 200), ("http://here:8888", 200), ("https://www.example.org", 200)),
        *(("https://example.com", 403), ("null", 403)),
    ],
)
async def test_insecure_api_refuses_foreign_origins(origin: str | None, status: int) -> None:
    headers = {"Origin": origin} if origin else {}
    assert (await call_insecure_node("history", headers)).status_code == status


def test_caller_that_leaves_at_once_is_served_all_the_same(
    service: RunningService, channel: str
) -> None:
    body = json.dumps({"channel": channel, "data": 1}).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port)) as caller:
            caller.sendall(
                b"POST /api/publish HTTP/1.1\r\nhost: x\r\nx-api-key: %b\r\n"
                b"content-length: %d\r\n\r\n%b" % (KEY.encode(), len(body), body)
            )

    def published() -> int:
        return int(call_api(service, "history", {"channel": channel}).json()["result"]["offset"])

    servers.wait_for(lambda: published() == 20, "all publications")


def test_api_key_allows_any_origin(service: RunningService) -> None:
    assert call_api(service, "info", {}, Origin="https://example.com").status_code == 200


async def test_unexpected_exception_replies_internal_error() -> None:
    answered = await call_insecure_node("history_remove", {})
    assert answered.status_code == 200
    assert answered.json() == {"error": {"code": 100, "message": "internal server error"}}
    response = await call_insecure_node("history_remove", {"X-Centrifugo-Error-Mode": "transport"})
    assert (response.status_code, response.json()["error"]["code"]) == (500, 100)
