# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for messages."""

from __future__ import annotations

import uuid

import pytest

from tests.support.stores import CLIENT, STRANGE_IDS, TTL, ContractStore, names
from tests.support.tiers import in_gate
from zaqar_redis import errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import IdempotencyKey, NewMessage


def _idempotency_key(
    key: str = "key", content: bytes = b"content", window: int = 60_000
) -> IdempotencyKey:
    return IdempotencyKey(key=key, fingerprint=content, window=window)


def _post_one(store: ContractStore, message: NewMessage) -> str:
    return store.send([message]).ids[0]


def test_messages_are_listed_in_the_order_of_posting(store: ContractStore) -> None:
    ids = store.post("a", "b").ids + store.post("c").ids
    page = store.page()
    assert names(page.items) == ["a", "b", "c"]
    assert tuple(message.id for message in page.items) == ids
    assert [message.rank for message in page.items] == [1, 2, 3]


@pytest.mark.transports
def test_message_is_read_as_it_was_posted(store: ContractStore) -> None:
    body = '{"ü": [1, 2.50, "\\u2603"], "spaces":  true}'.encode()
    checksum = bytes(range(16))
    message_id = _post_one(store, NewMessage(body=body, ttl=77, checksum=checksum, origin="é.from"))
    [message] = store.get(message_id)
    assert message.body == body
    assert (message.checksum, message.origin, message.encrypted) == (checksum, "é.from", False)
    assert (message.ttl, message.age, message.delay) == (77, 0, 0)
    assert (message.created, message.expires) == (store.clock.now, store.clock.now + 77_000)
    assert (message.claim_id, message.claim_count) == (None, 0)
    assert message.client == envelope.client_bytes(CLIENT)
    store.clock.tick(12.9)
    assert store.get(message_id)[0].age == 12
    assert store.page().items == store.get(message_id)


@pytest.mark.transports
def test_a_body_may_be_large_and_hold_any_byte(store: ContractStore) -> None:
    body = bytes(range(256)) * 4096
    assert store.get(_post_one(store, NewMessage(body=body)))[0].body == body


def test_message_without_ttl_gets_the_default_of_queue_or_service(store: ContractStore) -> None:
    [early] = store.post("a", ttl=None).ids
    store.create("short", _default_message_ttl=90)
    [queued] = store.post("b", queue="short", ttl=None).ids
    [own] = store.post("c", queue="short", ttl=100).ids
    assert store.get(early)[0].ttl == TTL
    assert [message.ttl for message in store.get(queued, own, queue="short")] == [90, 100]


def test_expired_message_is_not_visible_to_any_operation(store: ContractStore) -> None:
    ids = store.post("short", ttl=60).ids + store.post("long", ttl=61).ids
    store.clock.tick(59.999)
    assert len(store.get(*ids)) == len(store.page().items) == 2
    store.clock.tick(0.001)
    assert names(store.get(*ids)) == names(store.page().items) == ["long"]
    assert store.stats().total == 1
    assert names(store.claim().messages) == ["long"]
    store.delete(ids[0])


def test_a_delayed_message_is_hidden_until_its_delay_ends(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    [default] = store.post("default").ids
    [own] = store.post("own", delay=10).ids
    store.post("none", delay=0)
    assert names(store.page().items) == ["none"]
    assert store.listed() == ["default", "own", "none"]
    assert [message.delay for message in store.get(default, own)] == [30, 10]
    assert store.pop() == ["none"]
    assert store.page().next_visible_ms == 10_000
    store.clock.tick(9.999)
    assert names(store.claim().messages) == []
    store.clock.tick(0.001)
    assert names(store.claim().messages) == ["own"]
    store.clock.tick(20)
    assert names(store.page().items) == ["default"]


def test_a_delay_counts_towards_the_ttl(store: ContractStore) -> None:
    store.create(_default_message_delay=900)
    store.post("never seen", ttl=60)
    store.clock.tick(60)
    assert store.visible(delayed=True) == []
    store.clock.tick(900)
    assert store.claim().claim_id is None


def test_thousands_of_messages_become_visible_when_their_delay_ends(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    store.post_many(2500)
    store.clock.tick(30)
    assert names(store.page(limit=3).items) == ["0", "1", "2"]
    assert names(store.claim(limit=3).messages) == ["0", "1", "2"]


@pytest.mark.transports
@pytest.mark.parametrize("number", in_gate([4001, 20_500]))
def test_post_of_thousands_of_messages_is_stored_in_order(
    store: ContractStore, number: int
) -> None:
    store.post("before")
    ids = store.post_many(number).ids
    assert len(set(ids)) == number
    assert store.stats().total == number + 1
    assert store.listed() == ["before", *map(str, range(number))]
    assert names(store.get(ids[-1], ids[0])) == [str(number - 1), "0"]
    assert store.pop(limit=2) == ["before", "0"]


def test_post_over_the_size_limit_of_the_queue_stores_nothing(store: ContractStore) -> None:
    store.create(_max_messages_post_size=100)
    with pytest.raises(errors.BadRequest, match="at most 100 bytes"):
        store.post("a", "b", size=101)
    assert store.stats().total == 0
    store.post("a", size=100)
    assert store.stats().total == 1


def test_queue_with_encryption_refuses_plain_bodies(store: ContractStore) -> None:
    store.create(_enable_encrypt_messages=True)
    with pytest.raises(errors.EncryptionRequired):
        store.post("a")
    assert store.stats().total == 0
    encrypted = _post_one(store, NewMessage(body=b"\x00\xff", encrypted=True))
    assert store.get(encrypted)[0].encrypted


def test_retried_post_stores_once_and_returns_the_same_ids(store: ContractStore) -> None:
    first = store.post("a", "b", idempotency_key=_idempotency_key())
    again = store.post("a", "b", idempotency_key=_idempotency_key())
    assert again.ids == first.ids
    assert (first.replayed, again.replayed) == (False, True)
    assert store.listed() == ["a", "b"]


def test_retry_is_recognised_after_its_messages_were_deleted(store: ContractStore) -> None:
    first = store.post("a", idempotency_key=_idempotency_key())
    store.delete(*first.ids)
    assert store.post("a", idempotency_key=_idempotency_key()).ids == first.ids
    store.run(store.driver.queues.purge(store.project, "q"))
    assert store.post("a", idempotency_key=_idempotency_key()).ids == first.ids
    assert store.listed() == []


def test_idempotency_key_reused_for_another_request_is_refused(store: ContractStore) -> None:
    store.post("a", idempotency_key=_idempotency_key())
    with pytest.raises(errors.IdempotencyKeyReused):
        store.post("b", idempotency_key=_idempotency_key(content=b"other"))
    assert store.listed() == ["a"]


def test_idempotency_keys_are_separate_for_each_queue_and_epoch(store: ContractStore) -> None:
    store.post("a", idempotency_key=_idempotency_key())
    store.post("a", idempotency_key=_idempotency_key("KEY"))
    assert not store.post(
        "a", queue="other", idempotency_key=_idempotency_key(content=b"other")
    ).replayed
    assert store.listed() == ["a", "a"]
    store.run(store.driver.queues.delete(store.project, "q"))
    assert not store.post("recreated", idempotency_key=_idempotency_key(content=b"new")).replayed
    assert store.listed() == ["recreated"]


def test_retry_of_a_refused_post_with_same_key_is_accepted(store: ContractStore) -> None:
    store.create(_max_messages_post_size=100)
    with pytest.raises(errors.BadRequest):
        store.post("a", size=101, idempotency_key=_idempotency_key())
    assert not store.post("a", size=99, idempotency_key=_idempotency_key()).replayed
    assert store.listed() == ["a"]


def test_messages_are_returned_in_the_order_of_the_requested_ids(store: ContractStore) -> None:
    ids = store.post("a", "b", "c").ids
    requested = (ids[2], str(uuid.uuid4()), ids[0], "nonsense", ids[2])
    assert names(store.get(*requested)) == ["c", "a", "c"]


def test_claimed_and_delayed_messages_are_returned_by_id(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    [later] = store.post("later").ids
    [held] = store.post("held", delay=0).ids
    claim = store.claim().claim_id
    assert [message.claim_id for message in store.get(later, held)] == [None, claim]
    store.clock.tick(60)
    assert store.get(held)[0].claim_id is None


@pytest.mark.parametrize("strange", STRANGE_IDS)
def test_unknown_message_id_gets_and_deletes_nothing(store: ContractStore, strange: str) -> None:
    store.post("a")
    assert store.get(strange) == []
    store.delete(strange)
    store.delete(strange, claims=[str(uuid.uuid4())])
    assert store.listed() == ["a"]


def test_message_id_is_valid_in_its_own_queue_only(store: ContractStore) -> None:
    [mine] = store.post("mine").ids
    [other] = store.post("other", queue="other").ids
    assert store.get(other) == []
    store.delete(other, force=True)
    project, store.project = store.project, store.project + "-other"
    store.post("theirs")
    assert store.get(mine) == []
    store.delete(mine, force=True)
    assert store.listed() == ["theirs"]
    store.project = project
    assert (store.listed(), store.listed("other")) == (["mine"], ["other"])


def test_id_from_earlier_incarnation_of_queue_matches_nothing(store: ContractStore) -> None:
    [earlier] = store.post("old").ids
    store.run(store.driver.queues.delete(store.project, "q"))
    store.post("new")
    assert store.get(earlier) == []
    store.delete(earlier, force=True)
    assert store.listed() == ["new"]


def test_deleting_removes_and_is_idempotent(store: ContractStore) -> None:
    ids = store.post("a", "b", "c").ids
    store.delete(ids[1])
    store.delete(ids[1], ids[1], ids[0])
    assert store.listed() == ["c"]
    assert store.get(*ids) == store.page().items


def test_a_claimed_message_is_not_deleted_without_its_claim(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim(limit=1).claim_id
    with pytest.raises(errors.MessageClaimed):
        store.delete(ids[1], ids[0])
    assert store.listed() == ["a", "b"]
    store.delete(ids[0], claims=[claim])
    assert store.listed() == ["b"]
    assert store.held(claim) == []


def test_force_deletes_claimed_messages_too(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim(limit=1).claim_id
    store.delete(*ids, force=True)
    assert store.listed() == []
    assert store.held(claim) == []


def test_a_claim_deletes_only_what_it_holds(store: ContractStore) -> None:
    ids = store.post("a", "b", "c").ids
    one, two = (store.claim(limit=1).claim_id for _ in range(2))
    with pytest.raises(errors.ClaimedByOther):
        store.delete(ids[0], ids[1], claims=[one])
    with pytest.raises(errors.MessageNotClaimed):
        store.delete(ids[0], ids[2], claims=[one])
    assert store.listed() == ["a", "b", "c"]
    store.delete(ids[0], ids[1], claims=[two, one])
    assert store.listed() == ["c"]


@pytest.mark.parametrize("claim", ["", "nonsense", "0" * 32, str(uuid.UUID(int=7))])
def test_unknown_claim_deletes_nothing(store: ContractStore, claim: str) -> None:
    ids = store.post("a", "b").ids
    store.claim(limit=1)
    for message_id in ids:
        with pytest.raises(errors.ClaimExpired):
            store.delete(message_id, claims=[claim])
    assert store.listed() == ["a", "b"]


def test_expired_claim_deletes_nothing(store: ContractStore) -> None:
    ids = store.post("a").ids
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(60)
    with pytest.raises(errors.ClaimExpired):
        store.delete(*ids, claims=[claim])
    store.delete(*ids)
    assert store.listed() == []


def test_as_many_messages_as_a_page_holds_are_deleted_at_once(store: ContractStore) -> None:
    ids = store.post_many(1001).ids
    assert len(store.get(*ids[:1000])) == 1000
    store.delete(*ids[:1000])
    assert store.listed() == ["1000"]


def test_pop_removes_the_oldest_claimable_messages(store: ContractStore) -> None:
    ids = store.post("a", "b", "c", "d").ids
    store.claim(limit=1)
    assert store.pop(limit=2) == ["b", "c"]
    assert store.get(ids[1], ids[2]) == []
    assert store.pop() == ["d"]
    assert store.pop() == []
    assert store.listed() == ["a"]
    store.clock.tick(60)
    assert store.pop() == ["a"]


def test_large_pop_returns_all_messages(store: ContractStore) -> None:
    store.post_many(1500)
    assert store.pop(limit=1000) == [str(number) for number in range(1000)]
    assert store.stats().total == 500


def test_empty_pop_returns_next_visible_ms(store: ContractStore) -> None:
    def next_visible_ms() -> int | None:
        return store.run(store.driver.messages.pop(store.project, "q", 10)).next_visible_ms

    store.post("a")
    store.claim(ttl=60)
    store.clock.tick(20)
    assert next_visible_ms() == 40_000
    store.clock.tick(40)
    assert store.pop() == ["a"]
    assert next_visible_ms() is None


@pytest.mark.parametrize("ttl", [None, 120])
def test_scheduled_message_is_delivered_at_its_time_and_its_ttl_begins_then(
    store: ContractStore, ttl: int | None
) -> None:
    store.create(_default_message_ttl=90)
    at = store.clock() + 40 * 86_400_000 - 1
    store.send([NewMessage(b'"later"', ttl=ttl, deliver_at=at)])
    store.send([NewMessage(b'"past"', ttl=60, deliver_at=store.clock() - 5000)])
    store.send([NewMessage(b'"now"', ttl=60)])
    assert store.visible() == ["past", "now"]
    assert store.visible(delayed=True) == ["later", "past", "now"]
    later = store.page(delayed=True).items[0]
    lifetime = ttl or 90
    assert (later.delay, later.ttl) == (40 * 86_400, 40 * 86_400 + lifetime)
    store.clock.tick(40 * 86_400 - 1)
    assert store.pop() == []
    store.clock.tick(1)
    assert names(store.claim(ttl=60, grace=60).messages) == ["later"]


def test_scheduled_message_expires_after_its_delivery(store: ContractStore) -> None:
    store.send([NewMessage(b'"a"', ttl=60, deliver_at=store.clock() + 1000_000)])
    store.clock.tick(1059)
    assert store.visible() == ["a"]
    store.clock.tick(1)
    assert store.visible() == []
