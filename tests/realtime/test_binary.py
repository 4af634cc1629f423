# SPDX-License-Identifier: Apache-2.0
"""Binary and JSON publications, byte by byte on the wire: two workers, one Redis.

The expected bytes are those that Centrifugo sends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import uuid
from collections.abc import Callable
from typing import Any

import cent
import httpx
import pytest
from centrifuge import Client
from centrifuge.fossil import apply_delta
from centrifuge.protocol import client_pb2

from tests.realtime import sdk_client, streams
from tests.realtime.crowd import until
from tests.realtime.peers import JsonPeer, PeerIdentity, ProtobufPeer, ProtocolPeer, field
from tests.support.servers import RunningService

pytestmark = sdk_client.IGNORE_UNCLOSED_SOCKETS

_MAY: dict[str, object] = {
    "allow_subscribe_for_client": True,
    "allow_publish_for_client": True,
    "allow_history_for_subscriber": True,
    "allow_presence_for_subscriber": True,
}
_KEPT: dict[str, object] = {"history_size": 20, "history_ttl": 60, "force_recovery": True}
_PRESENT = {"presence": True, "join_leave": True, "force_push_join_leave": True}
FORMATS = {"json": "json", "object": "json_object", "binary": "binary"}
OPTIONS: dict[str, dict[str, object]] = {
    "channels": _MAY
    | {
        "token_hmac_secret_key": sdk_client.SECRET,
        "api_key": sdk_client.KEY,
        "namespaces": f"kept,delta,present,{','.join(FORMATS)}",
    },
    "channels:kept": _MAY | _KEPT,
    "channels:delta": _MAY | _KEPT | {"allowed_delta_types": "fossil", "delta_publish": True},
    "channels:present": _MAY | _PRESENT,
    **{
        f"channels:{name}": _MAY | {"publication_data_format": given}
        for name, given in FORMATS.items()
    },
    "channels:queue": _MAY,
}
BINARY = b"\x00\x01\xfe\xff{\n"
TEXT = '{"a": [1, "é€"] , "b":2 }'.encode()
#: The same on several lines, as Protobuf and the server API accept it, and as JSON clients
#: get it.
LINES, JOINED = (TEXT.replace(b", ", cut) for cut in (b",\n\r ", b", "))
#: How JSON clients are closed when they would get data that are not JSON.
INAPPROPRIATE = (3506, "inappropriate protocol")

Publish = Callable[[RunningService, str, bytes], PeerIdentity | None]


def channel(namespace: str = "") -> str:
    return f"{namespace}:{uuid.uuid4()}".removeprefix(":")


def api(service: RunningService, method: str, body: bytes | str) -> Any:
    headers = {"X-API-Key": sdk_client.KEY}
    url = f"{service.url}/api/{method}"
    return httpx.post(url, content=body, headers=headers, timeout=60).json()


def by_client(kind: type[ProtocolPeer]) -> Publish:
    def publish(service: RunningService, channel: str, data: bytes) -> PeerIdentity:
        with kind(service, "bob") as bob:
            bob.request("publish", channel=channel, data=data)
        return bob.identity

    return publish


def by_data(service: RunningService, channel: str, data: bytes) -> None:
    body = b'{"channel":"%b","data":%b}' % (channel.encode(), data)
    assert "result" in api(service, "publish", body)


def by_b64data(service: RunningService, channel: str, data: bytes) -> None:
    given = {"channel": channel, "b64data": base64.b64encode(data).decode()}
    assert "result" in api(service, "publish", json.dumps(given))


PUBLISHERS = {
    "json": by_client(JsonPeer),
    "protobuf": by_client(ProtobufPeer),
    "data": by_data,
    "b64data": by_b64data,
}


@pytest.mark.parametrize("publisher", PUBLISHERS)
@pytest.mark.parametrize("namespace", ["", "kept", "object"])
def test_json_data_from_any_publisher_reach_all_clients_unchanged(
    service: RunningService, publisher: str, namespace: str
) -> None:
    name, kept = channel(namespace), namespace == "kept"
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        ann.request("subscribe", channel=name)
        cid.request("subscribe", channel=name)
        by = PUBLISHERS[publisher](service, name, TEXT)
        for peer in (ann, cid):
            peer.expect_publication(name, TEXT, offset=int(kept), by=by)
        if publisher == "json":  # lines separate commands
            return
        by = PUBLISHERS[publisher](service, name, LINES)
        ann.expect_publication(name, JOINED, offset=2 * kept, by=by)
        cid.expect_publication(name, LINES, offset=2 * kept, by=by)


@pytest.mark.parametrize("publisher", ["protobuf", "b64data"])
@pytest.mark.parametrize(
    "data",
    [
        BINARY,
        b"text",
        b"1\n2",  # JSON only if its lines were joined
        b'"\xff"',  # or if it were valid UTF-8
        b'1},"join":{"info":{"user":"eve","client":"e"}',  # or together with the surrounding JSON
    ],
)
def test_binary_data_reach_protobuf_clients_and_disconnect_json_clients(
    service: RunningService, publisher: str, data: bytes
) -> None:
    name = channel()
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        ann.request("subscribe", channel=name)
        cid.request("subscribe", channel=name)
        by = PUBLISHERS[publisher](service, name, data)
        cid.expect_publication(name, data, by=by)
        assert ann.expect_close() == INAPPROPRIATE
    assert "is not JSON" in service.log.read_text()


@pytest.mark.parametrize("transport", [*streams.EMULATED, *streams.UNIDIRECTIONAL])
def test_binary_data_end_http_streams_with_disconnect_push(
    service: RunningService, transport: str
) -> None:
    name, emulated = channel(), transport in streams.EMULATED
    first = streams.connect(name) if emulated else streams.connect(name)["connect"]
    with streams.StreamingClient(service, transport, streams.lines(first)) as stream:
        stream.next()
        by_b64data(service, name, LINES)
        by_b64data(service, name, BINARY)
        pushed, last = stream.next(), stream.last_push()
    if emulated:
        pushed, last = pushed["push"], last["push"]
    assert pushed["pub"]["data"] == json.loads(TEXT)
    assert last == streams.disconnect(*INAPPROPRIATE)


def test_binary_history_is_read_and_recovered_unchanged(service: RunningService) -> None:
    name = channel("kept")
    with ProtobufPeer(service, "cid") as cid:
        came = cid.request("subscribe", channel=name)
        epoch = client_pb2.Reply.FromString(came).subscribe.epoch
        for data in (TEXT, BINARY, LINES):
            by_b64data(service, name, data)
            cid.next()
        came = cid.request("history", channel=name, limit=-1)
        kept = [
            cid.publication(data, time, offset)
            for offset, (data, time) in enumerate(
                zip((TEXT, BINARY, LINES), cid.times(came), strict=True), 1
            )
        ]
        end = field(2, epoch.encode()) + field(3, 3)
        history = b"".join(field(1, each) for each in kept) + end
        assert came == cid.head(3) + field(11, history)

        position = {"channel": name, "recover": True, "offset": 1, "epoch": epoch}
        cid.request("unsubscribe", channel=name)
        came = cid.request("subscribe", **position)
        found = client_pb2.Reply.FromString(came).subscribe
        assert (found.recovered, found.offset) == (True, 1)
        assert b"".join(field(7, each) for each in kept[1:]) in came


def test_json_client_reads_and_recovers_json_part_of_history(service: RunningService) -> None:
    name = channel("kept")
    with JsonPeer(service, "ann") as ann:
        epoch = json.loads(ann.request("subscribe", channel=name))["subscribe"]["epoch"]
    for data in (BINARY, LINES):
        by_b64data(service, name, data)
    position = {"channel": name, "recover": True, "epoch": epoch}
    with JsonPeer(service, "ann") as ann:
        came = ann.request("subscribe", **position, offset=1)
        (time,) = ann.times(came)
        kept = ann.publication(JOINED, time, 2)
        assert b'"publications":[%b]' % kept in came
        came = ann.request("history", channel=name, limit=1, reverse=True)
        assert b'"publications":[%b]' % kept in came
        assert ann.expect_close("history", channel=name, limit=-1) == INAPPROPRIATE
    with JsonPeer(service, "ann") as ann:
        assert ann.expect_close("subscribe", **position, offset=0) == INAPPROPRIATE


def test_server_api_returns_binary_data_as_base64(service: RunningService) -> None:
    name, encoded = channel("kept"), base64.b64encode(BINARY).decode()
    for data in (TEXT, BINARY):
        by_b64data(service, name, data)
    found = api(service, "history", json.dumps({"channel": name, "limit": -1}))["result"]
    text, binary = found["publications"]
    assert (text["data"], "b64data" in text) == (json.loads(TEXT), False)
    assert (binary["data"], binary["b64data"], binary["offset"]) == (None, encoded, 2)
    with cent.Client(f"{service.url}/api", sdk_client.KEY) as client:
        # `data` is required, even beside `b64data`.
        client.publish(cent.PublishRequest(channel=name, data=None, b64data=encoded))
        kept = client.history(cent.HistoryRequest(channel=name, limit=-1)).publications
    assert [each.data for each in kept] == [json.loads(TEXT), None, None]
    assert api(service, "publish", '{"channel":"x","b64data":"!"}')["error"]["code"] == 107


def test_delta_of_binary_data_is_binary(service: RunningService) -> None:
    name = channel("delta")
    first = random.Random(7).randbytes(500)
    datas = [first, first[:200] + BINARY + first[200:], BINARY]
    with ProtobufPeer(service, "cid") as cid:
        came = cid.request("subscribe", channel=name, delta="fossil")
        epoch = client_pb2.Reply.FromString(came).subscribe.epoch
        by_b64data(service, name, datas[0])
        cid.expect_publication(name, datas[0], offset=1)
        by_b64data(service, name, datas[1])
        came = cid.next()
        delta = client_pb2.Reply.FromString(came).push.pub.data
        (time,) = cid.times(came)
        assert came == cid.push(name, cid.publication(delta, time, 2, delta=True))
        assert len(delta) < 50
        assert apply_delta(datas[0], delta) == datas[1]
        by_b64data(service, name, datas[2])  # shorter than a delta
        cid.expect_publication(name, datas[2], offset=3)

        cid.request("unsubscribe", channel=name)
        position = {"channel": name, "recover": True, "epoch": epoch, "delta": "fossil"}
        came = cid.request("subscribe", **position)
        found = client_pb2.Reply.FromString(came).subscribe.publications
        assert [(each.data, each.delta) for each in found] == [
            (datas[0], False), (delta, True), (datas[2], False),
        ]  # fmt: skip


def test_json_client_gets_deltas_of_any_text(service: RunningService) -> None:
    name = channel("delta")
    first, second = (f"no JSON, {word}, in lines\n" + "é" * 99 for word in ("one", "two"))
    with JsonPeer(service, "ann") as ann:
        ann.request("subscribe", channel=name, delta="fossil")
        by_b64data(service, name, first.encode())
        ann.expect_publication(name, json.dumps(first, ensure_ascii=False).encode(), offset=1)
        by_b64data(service, name, second.encode())
        pushed = json.loads(ann.next())["push"]["pub"]
        assert pushed["delta"]
        assert apply_delta(first.encode(), pushed["data"].encode()) == second.encode()
        by_b64data(service, name, BINARY)
        assert ann.expect_close() == INAPPROPRIATE


NOTHING = b""
#: Data that may be published, by namespace.
_ACCEPTED = {
    "": {TEXT, b"[1]", b'"a"', b"text", BINARY},
    "json": {TEXT, b"[1]", b'"a"'},
    "object": {TEXT},
    "binary": {TEXT, b"[1]", b'"a"', b"text", BINARY, NOTHING},
}


@pytest.mark.parametrize("namespace", _ACCEPTED)
def test_namespace_format_limits_published_data(service: RunningService, namespace: str) -> None:
    name = channel(namespace)
    with ProtobufPeer(service, "bob") as bob:
        for data in _ACCEPTED["binary"]:
            code = 0 if data in _ACCEPTED[namespace] else 107
            reply = client_pb2.Reply.FromString(bob.request("publish", channel=name, data=data))
            assert reply.error.code == code
            given = {"channel": name, "b64data": base64.b64encode(data).decode()}
            broadcast = {"broadcast": {"channels": [name], "b64data": given["b64data"]}}
            asked = {"commands": [{"publish": given}, broadcast]}
            published, answered = api(service, "batch", json.dumps(asked))["replies"]
            (response,) = answered["broadcast"]["responses"]
            for each in (published, response):
                assert each.get("error", {"code": 0})["code"] == code


def test_empty_data_are_a_valid_publication_in_binary_namespace(service: RunningService) -> None:
    name = channel("binary")
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        for peer in (ann, cid):
            peer.request("subscribe", channel=name)
        by = by_client(ProtobufPeer)(service, name, NOTHING)
        for peer in (ann, cid):
            peer.expect_publication(name, NOTHING, by=by)


def test_queue_channel_refuses_non_json_data(service: RunningService) -> None:
    name = channel("queue")
    with ProtobufPeer(service, "bob") as bob:
        for data, code in ((BINARY, 107), (NOTHING, 107), (LINES, 0)):
            reply = client_pb2.Reply.FromString(bob.request("publish", channel=name, data=data))
            assert reply.error.code == code
        bob.request("subscribe", channel=name)
        came = client_pb2.Reply.FromString(bob.request("history", channel=name, limit=-1))
        assert [each.data for each in came.history.publications] == [LINES]


def test_binary_client_info_is_visible_to_protobuf_clients_only(service: RunningService) -> None:
    name, encoded = channel("present"), base64.b64encode(BINARY).decode()
    with (
        JsonPeer(service, "ann") as ann,
        ProtobufPeer(service, "cid") as cid,
        ProtobufPeer(service, "bob", b64info=encoded) as bob,
    ):
        cid.request("subscribe", channel=name)
        cid.next()  # its own join
        bob.request("subscribe", channel=name)
        info = field(1, b"bob") + field(2, bob.identity.client.encode()) + field(3, BINARY)
        assert cid.next() == field(4, field(2, name.encode()) + field(5, field(1, info)))
        came = client_pb2.Reply.FromString(cid.request("presence", channel=name)).presence.presence
        assert came[bob.identity.client].conn_info == BINARY
        seen = api(service, "presence", json.dumps({"channel": name}))["result"]["presence"]
        shown = {"user": "bob", "client": bob.identity.client, "b64conn_info": encoded}
        assert seen[bob.identity.client] == shown
        assert seen[cid.identity.client] == {"user": "cid", "client": cid.identity.client}

        ann.request("subscribe", channel=name)
        assert json.loads(ann.next())["push"]["join"]["info"]["user"] == "ann"
        assert ann.expect_close("presence", channel=name) == INAPPROPRIATE


async def test_json_sdk_is_disconnected_at_first_binary_publication(
    service: RunningService,
) -> None:
    url, name = f"ws://127.0.0.1:{service.port}/connection/websocket", channel("kept")
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    ann = Client(url, token=sdk_client.token("ann"), timeout=60)
    cid = Client(url, token=sdk_client.token("cid"), timeout=60, use_protobuf=True)
    recorders, subscriptions = [], []
    for client in (ann, cid):
        await client.connect()
        recorders.append(sdk_client.SubscriptionRecorder(events))
        subscriptions.append(client.new_subscription(name, recorders[-1]))
        await subscriptions[-1].subscribe()
        await subscriptions[-1].ready(timeout=60)
    await subscriptions[0].publish({"from": "ann"})
    await until(lambda: all(each.publications for each in recorders), "the first")
    await subscriptions[1].publish(b'{"from":\n"cid"}')
    await until(lambda: all(len(each.publications) == 2 for each in recorders), "the second")
    await subscriptions[1].publish(BINARY)
    await until(lambda: len(recorders[1].publications) == 3, "the third")
    await until(lambda: ann.state.name == "DISCONNECTED", "the JSON client to be disconnected")
    seen = [[each.data for each in one.publications] for one in recorders]
    assert seen[0] == [{"from": "ann"}, {"from": "cid"}]
    assert list(map(json.loads, seen[1][:2])) == seen[0]
    assert seen[1][1:] == [b'{"from":\n"cid"}', BINARY]
    kept = await subscriptions[1].history(limit=-1)
    assert [each.data for each in kept.publications] == seen[1]
    await cid.disconnect()
