# SPDX-License-Identifier: Apache-2.0
"""Publications that need not be JSON, byte by byte on the wire: two workers, one Redis.

What is expected is what Centrifugo sends.
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

from tests import servers
from tests.realtime.peers import JsonPeer, Peer, ProtobufPeer, Who, field
from tests.realtime.someone import KEY, LEFT_BEHIND, SECRET, Hears, token, until
from tests.realtime.streams import EMULATED, UNIDIRECTIONAL, Stream, connect, disconnect, lines

pytestmark = LEFT_BEHIND

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
        "token_hmac_secret_key": SECRET,
        "api_key": KEY,
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
#: The same in lines, as Protobuf and the server API may have it, and what JSON makes of it.
LINES, JOINED = (TEXT.replace(b", ", cut) for cut in (b",\n\r ", b", "))
#: How those end who speak JSON when they would get what is none.
INAPPROPRIATE = (3506, "inappropriate protocol")

Publish = Callable[[servers.Service, str, bytes], Who | None]


def channel(namespace: str = "") -> str:
    return f"{namespace}:{uuid.uuid4()}".removeprefix(":")


def api(service: servers.Service, method: str, body: bytes | str) -> Any:
    headers = {"X-API-Key": KEY}
    return httpx.post(f"{service.url}/api/{method}", content=body, headers=headers).json()


def by_client(kind: type[Peer]) -> Publish:
    def publish(service: servers.Service, channel: str, data: bytes) -> Who:
        with kind(service, "bob") as bob:
            bob.ask("publish", channel=channel, data=data)
        return bob.who

    return publish


def by_data(service: servers.Service, channel: str, data: bytes) -> None:
    body = b'{"channel":"%b","data":%b}' % (channel.encode(), data)
    assert "result" in api(service, "publish", body)


def by_b64data(service: servers.Service, channel: str, data: bytes) -> None:
    given = {"channel": channel, "b64data": base64.b64encode(data).decode()}
    assert "result" in api(service, "publish", json.dumps(given))


ANYBODY = {
    "json": by_client(JsonPeer),
    "protobuf": by_client(ProtobufPeer),
    "data": by_data,
    "b64data": by_b64data,
}


@pytest.mark.parametrize("publisher", ANYBODY)
@pytest.mark.parametrize("namespace", ["", "kept", "object"])
def test_json_reaches_everybody_byte_by_byte_whoever_publishes_it(
    service: servers.Service, publisher: str, namespace: str
) -> None:
    name, kept = channel(namespace), namespace == "kept"
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        ann.ask("subscribe", channel=name)
        cid.ask("subscribe", channel=name)
        by = ANYBODY[publisher](service, name, TEXT)
        for peer in (ann, cid):
            peer.hears(name, TEXT, offset=int(kept), by=by)
        if publisher == "json":  # a line is a command
            return
        by = ANYBODY[publisher](service, name, LINES)
        ann.hears(name, JOINED, offset=2 * kept, by=by)
        cid.hears(name, LINES, offset=2 * kept, by=by)


@pytest.mark.parametrize("publisher", ["protobuf", "b64data"])
@pytest.mark.parametrize(
    "data",
    [
        BINARY,
        b"text",
        b"1\n2",  # JSON when its lines are joined
        b'"\xff"',  # or were it text
        b'1},"join":{"info":{"user":"eve","client":"e"}',  # or with what is around it
    ],
)
def test_other_bytes_reach_who_speaks_protobuf_and_end_who_speaks_json(
    service: servers.Service, publisher: str, data: bytes
) -> None:
    name = channel()
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        ann.ask("subscribe", channel=name)
        cid.ask("subscribe", channel=name)
        by = ANYBODY[publisher](service, name, data)
        cid.hears(name, data, by=by)
        assert ann.ends() == INAPPROPRIATE
    assert "is no JSON" in service.log.read_text()


@pytest.mark.parametrize("transport", [*EMULATED, *UNIDIRECTIONAL])
def test_who_listens_over_http_is_told_with_a_last_push(
    service: servers.Service, transport: str
) -> None:
    name, emulated = channel(), transport in EMULATED
    first = connect(name) if emulated else connect(name)["connect"]
    with Stream(service, transport, lines(first)) as stream:
        stream.next()
        by_b64data(service, name, LINES)
        by_b64data(service, name, BINARY)
        pushed, last = stream.next(), stream.ends()
    if emulated:
        pushed, last = pushed["push"], last["push"]
    assert pushed["pub"]["data"] == json.loads(TEXT)
    assert last == disconnect(*INAPPROPRIATE)


def test_what_is_kept_is_read_and_recovered_byte_by_byte(service: servers.Service) -> None:
    name = channel("kept")
    with ProtobufPeer(service, "cid") as cid:
        came = cid.ask("subscribe", channel=name)
        epoch = client_pb2.Reply.FromString(came).subscribe.epoch
        for data in (TEXT, BINARY, LINES):
            by_b64data(service, name, data)
            cid.next()
        came = cid.ask("history", channel=name, limit=-1)
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
        cid.ask("unsubscribe", channel=name)
        came = cid.ask("subscribe", **position)
        found = client_pb2.Reply.FromString(came).subscribe
        assert (found.recovered, found.offset) == (True, 1)
        assert b"".join(field(7, each) for each in kept[1:]) in came


def test_who_speaks_json_may_read_and_recover_what_is_json(service: servers.Service) -> None:
    name = channel("kept")
    with JsonPeer(service, "ann") as ann:
        epoch = json.loads(ann.ask("subscribe", channel=name))["subscribe"]["epoch"]
    for data in (BINARY, LINES):
        by_b64data(service, name, data)
    position = {"channel": name, "recover": True, "epoch": epoch}
    with JsonPeer(service, "ann") as ann:
        came = ann.ask("subscribe", **position, offset=1)
        (time,) = ann.times(came)
        kept = ann.publication(JOINED, time, 2)
        assert b'"publications":[%b]' % kept in came
        came = ann.ask("history", channel=name, limit=1, reverse=True)
        assert b'"publications":[%b]' % kept in came
        assert ann.ends("history", channel=name, limit=-1) == INAPPROPRIATE
    with JsonPeer(service, "ann") as ann:
        assert ann.ends("subscribe", **position, offset=0) == INAPPROPRIATE


def test_backends_get_what_is_no_json_in_base64(service: servers.Service) -> None:
    name, encoded = channel("kept"), base64.b64encode(BINARY).decode()
    for data in (TEXT, BINARY):
        by_b64data(service, name, data)
    found = api(service, "history", json.dumps({"channel": name, "limit": -1}))["result"]
    text, binary = found["publications"]
    assert (text["data"], "b64data" in text) == (json.loads(TEXT), False)
    assert (binary["data"], binary["b64data"], binary["offset"]) == (None, encoded, 2)
    with cent.Client(f"{service.url}/api", KEY) as client:
        # Its data are in base64, and are to be something.
        client.publish(cent.PublishRequest(channel=name, data=None, b64data=encoded))
        kept = client.history(cent.HistoryRequest(channel=name, limit=-1)).publications
    assert [each.data for each in kept] == [json.loads(TEXT), None, None]
    assert api(service, "publish", '{"channel":"x","b64data":"!"}')["error"]["code"] == 107


def test_deltas_of_bytes_are_bytes(service: servers.Service) -> None:
    name = channel("delta")
    first = random.Random(7).randbytes(500)
    datas = [first, first[:200] + BINARY + first[200:], BINARY]
    with ProtobufPeer(service, "cid") as cid:
        came = cid.ask("subscribe", channel=name, delta="fossil")
        epoch = client_pb2.Reply.FromString(came).subscribe.epoch
        by_b64data(service, name, datas[0])
        cid.hears(name, datas[0], offset=1)
        by_b64data(service, name, datas[1])
        came = cid.next()
        delta = client_pb2.Reply.FromString(came).push.pub.data
        (time,) = cid.times(came)
        assert came == cid.push(name, cid.publication(delta, time, 2, delta=True))
        assert len(delta) < 50
        assert apply_delta(datas[0], delta) == datas[1]
        by_b64data(service, name, datas[2])  # shorter than a delta
        cid.hears(name, datas[2], offset=3)

        cid.ask("unsubscribe", channel=name)
        position = {"channel": name, "recover": True, "epoch": epoch, "delta": "fossil"}
        came = cid.ask("subscribe", **position)
        found = client_pb2.Reply.FromString(came).subscribe.publications
        assert [(each.data, each.delta) for each in found] == [
            (datas[0], False), (delta, True), (datas[2], False),
        ]  # fmt: skip


def test_deltas_over_json_are_of_text_json_or_not(service: servers.Service) -> None:
    name = channel("delta")
    first, second = (f"no JSON, {word}, in lines\n" + "é" * 99 for word in ("one", "two"))
    with JsonPeer(service, "ann") as ann:
        ann.ask("subscribe", channel=name, delta="fossil")
        by_b64data(service, name, first.encode())
        ann.hears(name, json.dumps(first, ensure_ascii=False).encode(), offset=1)
        by_b64data(service, name, second.encode())
        pushed = json.loads(ann.next())["push"]["pub"]
        assert pushed["delta"]
        assert apply_delta(first.encode(), pushed["data"].encode()) == second.encode()
        by_b64data(service, name, BINARY)
        assert ann.ends() == INAPPROPRIATE


NOTHING = b""
#: What may be published, by namespace.
_TAKEN = {
    "": {TEXT, b"[1]", b'"a"', b"text", BINARY},
    "json": {TEXT, b"[1]", b'"a"'},
    "object": {TEXT},
    "binary": {TEXT, b"[1]", b'"a"', b"text", BINARY, NOTHING},
}


@pytest.mark.parametrize("namespace", _TAKEN)
def test_a_format_says_what_may_be_published(service: servers.Service, namespace: str) -> None:
    name = channel(namespace)
    with ProtobufPeer(service, "bob") as bob:
        for data in _TAKEN["binary"]:
            code = 0 if data in _TAKEN[namespace] else 107
            reply = client_pb2.Reply.FromString(bob.ask("publish", channel=name, data=data))
            assert reply.error.code == code
            given = {"channel": name, "b64data": base64.b64encode(data).decode()}
            broadcast = {"broadcast": {"channels": [name], "b64data": given["b64data"]}}
            asked = {"commands": [{"publish": given}, broadcast]}
            published, answered = api(service, "batch", json.dumps(asked))["replies"]
            (response,) = answered["broadcast"]["responses"]
            for each in (published, response):
                assert each.get("error", {"code": 0})["code"] == code


def test_nothing_is_a_publication_without_data_where_bytes_are(service: servers.Service) -> None:
    name = channel("binary")
    with JsonPeer(service, "ann") as ann, ProtobufPeer(service, "cid") as cid:
        for peer in (ann, cid):
            peer.ask("subscribe", channel=name)
        by = by_client(ProtobufPeer)(service, name, NOTHING)
        for peer in (ann, cid):
            peer.hears(name, NOTHING, by=by)


def test_queues_take_json_alone(service: servers.Service) -> None:
    name = channel("queue")
    with ProtobufPeer(service, "bob") as bob:
        for data, code in ((BINARY, 107), (NOTHING, 107), (LINES, 0)):
            reply = client_pb2.Reply.FromString(bob.ask("publish", channel=name, data=data))
            assert reply.error.code == code
        bob.ask("subscribe", channel=name)
        came = client_pb2.Reply.FromString(bob.ask("history", channel=name, limit=-1))
        assert [each.data for each in came.history.publications] == [LINES]


def test_who_has_bytes_for_information_is_seen_over_protobuf(service: servers.Service) -> None:
    name, encoded = channel("present"), base64.b64encode(BINARY).decode()
    with (
        JsonPeer(service, "ann") as ann,
        ProtobufPeer(service, "cid") as cid,
        ProtobufPeer(service, "bob", b64info=encoded) as bob,
    ):
        cid.ask("subscribe", channel=name)
        cid.next()  # it joins
        bob.ask("subscribe", channel=name)
        info = field(1, b"bob") + field(2, bob.who.client.encode()) + field(3, BINARY)
        assert cid.next() == field(4, field(2, name.encode()) + field(5, field(1, info)))
        came = client_pb2.Reply.FromString(cid.ask("presence", channel=name)).presence.presence
        assert came[bob.who.client].conn_info == BINARY
        seen = api(service, "presence", json.dumps({"channel": name}))["result"]["presence"]
        shown = {"user": "bob", "client": bob.who.client, "b64conn_info": encoded}
        assert seen[bob.who.client] == shown
        assert seen[cid.who.client] == {"user": "cid", "client": cid.who.client}

        ann.ask("subscribe", channel=name)
        assert json.loads(ann.next())["push"]["join"]["info"]["user"] == "ann"
        assert ann.ends("presence", channel=name) == INAPPROPRIATE


def test_sdks_of_both_formats_hear_each_other_until_it_is_no_json(
    service: servers.Service,
) -> None:
    async def scenario() -> None:
        url, name = f"ws://127.0.0.1:{service.port}/connection/websocket", channel("kept")
        news: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        ann = Client(url, token=token("ann"))
        cid = Client(url, token=token("cid"), use_protobuf=True)
        heard, subscriptions = [], []
        for client in (ann, cid):
            await client.connect()
            heard.append(Hears(news))
            subscriptions.append(client.new_subscription(name, heard[-1]))
            await subscriptions[-1].subscribe()
            await subscriptions[-1].ready(timeout=5)
        await subscriptions[0].publish({"from": "ann"})
        await until(lambda: all(each.publications for each in heard), "the first")
        await subscriptions[1].publish(b'{"from":\n"cid"}')
        await until(lambda: all(len(each.publications) == 2 for each in heard), "the second")
        await subscriptions[1].publish(BINARY)
        await until(lambda: len(heard[1].publications) == 3, "the third")
        await until(lambda: ann.state.name == "DISCONNECTED", "it to be sent away, for good")
        seen = [[each.data for each in one.publications] for one in heard]
        assert seen[0] == [{"from": "ann"}, {"from": "cid"}]
        assert list(map(json.loads, seen[1][:2])) == seen[0]
        assert seen[1][1:] == [b'{"from":\n"cid"}', BINARY]
        kept = await subscriptions[1].history(limit=-1)
        assert [each.data for each in kept.publications] == seen[1]
        await cid.disconnect()

    asyncio.run(scenario())
