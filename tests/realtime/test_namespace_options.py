# SPDX-License-Identifier: Apache-2.0
"""The effect of namespace options on channel sessions, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from centrifuge.protocol import client_pb2
from msgspec import Raw
from msgspec.structs import replace

from tests.realtime.test_session import (
    OPEN,
    NodeHarness,
    SessionClient,
    node_harness,
    publish,
    token,
)
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF
from zaqar_redis.realtime.protocol.wire import FilterNode

FILTERED = replace(OPEN, join_leave=False, allow_tags_filter=True)
CACHE = replace(OPEN, join_leave=False, force_recovery_mode="cache", auto_cache_recover=True)


@pytest.fixture
def harness(runner: asyncio.Runner) -> Iterator[NodeHarness]:
    with node_harness(runner, cache=CACHE, tags=FILTERED) as started:
        yield started


def pushed(client: SessionClient) -> list[dict[str, Any]]:
    """Returns the pushed publications."""
    return [each["push"]["pub"] for each in client.received() if "pub" in each.get("push", {})]


def test_cache_channel_sends_latest_publication_to_every_subscriber(harness: NodeHarness) -> None:
    ann = harness.connected()
    empty = ann.request(subscribe={"channel": "cache:a", "flag": 2})["subscribe"]
    assert empty["was_recovering"]  # the history was empty
    assert not {"recovered", "publications"} & set(empty)
    publish(harness, "cache:a", 1, 2)
    assert [each["data"] for each in pushed(ann)] == [1, 2]
    cid = harness.connected("cid")
    result = cid.request(subscribe={"channel": "cache:a"})["subscribe"]
    assert [(each["data"], each["offset"]) for each in result["publications"]] == [(2, 2)]
    assert (result["recovered"], result["was_recovering"]) == (True, True)
    publish(harness, "cache:a", 3)
    assert [each["offset"] for each in pushed(cid)] == [3]
    # A client that resubscribes with its position gets no duplicate.
    cid.request(unsubscribe={"channel": "cache:a"})
    again = {"channel": "cache:a", "recover": True, "offset": 3, "epoch": result["epoch"]}
    result = cid.request(subscribe=again)["subscribe"]
    assert (result["recovered"], result["was_recovering"]) == (True, True)
    assert "publications" not in result


def test_server_side_subscription_to_cache_channel_gets_latest_publication(
    harness: NodeHarness,
) -> None:
    publish(harness, "cache:a", {"n": 1})
    client = SessionClient(harness)
    reply = client.request(connect={"token": token("cid", channels=["cache:a"])})
    result = reply["connect"]["subs"]["cache:a"]
    assert [each["data"] for each in result["publications"]] == [{"n": 1}]
    assert (result["recovered"], result["was_recovering"]) == (True, True)


def tagged(harness: NodeHarness, channel: str, **values: str) -> None:
    """Publishes as the server: each value, tagged with its name."""
    for kind, value in values.items():
        data = Raw(json.dumps(value).encode())
        harness.run(harness.scope.publish(channel, data, tags={"kind": kind}))


NEWS = {"key": "kind", "cmp": "in", "vals": ["news", "more"]}


def test_tag_filter_delivers_matches_without_breaking_recovery(harness: NodeHarness) -> None:
    ann, bob = harness.connected(), harness.connected("bob")
    result = ann.request(subscribe={"channel": "tags:a", "tf": NEWS})["subscribe"]
    bob.request(subscribe={"channel": "tags:a"})
    tagged(harness, "tags:a", other="1", news="2", bad="3", ugly="4", more="5")
    assert [(each["data"], each["offset"]) for each in pushed(ann)] == [("2", 2), ("5", 5)]
    assert [each["offset"] for each in pushed(bob)] == [1, 2, 3, 4, 5]

    # Filtered publications advance the position too: at resubscribe and in recovery.
    position = {"channel": "tags:a", "recover": True, "epoch": result["epoch"], "tf": NEWS}
    for offset, found in ((0, [2, 5]), (2, [5]), (5, [])):
        ann.request(unsubscribe={"channel": "tags:a"})
        result = ann.request(subscribe=position | {"offset": offset})["subscribe"]
        assert result["recovered"]
        assert [each["offset"] for each in result.get("publications", [])] == found
        assert result.get("offset", 0) == offset
    tagged(harness, "tags:a", other="6", bad="7")
    ann.request(unsubscribe={"channel": "tags:a"})
    result = ann.request(subscribe=position | {"offset": 5})["subscribe"]
    assert (result["recovered"], result["offset"]) == (True, 7)
    assert "publications" not in result
    tagged(harness, "tags:a", news="8")
    assert [each["offset"] for each in pushed(ann)] == [8]
    assert ann.received() == []
    history = ann.request(history={"channel": "tags:a", "limit": -1})["history"]
    assert len(history["publications"]) == 8


def test_tag_filter_subscriber_notices_lost_publication(harness: NodeHarness) -> None:
    ann = harness.connected()
    ann.request(subscribe={"channel": "tags:a", "tf": NEWS})
    tagged(harness, "tags:a", other="1")
    bus = harness.node.engine.events
    harness.run(bus.unsubscribe("default/tags:a"))
    tagged(harness, "tags:a", news="2")
    harness.run(bus.subscribe("default/tags:a"))
    tagged(harness, "tags:a", other="3")
    (push,) = ann.received()
    assert push["push"]["unsubscribe"]["code"] == 2500


def test_invalid_or_disallowed_filter_is_refused(harness: NodeHarness) -> None:
    ann = harness.connected()
    for channel, node in (("tags:a", {"key": "kind"}), ("a", NEWS)):
        reply = ann.request(subscribe={"channel": channel, "tf": node})
        assert reply["error"]["code"] == 107
    assert "subscribe" in ann.request(subscribe={"channel": "tags:a", "tf": NEWS})
    assert ann.code is None
    deep = '{"nodes":[' * 5000 + "]}" * 5000
    ann.send(f'{{"id": 9, "subscribe": {{"channel": "tags:b", "tf": {deep}}}}}')
    assert ann.code == 3501


def test_protobuf_filter_decodes_as_in_json() -> None:
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
