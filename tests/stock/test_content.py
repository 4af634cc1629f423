# SPDX-License-Identifier: Apache-2.0
"""Everything a queue has comes along: order, bodies, times, claims, subscriptions."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests import servers
from tests.stock.house import House, Ours
from zaqar_redis import errors
from zaqar_redis.keyspace import envelope

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated hmset:DeprecationWarning")

#: Stock's times are whole seconds.
_SLACK = 1
#: Seconds after which what stock gave one second is over; nothing in its store says so.
_OVER = 1.1

BODIES = [
    "plain",
    "żółw ☃ 🦊",
    {"nested": {"列": [1, -2.5, None, True, "x" * 1000]}},
    [],
    "",
    0,
    2**63,
]


def bodies(found: Any) -> list[Any]:
    return [json.loads(message.body) for message in found]


def test_messages_come_with_order_bodies_and_times(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    began = time.time()
    ids = house.stock.post("shop", "orders", *BODIES, ttl=7000)
    ids += house.stock.post("shop", "orders", *range(250), ttl=90)
    ended = time.time()
    rows, said = house.run()
    assert [row["outcome"] for row in rows] == ["copied"]
    assert rows[0]["messages"] == 257
    assert "queues: 1 copied\nmessages: 257 copied, 0 expired, 0 left out\n" in said
    found = ours.messages("shop", "orders", everything=False)
    assert bodies(found) == BODIES + list(range(250))
    assert [message.rank for message in found] == list(range(1, 258))
    assert {message.ttl for message in found[:7]} == {7000}
    for message in found:
        assert message.expires == message.created + message.ttl * 1000
        assert began - _SLACK <= message.created / 1000 <= ended + _SLACK
        assert message.client == envelope.client_bytes("8f4c1f2e-3c56-4b5e-9e0a-6f5a5d0c7b11")
        assert message.claim_id is None
    documents = list(house.stock.messages.bulk_get("orders", ids, project="shop"))
    assert [document["body"] for document in documents] == bodies(found)
    checksums = ["MD5:" + message.checksum.hex() for message in found]
    assert checksums == [document["checksum"] for document in documents]
    house.check()


def test_the_next_message_comes_behind_those_that_were_imported(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    house.stock.post("shop", "orders", "one", "two")
    house.run()
    house.shell.done("message", "post", "orders", "three", "--project", "shop")
    assert bodies(ours.messages("shop", "orders")) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("project", "queue"), [(None, "q"), ("a.b", "c.d"), ("żółw", "☃ queue"), ("{x}/y", "q")]
)
def test_names_stay_whatever_they_hold(
    house: House, ours: Ours, project: str | None, queue: str
) -> None:
    house.stock.make(project, queue, colour="bleu ciel ☁")
    house.stock.make("a", "b.c")
    house.stock.messages.post(queue, [{"ttl": 600, "body": "x"}], "8f4c1f2e" * 4, project=project)
    rows, _ = house.run()
    assert {(row["project"], row["queue"]) for row in rows} == {
        (project or "", queue),
        ("a", "b.c"),
    }
    known = ours.run(ours.driver.queues.get(project or "", queue))
    assert known
    assert known.metadata == {"colour": "bleu ciel ☁"}
    assert bodies(ours.messages(project or "", queue)) == ["x"]
    names = [each.name for each in ours.run(ours.driver.queues.list("a", "", 10, None)).items]
    assert names == ["b.c"]
    house.check()


def test_metadata_rule_the_queue_as_before(house: House, ours: Ours) -> None:
    metadata = {
        "_default_message_ttl": 300,
        "_max_claim_count": 1,
        "_dead_letter_queue": "dead",
        "any": {"thing": [1, None]},
    }
    house.stock.make("shop", "orders", **metadata)
    house.stock.post("shop", "orders", "stubborn")
    house.stock.claim("shop", "orders", 1, ttl=1)
    time.sleep(_OVER)
    house.run()
    known = ours.run(ours.driver.queues.get("shop", "orders"))
    assert known
    assert known.metadata == metadata
    (message,) = ours.messages("shop", "orders")
    assert message.claim_id is None
    # It was claimed as often as the queue allows: the next claim buries it.
    taken = ours.run(ours.driver.claims.create("shop", "orders", ttl=60, grace=60, limit=5))
    assert taken.messages == ()
    assert bodies(ours.messages("shop", "dead")) == ["stubborn"]
    house.check()


def test_claims_go_on_under_their_ids(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    house.stock.post("shop", "orders", *range(10))
    began = time.time()
    claim, documents = house.stock.claim("shop", "orders", 4, ttl=400)
    other, _ = house.stock.claim("shop", "orders", 2, ttl=500)
    house.stock.messages.delete("orders", documents[1]["id"], project="shop", claim=claim)
    rows, _ = house.run()
    assert rows[0]["claims"] == 2
    house.check()
    driver = ours.driver
    held = ours.run(driver.claims.get("shop", "orders", claim))
    assert held
    assert held.ttl == 400
    assert held.age <= time.time() - began + _SLACK
    assert bodies(held.messages) == [0, 2, 3]
    assert {message.claim_count for message in held.messages} == {0}
    assert bodies(ours.messages("shop", "orders", everything=False)) == [6, 7, 8, 9]
    stats = ours.run(driver.queues.stats("shop", "orders"))
    assert (stats.total, stats.claimed) == (9, 5)
    first, second, third = (message.id for message in held.messages)
    with pytest.raises(errors.MessageClaimed):
        ours.run(driver.messages.delete("shop", "orders", [first], claims=None, force=False))
    with pytest.raises(errors.ClaimedByOther):
        ours.run(driver.messages.delete("shop", "orders", [first], claims=[other], force=False))
    ours.run(driver.messages.delete("shop", "orders", [second], claims=[claim], force=False))
    ours.run(driver.claims.delete("shop", "orders", claim))
    assert bodies(ours.messages("shop", "orders", everything=False)) == [0, 3, 6, 7, 8, 9]
    assert ours.run(driver.claims.update("shop", "orders", other, ttl=60, grace=60))
    assert third
    house.check()


def test_a_claim_that_has_lapsed_stays_behind(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    house.stock.post("shop", "orders", "a", "b", "c")
    claim, _ = house.stock.claim("shop", "orders", 2, ttl=1)
    renewed, _ = house.stock.claim("shop", "orders", 1, ttl=1)
    house.stock.claims.update("orders", renewed, {"ttl": 600, "grace": 60}, project="shop")
    time.sleep(_OVER)
    rows, said = house.run()
    assert rows[0]["claims"] == 1
    assert "claims: 1 copied, 1 expired, 0 left out" in said
    assert ours.run(ours.driver.claims.get("shop", "orders", claim)) is None
    held = ours.run(ours.driver.claims.get("shop", "orders", renewed))
    assert held
    assert held.ttl == 600
    assert bodies(held.messages) == ["c"]
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["a", "b"]
    house.check()


def test_delays_end_when_they_would_have(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders", _default_message_delay=1)
    house.stock.post("shop", "orders", "later", delay=600)
    house.stock.post("shop", "orders", "now")
    house.stock.post("shop", "orders", "soon", delay=8)
    house.run()
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["now"]
    every = ours.messages("shop", "orders")
    assert bodies(every) == ["later", "now", "soon"]
    assert [message.delay for message in every] == [600, 0, 8]
    servers.wait_for(
        lambda: bodies(ours.messages("shop", "orders", everything=False)) == ["now", "soon"],
        "the delay to end",
    )
    house.check()


def test_messages_that_have_expired_stay_behind(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    house.stock.post("shop", "orders", "gone", ttl=1)
    (kept, late) = house.stock.post("shop", "orders", "kept", "late")
    assert kept
    with house.theirs.client() as client:
        client.hset(late, "e", 1000)  # as a claim of stock's leaves it, without Redis' EXPIRE
    time.sleep(_OVER)
    _, said = house.run()
    assert "messages: 1 copied, 2 expired, 0 left out" in said
    assert bodies(ours.messages("shop", "orders")) == ["kept"]


def test_subscriptions_come_with_ids_and_options(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    hooks = [f"http://example.org/żółw/{number}" for number in range(150)]
    began = time.time()
    ids = house.stock.subscribe("shop", "orders", *hooks)
    house.stock.subscriptions.confirm("orders", ids[3], project="shop")
    house.stock.subscriptions.create("orders", "mailto:a@b", 1, {}, project="shop")
    time.sleep(_OVER)
    rows, said = house.run()
    assert rows[0]["subscriptions"] == 150
    assert "subscriptions: 150 copied, 1 expired, 0 left out" in said
    found = ours.run(ours.driver.subscriptions.list("shop", "orders", "", 500)).items
    assert {each.id: each.subscriber for each in found} == dict(zip(ids, hooks, strict=True))
    assert [each.id for each in found if each.confirmed] == [ids[3]]
    assert {each.ttl for each in found} == {7200}
    assert all(each.options == {"for": each.subscriber} for each in found)
    assert all(each.age <= time.time() - began + _SLACK for each in found)
    found_by_name = ours.run(ours.driver.subscriptions.find("shop", "orders", hooks[7]))
    assert found_by_name
    assert found_by_name.id == ids[7]
    house.check()


def test_bodies_that_stock_encrypted_stay_so(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders", _enable_encrypt_messages=True)
    house.stock.post("shop", "orders", b"c2VhbGVk", "plain")
    _, said = house.run()
    assert "note: 1 messages are encrypted by stock Zaqar" in said
    sealed, plain = ours.messages("shop", "orders")
    assert (sealed.sealed, sealed.body) == (True, b"c2VhbGVk")
    assert (plain.sealed, plain.body) == (False, b'"plain"')


def test_what_cannot_be_read_is_left_out_and_said(house: House, ours: Ours) -> None:
    house.stock.make("shop", "orders")
    bodiless, garbled, _ = house.stock.post("shop", "orders", "a", "b", "c")
    twice, again = house.stock.subscribe("shop", "orders", "http://a", "http://b")
    with house.theirs.client() as client:
        client.hdel(bodiless, "b")
        client.hset(garbled, "e", "soon")
        client.hset(again, "u", client.hget(twice, "u"))
        client.zadd("shop.queues_set", {"elsewhere.queue": 1, b"shop.\xff": 1, "shop.none": 1})
        client.hset("shop.none", "m", b"\xc1")
    rows, said = house.run(code=1)
    assert [(row["queue"], row["outcome"], row["left_out"]) for row in rows] == [
        ("elsewhere.queue", "failed", 0),
        ("none", "failed", 0),
        ("orders", "copied", 3),
        ("shop.\ufffd", "failed", 0),
    ]
    for reason in (
        "1 messages: no body",
        "1 messages: a number is missing",
        "1 subscriptions: the subscriber has another subscription",
        "1 queues: it cannot be read: a text that is not UTF-8",
    ):
        assert f"left out: {reason}\n" in said
    assert bodies(ours.messages("shop", "orders")) == ["c"]
    house.check()


def test_a_claim_whose_record_is_gone_holds_its_messages_all_the_same(
    house: House, ours: Ours
) -> None:
    house.stock.make("shop", "orders")
    house.stock.post("shop", "orders", "held", "free")
    claim, _ = house.stock.claim("shop", "orders", 1, ttl=300)
    with house.theirs.client() as client:
        client.delete(claim)
    house.run()
    assert ours.run(ours.driver.claims.get("shop", "orders", claim)) is None
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["free"]
    house.check()
