# SPDX-License-Identifier: Apache-2.0
"""What options of a namespace change in the conversation, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from centrifuge.protocol import client_pb2
from msgspec import Raw
from msgspec.structs import replace

from tests.realtime.test_session import OPEN, Client, House, token
from zaqar_redis.realtime.protobuf import PROTOBUF
from zaqar_redis.realtime.wire import FilterNode
from zaqar_redis.realtime.world import Settings

FILTERED = replace(OPEN, join_leave=False, allow_tags_filter=True)
CACHE = replace(OPEN, join_leave=False, force_recovery_mode="cache", auto_cache_recover=True)


@pytest.fixture
def house() -> Iterator[House]:
    with asyncio.Runner() as runner:
        made = House(runner)
        made.build(Settings(), OPEN, cache=CACHE, tags=FILTERED)
        yield made
        made.run(made.node.close())


def publish(house: House, channel: str, *values: object) -> None:
    """By a client."""
    bob = house.connected("bob")
    bob.ask(subscribe={"channel": channel})
    for value in values:
        bob.ask(publish={"channel": channel, "data": value})


def pushed(client: Client) -> list[dict[str, Any]]:
    """Publications that came by themselves."""
    return [each["push"]["pub"] for each in client.heard() if "pub" in each.get("push", {})]


def test_a_cache_gives_its_latest_publication_also_to_who_did_not_ask(house: House) -> None:
    ann = house.connected()
    empty = ann.ask(subscribe={"channel": "cache:a", "flag": 2})["subscribe"]
    assert empty["was_recovering"]  # there was nothing yet
    assert not {"recovered", "publications"} & set(empty)
    publish(house, "cache:a", 1, 2)
    assert [each["data"] for each in pushed(ann)] == [1, 2]
    cid = house.connected("cid")
    result = cid.ask(subscribe={"channel": "cache:a"})["subscribe"]
    assert [(each["data"], each["offset"]) for each in result["publications"]] == [(2, 2)]
    assert (result["recovered"], result["was_recovering"]) == (True, True)
    publish(house, "cache:a", 3)
    assert [each["offset"] for each in pushed(cid)] == [3]
    # Who comes back and says where it was gets nothing twice.
    cid.ask(unsubscribe={"channel": "cache:a"})
    again = {"channel": "cache:a", "recover": True, "offset": 3, "epoch": result["epoch"]}
    result = cid.ask(subscribe=again)["subscribe"]
    assert (result["recovered"], result["was_recovering"]) == (True, True)
    assert "publications" not in result


def test_a_cache_is_also_for_who_is_subscribed_by_the_server(house: House) -> None:
    publish(house, "cache:a", {"n": 1})
    client = Client(house)
    reply = client.ask(connect={"token": token("cid", channels=["cache:a"])})
    result = reply["connect"]["subs"]["cache:a"]
    assert [each["data"] for each in result["publications"]] == [{"n": 1}]
    assert (result["recovered"], result["was_recovering"]) == (True, True)


def tagged(house: House, channel: str, **values: str) -> None:
    """By the server: each value, with a tag that has its name."""
    for kind, value in values.items():
        data = Raw(json.dumps(value).encode())
        house.run(house.scope.publish(channel, data, tags={"kind": kind}))


NEWS = {"key": "kind", "cmp": "in", "vals": ["news", "more"]}


def test_who_filters_gets_what_it_wants_and_misses_nothing(house: House) -> None:
    ann, bob = house.connected(), house.connected("bob")
    result = ann.ask(subscribe={"channel": "tags:a", "tf": NEWS})["subscribe"]
    bob.ask(subscribe={"channel": "tags:a"})
    tagged(house, "tags:a", other="1", news="2", bad="3", ugly="4", more="5")
    assert [(each["data"], each["offset"]) for each in pushed(ann)] == [("2", 2), ("5", 5)]
    assert [each["offset"] for each in pushed(bob)] == [1, 2, 3, 4, 5]

    # What is filtered moves it on all the same: where it comes back, and what it recovers.
    position = {"channel": "tags:a", "recover": True, "epoch": result["epoch"], "tf": NEWS}
    for offset, found in ((0, [2, 5]), (2, [5]), (5, [])):
        ann.ask(unsubscribe={"channel": "tags:a"})
        result = ann.ask(subscribe=position | {"offset": offset})["subscribe"]
        assert result["recovered"]
        assert [each["offset"] for each in result.get("publications", [])] == found
        assert result.get("offset", 0) == offset
    tagged(house, "tags:a", other="6", bad="7")
    ann.ask(unsubscribe={"channel": "tags:a"})
    result = ann.ask(subscribe=position | {"offset": 5})["subscribe"]
    assert (result["recovered"], result["offset"]) == (True, 7)
    assert "publications" not in result
    tagged(house, "tags:a", news="8")
    assert [each["offset"] for each in pushed(ann)] == [8]
    assert ann.heard() == []
    history = ann.ask(history={"channel": "tags:a", "limit": -1})["history"]
    assert len(history["publications"]) == 8


def test_who_filters_is_told_when_it_missed_something(house: House) -> None:
    ann = house.connected()
    ann.ask(subscribe={"channel": "tags:a", "tf": NEWS})
    tagged(house, "tags:a", other="1")
    bus = house.node.engine.bus
    house.run(bus.unsubscribe("default/tags:a"))
    tagged(house, "tags:a", news="2")
    house.run(bus.subscribe("default/tags:a"))
    tagged(house, "tags:a", other="3")
    (push,) = ann.heard()
    assert push["push"]["unsubscribe"]["code"] == 2500


def test_a_filter_that_is_none_or_not_allowed_is_refused(house: House) -> None:
    ann = house.connected()
    for channel, node in (("tags:a", {"key": "kind"}), ("a", NEWS)):
        reply = ann.ask(subscribe={"channel": channel, "tf": node})
        assert reply["error"]["code"] == 107
    assert "subscribe" in ann.ask(subscribe={"channel": "tags:a", "tf": NEWS})
    assert ann.code is None
    deep = '{"nodes":[' * 5000 + "]}" * 5000
    ann.says(f'{{"id": 9, "subscribe": {{"channel": "tags:b", "tf": {deep}}}}}')
    assert ann.code == 3501


def test_protobuf_has_the_same_filters() -> None:
    node = client_pb2.FilterNode(op="and")
    node.nodes.add(key="kind", cmp="in", vals=["news", "more"])
    node.nodes.add(op="not").nodes.add(key="x", cmp="eq", val="y")
    asked = client_pb2.Command(id=1, subscribe=client_pb2.SubscribeRequest(channel="a", tf=node))
    text = asked.SerializeToString()
    (command,) = PROTOBUF.decode(bytes([len(text)]) + text)
    assert command.subscribe is not None
    negated = FilterNode(op="not", nodes=[FilterNode(key="x", cmp="eq", val="y")])
    assert command.subscribe.tf == FilterNode(
        op="and", nodes=[FilterNode(key="kind", cmp="in", vals=["news", "more"]), negated]
    )
