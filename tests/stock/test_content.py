# SPDX-License-Identifier: Apache-2.0
"""All content of a queue is imported: order, bodies, times, claims, subscriptions."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from oslo_utils import timeutils

from tests.stock.harness import ImportedStore, ImportHarness
from tests.support import servers
from zaqar_redis import errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Lease

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated hmset:DeprecationWarning")

#: Stock's times are whole seconds.
_SLACK = 1
#: Seconds after which a lifetime of one second in stock has ended; its store has no sign of it.
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


def test_messages_are_imported_with_order_bodies_and_times(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders")
    began = time.time()
    ids = harness.stock.post("shop", "orders", *BODIES, ttl=7000)
    ids += harness.stock.post("shop", "orders", *range(250), ttl=90)
    ended = time.time()
    rows, notices = harness.run()
    assert [row["outcome"] for row in rows] == ["copied"]
    assert rows[0]["messages"] == 257
    assert "queues: 1 copied\nmessages: 257 copied, 0 expired, 0 left out\n" in notices
    found = ours.messages("shop", "orders", everything=False)
    assert bodies(found) == BODIES + list(range(250))
    assert [message.rank for message in found] == list(range(1, 258))
    assert {message.ttl for message in found[:7]} == {7000}
    for message in found:
        assert message.expires == message.created + message.ttl * 1000
        assert began - _SLACK <= message.created / 1000 <= ended + _SLACK
        assert message.client == envelope.client_bytes("8f4c1f2e-3c56-4b5e-9e0a-6f5a5d0c7b11")
        assert message.claim_id is None
    documents = list(harness.stock.messages.bulk_get("orders", ids, project="shop"))
    assert [document["body"] for document in documents] == bodies(found)
    checksums = ["MD5:" + message.checksum.hex() for message in found]
    assert checksums == [document["checksum"] for document in documents]
    harness.check()


def test_next_message_is_placed_after_the_imported_ones(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders")
    harness.stock.post("shop", "orders", "one", "two")
    harness.run()
    harness.shell.done("message", "post", "orders", "three", "--project", "shop")
    assert bodies(ours.messages("shop", "orders")) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("project", "queue"), [(None, "q"), ("a.b", "c.d"), ("żółw", "☃ queue"), ("{x}/y", "q")]
)
def test_names_with_any_characters_are_imported_unchanged(
    harness: ImportHarness, ours: ImportedStore, project: str | None, queue: str
) -> None:
    harness.stock.make(project, queue, colour="bleu ciel ☁")
    harness.stock.make("a", "b.c")
    harness.stock.messages.post(queue, [{"ttl": 600, "body": "x"}], "8f4c1f2e" * 4, project=project)
    rows, _ = harness.run()
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
    harness.check()


def test_imported_metadata_apply_to_the_queue(harness: ImportHarness, ours: ImportedStore) -> None:
    metadata = {
        "_default_message_ttl": 300,
        "_max_claim_count": 1,
        "_dead_letter_queue": "dead",
        "any": {"thing": [1, None]},
    }
    harness.stock.make("shop", "orders", **metadata)
    harness.stock.post("shop", "orders", "stubborn")
    harness.stock.claim("shop", "orders", 1, ttl=1)
    time.sleep(_OVER)
    harness.run()
    known = ours.run(ours.driver.queues.get("shop", "orders"))
    assert known
    assert known.metadata == metadata
    (message,) = ours.messages("shop", "orders")
    assert message.claim_id is None
    # It was claimed as often as the queue allows: the next claim dead-letters it.
    taken = ours.run(ours.driver.claims.create("shop", "orders", Lease(60, 60), limit=5))
    assert taken.messages == ()
    assert bodies(ours.messages("shop", "dead")) == ["stubborn"]
    harness.check()


def test_claims_are_imported_with_their_ids(harness: ImportHarness, ours: ImportedStore) -> None:
    harness.stock.make("shop", "orders")
    harness.stock.post("shop", "orders", *range(10))
    began = time.time()
    claim, documents = harness.stock.claim("shop", "orders", 4, ttl=400)
    other, _ = harness.stock.claim("shop", "orders", 2, ttl=500)
    harness.stock.messages.delete("orders", documents[1]["id"], project="shop", claim=claim)
    rows, _ = harness.run()
    assert rows[0]["claims"] == 2
    harness.check()
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
    assert ours.run(driver.claims.update("shop", "orders", other, Lease(60, 60)))
    assert third
    harness.check()


def test_expired_claim_is_not_imported(
    harness: ImportHarness, ours: ImportedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.stock.make("shop", "orders")
    with monkeypatch.context() as patched:
        # So long ago that there is time to renew a claim whose first lifetime is over now.
        patched.setattr(timeutils, "utcnow_ts", lambda: int(time.time()) - 30)
        harness.stock.post("shop", "orders", "c")
        renewed, _ = harness.stock.claim("shop", "orders", 1, ttl=30)
        harness.stock.claims.update("orders", renewed, {"ttl": 600, "grace": 60}, project="shop")
    harness.stock.post("shop", "orders", "a", "b")
    claim, _ = harness.stock.claim("shop", "orders", 2, ttl=1)
    time.sleep(_OVER)
    rows, notices = harness.run()
    assert rows[0]["claims"] == 1
    assert "claims: 1 copied, 1 expired, 0 left out" in notices
    assert ours.run(ours.driver.claims.get("shop", "orders", claim)) is None
    held = ours.run(ours.driver.claims.get("shop", "orders", renewed))
    assert held
    assert held.ttl == 600
    assert bodies(held.messages) == ["c"]
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["a", "b"]
    harness.check()


def test_delays_are_imported_with_their_end(harness: ImportHarness, ours: ImportedStore) -> None:
    harness.stock.make("shop", "orders", _default_message_delay=1)
    harness.stock.post("shop", "orders", "later", delay=600)
    harness.stock.post("shop", "orders", "now")
    harness.stock.post("shop", "orders", "soon", delay=8)
    harness.run()
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["now"]
    every = ours.messages("shop", "orders")
    assert bodies(every) == ["later", "now", "soon"]
    assert [message.delay for message in every] == [600, 0, 8]
    servers.wait_for(
        lambda: bodies(ours.messages("shop", "orders", everything=False)) == ["now", "soon"],
        "the delay to end",
    )
    harness.check()


def test_expired_messages_are_not_imported(harness: ImportHarness, ours: ImportedStore) -> None:
    harness.stock.make("shop", "orders")
    harness.stock.post("shop", "orders", "gone", ttl=1)
    (kept, late) = harness.stock.post("shop", "orders", "kept", "late")
    assert kept
    with harness.theirs.client() as client:
        client.hset(late, "e", 1000)  # the state after a claim of stock's, without Redis' EXPIRE
    time.sleep(_OVER)
    _, notices = harness.run()
    assert "messages: 1 copied, 2 expired, 0 left out" in notices
    assert bodies(ours.messages("shop", "orders")) == ["kept"]


def test_subscriptions_are_imported_with_ids_and_options(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders")
    hooks = [f"http://example.org/żółw/{number}" for number in range(150)]
    began = time.time()
    ids = harness.stock.subscribe("shop", "orders", *hooks)
    harness.stock.subscriptions.confirm("orders", ids[3], project="shop")
    harness.stock.subscriptions.create("orders", "mailto:a@b", 1, {}, project="shop")
    time.sleep(_OVER)
    rows, notices = harness.run()
    assert rows[0]["subscriptions"] == 150
    assert "subscriptions: 150 copied, 1 expired, 0 left out" in notices
    stored = ours.driver.subscriptions
    assert stored
    found = ours.run(stored.list("shop", "orders", "", 500)).items
    assert {each.id: each.subscriber for each in found} == dict(zip(ids, hooks, strict=True))
    assert [each.id for each in found if each.confirmed] == [ids[3]]
    assert {each.ttl for each in found} == {7200}
    assert all(each.options == {"for": each.subscriber} for each in found)
    assert all(each.age <= time.time() - began + _SLACK for each in found)
    found_by_name = ours.run(stored.find("shop", "orders", hooks[7]))
    assert found_by_name
    assert found_by_name.id == ids[7]
    assert ours.delivers("shop", "orders")
    harness.check()


def test_bodies_encrypted_by_stock_zaqar_stay_encrypted(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders", _enable_encrypt_messages=True)
    harness.stock.post("shop", "orders", b"c2VhbGVk", "plain")
    _, notices = harness.run()
    assert "note: 1 messages stay encrypted with stock Zaqar" in notices
    encrypted, plain = ours.messages("shop", "orders")
    assert (encrypted.encrypted, encrypted.body) == (True, b"c2VhbGVk")
    assert (plain.encrypted, plain.body) == (False, b'"plain"')


def test_unreadable_content_is_left_out_and_reported(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders")
    bodiless, garbled, _ = harness.stock.post("shop", "orders", "a", "b", "c")
    twice, again = harness.stock.subscribe("shop", "orders", "http://a", "http://b")
    with harness.theirs.client() as client:
        client.hdel(bodiless, "b")
        client.hset(garbled, "e", "soon")
        client.hset(again, "u", client.hget(twice, "u"))
        client.zadd("shop.queues_set", {"elsewhere.queue": 1, b"shop.\xff": 1, "shop.none": 1})
        client.hset("shop.none", "m", b"\xc1")
    rows, notices = harness.run(code=1)
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
        assert f"left out: {reason}\n" in notices
    assert bodies(ours.messages("shop", "orders")) == ["c"]
    harness.check()


def test_messages_of_a_claim_without_record_stay_claimed(
    harness: ImportHarness, ours: ImportedStore
) -> None:
    harness.stock.make("shop", "orders")
    harness.stock.post("shop", "orders", "held", "free")
    claim, _ = harness.stock.claim("shop", "orders", 1, ttl=300)
    with harness.theirs.client() as client:
        client.delete(claim)
    harness.run()
    assert ours.run(ours.driver.claims.get("shop", "orders", claim)) is None
    assert bodies(ours.messages("shop", "orders", everything=False)) == ["free"]
    harness.check()
