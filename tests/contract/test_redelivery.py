# SPDX-License-Identifier: Apache-2.0
"""What is known of earlier deliveries of a message: how many, the first one, the last reason."""

from __future__ import annotations

import pytest

from tests.contract.test_moving import move_queue
from tests.support.stores import ContractStore, PooledContractStore, names, opened
from zaqar_redis import errors
from zaqar_redis.records import Message

_REASON = "no paper, and später  again"


def _past(message: Message) -> tuple[int, int, str]:
    return message.claim_count, message.first_claimed, message.reason


def _claimed(store: ContractStore, limit: int = 10) -> tuple[list[Message], str | None]:
    taken = store.claim(limit)
    return [*taken.messages], taken.claim_id


def test_every_delivery_says_how_often_since_when_and_the_last_reason(
    store: ContractStore,
) -> None:
    store.upgrade()
    ids = store.post("a", "b").ids
    first = store.clock.now
    messages, claim = _claimed(store)
    assert [_past(each) for each in messages] == [(1, first, "")] * 2
    store.clock.tick(5)
    assert store.release_some(claim, ids[0], reason=_REASON) == (ids[0],)
    shown = {each.id: _past(each) for each in store.page(claimed=True).items}
    assert shown == {ids[0]: (1, first, _REASON), ids[1]: (1, first, "")}
    assert _past(store.get(ids[0])[0]) == (1, first, _REASON)
    (again,), claim = _claimed(store)
    assert _past(again) == (2, first, _REASON)
    store.release_some(claim, reason="other")
    (again,), claim = _claimed(store)
    assert _past(again) == (3, first, "other")
    store.release(claim)
    store.clock.tick(61)
    peeked = {each.message.id: _past(each.message) for each in store.peek().items}
    assert peeked == {ids[0]: (3, first, "other"), ids[1]: (1, first, "")}
    assert {each.claim_id for each in store.page().items} == {None}


def test_pop_says_how_often_since_when_and_the_last_reason(store: ContractStore) -> None:
    store.upgrade()
    ids = store.post("a", "b").ids
    first = store.clock.now
    _, claim = _claimed(store, 1)
    store.release_some(claim, ids[0], reason=_REASON)
    store.clock.tick(5)
    popped = store.run(store.driver.messages.pop(store.project, "q", 2)).messages
    assert [_past(each) for each in popped] == [(2, first, _REASON), (1, store.clock.now, "")]
    assert {each.claim_id for each in popped} == {None}


@pytest.mark.parametrize("expires", [False, True])
def test_dead_letter_has_the_reason(store: ContractStore, expires: bool) -> None:
    store.upgrade()
    store.create(_dead_letter_queue="dead", _max_claim_count=1)
    store.post("a", "b", ttl=300)
    (first, _), claim = _claimed(store)
    store.release_some(claim, first.id, reason=_REASON)
    store.release(claim)
    if expires:
        store.clock.tick(301)
        store.command("DEL", b"zr:sweeper")
        store.sweep()
    else:
        assert _claimed(store)[0] == []
    letters = store.page(queue="dead").items
    assert names(letters) == ["a", "b"]
    assert [each.attributes for each in letters] == [{"_reason": _REASON}, None]
    assert [_past(each) for each in letters] == [(0, 0, "")] * 2


def test_past_moves_with_the_queue_and_survives_a_move_that_dies(
    pools: PooledContractStore,
) -> None:
    pools.upgrade()
    (id,) = pools.post("a").ids
    first = pools.clock.now
    _, claim = _claimed(pools)
    pools.release_some(claim, reason=_REASON)
    move_queue(pools, pools.other_pool())
    with pools.dying_before("dead_letter_post"):
        pools.move(id)
    pools.clock.tick(61)
    (message,), _ = _claimed(pools)
    assert _past(message) == (2, first, _REASON)


def test_nothing_is_noted_until_no_older_release_reads_it(own_redis: str, project: str) -> None:
    with opened(own_redis, project) as before:
        before.reset()
    with opened(own_redis, project) as store:
        store.post("a")
        (message,), claim = _claimed(store)
        assert _past(message) == (1, 0, "")
        with pytest.raises(errors.Conflict, match="zaqar-redis upgrade"):
            store.release_some(claim, reason=_REASON)
        assert store.held(claim) == ["a"]
        store.upgrade()
        store.release_some(claim, reason=_REASON)
        assert _past(store.page().items[0]) == (1, store.clock.now, _REASON)
        (message,), _ = _claimed(store)
        assert message.claim_count == 2
