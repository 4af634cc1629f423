# SPDX-License-Identifier: Apache-2.0
"""What options of a namespace change in the conversation, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.realtime.test_session import OPEN, Client, House, token
from zaqar_redis.realtime.world import Settings

CACHE = replace(OPEN, join_leave=False, force_recovery_mode="cache", auto_cache_recover=True)


@pytest.fixture
def house() -> Iterator[House]:
    with asyncio.Runner() as runner:
        made = House(runner)
        made.build(Settings(), OPEN, cache=CACHE)
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
    assert not {"recovered", "was_recovering", "publications"} & set(empty)
    publish(house, "cache:a", 1, 2)
    assert [each["data"] for each in pushed(ann)] == [1, 2]
    cid = house.connected("cid")
    result = cid.ask(subscribe={"channel": "cache:a"})["subscribe"]
    assert [(each["data"], each["offset"]) for each in result["publications"]] == [(2, 2)]
    assert result["recovered"]
    assert "was_recovering" not in result
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
