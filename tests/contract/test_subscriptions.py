# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stores import STRANGE_IDS, ContractStore, findings
from zaqar_redis import errors
from zaqar_redis.records import Page, Subscription, SubscriptionChanges

HOOK = "http://example.org/hook"
#: What Heat sends, until the year 9000 or so; in milliseconds it has 15 digits.
HEAT_TTL = 220367260800


def subscribe(
    store: ContractStore, subscriber: str = HOOK, queue: str = "q", ttl: int = 600, **options: Any
) -> str | None:
    create = store.subscriptions.create
    return store.run(create(store.project, queue, subscriber, ttl=ttl, options=options))


def new_subscription(store: ContractStore, subscriber: str = HOOK, **how: Any) -> str:
    id = subscribe(store, subscriber, **how)
    assert id
    return id


def get(store: ContractStore, id: str, queue: str = "q") -> Subscription | None:
    return store.run(store.subscriptions.get(store.project, queue, id))


def existing(store: ContractStore, id: str) -> Subscription:
    found = get(store, id)
    assert found
    return found


def find(store: ContractStore, subscriber: str = HOOK, queue: str = "q") -> Subscription | None:
    return store.run(store.subscriptions.find(store.project, queue, subscriber))


def page(
    store: ContractStore, after: str = "", limit: int = 10, queue: str = "q"
) -> Page[Subscription]:
    return store.run(store.subscriptions.list(store.project, queue, after, limit))


def update(store: ContractStore, id: str, queue: str = "q", **changes: Any) -> bool:
    changed = SubscriptionChanges(**changes)
    return store.run(store.subscriptions.update(store.project, queue, id, changed))


def delete(store: ContractStore, id: str, queue: str = "q") -> None:
    store.run(store.subscriptions.delete(store.project, queue, id))


def test_subscription_is_read_as_it_was_created(store: ContractStore) -> None:
    id = new_subscription(
        store, "mailto:größe ☃\n@example.org", ttl=600, color="blue", deep={"a": [1, None]}
    )
    store.clock.tick(7)
    assert get(store, id) == Subscription(
        id=id,
        source="q",
        subscriber="mailto:größe ☃\n@example.org",
        ttl=600,
        age=7,
        options={"color": "blue", "deep": {"a": [1, None]}},
        confirmed=False,
    )
    assert find(store, "mailto:größe ☃\n@example.org") == get(store, id)


def test_a_subscriber_subscribes_once_to_a_queue(store: ContractStore) -> None:
    first = new_subscription(store)
    assert subscribe(store) is None
    assert new_subscription(store, queue="other") != first
    assert new_subscription(store, HOOK + "2") != first
    assert existing(store, first).ttl == 600


def test_queue_has_no_more_subscriptions_than_it_may_have(store: ContractStore) -> None:
    create, where = store.subscriptions.create, (store.project, "q")
    how: dict[str, Any] = {"ttl": 600, "options": {}, "most": 2}
    first, second = (store.run(create(*where, f"{HOOK}/{n}", **how)) for n in (1, 2))
    with pytest.raises(errors.TooManySubscriptions, match="The queue q has 2 subscriptions"):
        store.run(create(*where, HOOK, **how))
    assert store.run(create(*where, f"{HOOK}/1", **how)) is None
    assert [each.id for each in page(store).items] == sorted([str(first), str(second)])
    store.run(store.subscriptions.delete(*where, str(first)))
    assert store.run(create(*where, HOOK, **how))


def test_subscription_is_visible_in_its_queue_and_project_only(store: ContractStore) -> None:
    id = new_subscription(store)
    for project, queue in ((store.project, "other"), (store.project + "2", "q")):
        assert store.run(store.subscriptions.get(project, queue, id)) is None
        assert store.run(store.subscriptions.find(project, queue, HOOK)) is None
        assert store.run(store.subscriptions.list(project, queue, "", 10)).items == []
        assert not store.run(
            store.subscriptions.update(project, queue, id, SubscriptionChanges(ttl=5))
        )
        store.run(store.subscriptions.delete(project, queue, id))
    assert get(store, id)


def test_pages_continue_after_an_id(store: ContractStore) -> None:
    ids = sorted(new_subscription(store, f"{HOOK}/{number}") for number in range(25))
    first = page(store)
    assert [subscription.id for subscription in first.items] == ids[:10]
    assert first.marker == ids[9]
    delete(store, ids[9])
    rest = page(store, first.marker, 100)
    assert [subscription.id for subscription in rest.items] == ids[10:]
    assert page(store, ids[-1]) == Page(items=[], marker="")


def test_subscription_expires_after_its_ttl(store: ContractStore) -> None:
    short, long = new_subscription(store, ttl=60), new_subscription(store, HOOK + "2", ttl=120)
    store.clock.tick(59.999)
    assert get(store, short)
    store.clock.tick(0.001)
    assert get(store, short) is None
    assert find(store) is None
    assert [subscription.id for subscription in page(store).items] == [long]
    assert not update(store, short, ttl=600)
    again = new_subscription(store)
    assert again != short
    assert find(store) == get(store, again)


def test_subscription_of_millennia_keeps_its_ttl_to_the_second(store: ContractStore) -> None:
    made = new_subscription(store, ttl=HEAT_TTL)
    renewed = new_subscription(store, HOOK + "2")
    assert update(store, renewed, ttl=HEAT_TTL + 1)
    store.clock.tick(7)
    assert update(store, made, confirmed=True)
    shown = {each.id: (each.ttl, each.age) for each in page(store).items}
    assert shown == {made: (HEAT_TTL, 7), renewed: (HEAT_TTL + 1, 7)}
    store.clock.tick(HEAT_TTL - 8)
    assert get(store, made)
    store.clock.tick(1)
    assert get(store, made) is None
    assert [each.id for each in page(store).items] == [renewed]


def test_page_is_filled_across_expired_subscriptions(store: ContractStore) -> None:
    for number in range(30):
        new_subscription(store, f"{HOOK}/{number}", ttl=60 if number % 3 else 600)
    store.clock.tick(60)
    assert len(page(store, limit=10).items) == 10
    assert len(page(store, limit=20).items) == 10


def test_update_changes_only_given_fields(store: ContractStore) -> None:
    id = new_subscription(store, ttl=600, color="blue")
    store.clock.tick(100)
    assert update(store, id, confirmed=True)
    assert update(store, id, options={"color": "red"})
    known = existing(store, id)
    assert (known.confirmed, known.options) == (True, {"color": "red"})
    assert (known.ttl, known.age) == (600, 100)
    assert update(store, id, ttl=300)
    assert update(store, id, subscriber=HOOK + "2")
    known = existing(store, id)
    assert (known.confirmed, known.ttl, known.age) == (True, 300, 0)
    assert find(store) is None
    assert find(store, HOOK + "2") == known
    assert update(store, id, confirmed=False)
    assert update(store, id)
    store.clock.tick(300)
    assert get(store, id) is None


def test_subscription_may_be_paused_from_the_start(store: ContractStore) -> None:
    create = store.subscriptions.create
    id = store.run(create(store.project, "q", HOOK, ttl=600, options={}, paused=True))
    known = existing(store, str(id))
    assert (known.confirmed, known.paused, known.subscriber) == (False, True, HOOK)


def test_paused_subscription_stays_paused_until_it_is_resumed(store: ContractStore) -> None:
    id = new_subscription(store, color="blue")
    for change, state in (
        ({"paused": True}, (False, True)),
        ({"confirmed": True}, (True, True)),
        ({"ttl": 900}, (True, True)),
        ({"paused": False}, (True, False)),
    ):
        assert update(store, id, **change)
        known = existing(store, id)
        assert (known.confirmed, known.paused) == state
        assert (known.options, known.subscriber) == ({"color": "blue"}, HOOK)
        assert page(store).items == [known]


def test_update_to_a_subscriber_in_use_is_refused(store: ContractStore) -> None:
    first, second = new_subscription(store), new_subscription(store, HOOK + "2")
    with pytest.raises(errors.SubscriberTaken, match=HOOK):
        update(store, second, subscriber=HOOK, ttl=5)
    known = existing(store, second)
    assert (known.subscriber, known.ttl) == (HOOK + "2", 600)
    assert update(store, first, subscriber=HOOK)
    delete(store, first)
    assert update(store, second, subscriber=HOOK)


def test_update_to_a_subscriber_of_an_expired_subscription_is_accepted(
    store: ContractStore,
) -> None:
    new_subscription(store, ttl=60)
    second = new_subscription(store, HOOK + "2")
    store.clock.tick(60)
    assert update(store, second, subscriber=HOOK)
    assert find(store) == get(store, second)


def test_deleting_is_idempotent(store: ContractStore) -> None:
    id = new_subscription(store)
    for _ in range(2):
        delete(store, id)
        assert get(store, id) is None
    assert page(store).items == []
    assert new_subscription(store)


@pytest.mark.parametrize("id", STRANGE_IDS)
def test_unknown_subscription_id_matches_nothing(store: ContractStore, id: str) -> None:
    known = new_subscription(store)
    assert get(store, id) is None
    assert not update(store, id, ttl=5)
    delete(store, id)
    assert page(store, id).items in ([], [get(store, known)])


def test_subscriptions_are_deleted_with_their_queue(store: ContractStore) -> None:
    store.post("x")
    id = new_subscription(store)
    store.run(store.driver.queues.delete(store.project, "q"))
    store.post("x")
    assert get(store, id) is None
    assert page(store).items == []
    assert new_subscription(store)


def test_purging_messages_leaves_subscriptions(store: ContractStore) -> None:
    store.post("x")
    id = new_subscription(store)
    store.run(store.driver.queues.purge(store.project, "q"))
    assert get(store, id)


def test_expired_subscriptions_are_swept(real: ContractStore) -> None:
    real.reset()  # the sweeper would also count what other tests left
    real.create()
    (before,) = real.command("KEYS", "*")
    for number in range(250):
        new_subscription(real, f"{HOOK}/{number}", ttl=60)
    real.clock.tick(60)
    real.sweep(0)
    (after,) = real.command("KEYS", "*")
    assert sorted(after) == sorted(before)


def test_checker_finds_no_damage_after_subscription_changes(real: ContractStore) -> None:
    real.reset()
    ids = [new_subscription(real, f"{HOOK}/{number}", ttl=60 + number) for number in range(40)]
    update(real, ids[5], subscriber=HOOK)
    delete(real, ids[6])
    real.clock.tick(70)
    new_subscription(real)
    assert findings(real) == []
    real.reset()


def test_ages_are_zero_while_the_clock_is_behind_what_it_was(store: ContractStore) -> None:
    id = new_subscription(store)
    store.post("a", "b")
    claim = store.claim(1, ttl=600).claim_id
    store.clock.tick(-3600)
    subscription = get(store, id)
    held = store.run(store.driver.claims.get(store.project, "q", claim or ""))
    oldest = store.stats().oldest
    assert subscription
    assert held
    assert oldest
    assert (subscription.age, held.age, held.messages[0].age, oldest.age) == (0, 0, 0, 0)
    assert [message.age for message in store.page().items] == [0]
    assert [each.message.age for each in store.peek().items] == [0, 0]
    assert [each.age for each in store.claims().items] == [0]
    store.clock.tick(3600 + 30)
    assert [each.age for each in store.claims().items] == [30]
