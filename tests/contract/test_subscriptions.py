# SPDX-License-Identifier: Apache-2.0
"""What every store promises about subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.stores import STRANGE_IDS, Store, findings
from zaqar_redis import errors
from zaqar_redis.records import Page, Subscription
from zaqar_redis.storage.driver import Subscriptions

HOOK = "http://example.org/hook"


def of(store: Store) -> Subscriptions:
    return store.driver.subscriptions


def subscribe(
    store: Store, subscriber: str = HOOK, queue: str = "q", ttl: int = 600, **options: Any
) -> str | None:
    return store.run(of(store).create(store.project, queue, subscriber, ttl=ttl, options=options))


def made(store: Store, subscriber: str = HOOK, **how: Any) -> str:
    id = subscribe(store, subscriber, **how)
    assert id
    return id


def got(store: Store, id: str, queue: str = "q") -> Subscription | None:
    return store.run(of(store).get(store.project, queue, id))


def found(store: Store, subscriber: str = HOOK, queue: str = "q") -> Subscription | None:
    return store.run(of(store).find(store.project, queue, subscriber))


def page(store: Store, after: str = "", limit: int = 10, queue: str = "q") -> Page[Subscription]:
    return store.run(of(store).list(store.project, queue, after, limit))


def update(store: Store, id: str, queue: str = "q", **changes: Any) -> bool:
    return store.run(of(store).update(store.project, queue, id, **changes))


def delete(store: Store, id: str, queue: str = "q") -> None:
    store.run(of(store).delete(store.project, queue, id))


def test_a_subscription_comes_back_as_it_went_in(store: Store) -> None:
    id = made(store, "mailto:größe ☃\n@example.org", ttl=600, color="blue", deep={"a": [1, None]})
    store.clock.tick(7)
    assert got(store, id) == Subscription(
        id=id,
        source="q",
        subscriber="mailto:größe ☃\n@example.org",
        ttl=600,
        age=7,
        options={"color": "blue", "deep": {"a": [1, None]}},
        confirmed=False,
    )
    assert found(store, "mailto:größe ☃\n@example.org") == got(store, id)


def test_a_subscriber_subscribes_once_to_a_queue(store: Store) -> None:
    first = made(store)
    assert subscribe(store) is None
    assert made(store, queue="other") != first
    assert made(store, HOOK + "2") != first
    known = got(store, first)
    assert known
    assert known.ttl == 600


def test_a_subscription_is_one_of_its_queue_and_project(store: Store) -> None:
    id = made(store)
    for project, queue in ((store.project, "other"), (store.project + "2", "q")):
        assert store.run(of(store).get(project, queue, id)) is None
        assert store.run(of(store).find(project, queue, HOOK)) is None
        assert store.run(of(store).list(project, queue, "", 10)).items == []
        assert not store.run(of(store).update(project, queue, id, ttl=5))
        store.run(of(store).delete(project, queue, id))
    assert got(store, id)


def test_pages_go_on_behind_an_id(store: Store) -> None:
    ids = sorted(made(store, f"{HOOK}/{number}") for number in range(25))
    first = page(store)
    assert [subscription.id for subscription in first.items] == ids[:10]
    assert first.marker == ids[9]
    delete(store, ids[9])
    rest = page(store, first.marker, 100)
    assert [subscription.id for subscription in rest.items] == ids[10:]
    assert page(store, ids[-1]) == Page(items=[], marker="")


def test_time_ends_a_subscription(store: Store) -> None:
    short, long = made(store, ttl=60), made(store, HOOK + "2", ttl=120)
    store.clock.tick(59.999)
    assert got(store, short)
    store.clock.tick(0.001)
    assert got(store, short) is None
    assert found(store) is None
    assert [subscription.id for subscription in page(store).items] == [long]
    assert not update(store, short, ttl=600)
    again = made(store)
    assert again != short
    assert found(store) == got(store, again)


def test_a_page_is_filled_past_those_that_ended(store: Store) -> None:
    for number in range(30):
        made(store, f"{HOOK}/{number}", ttl=60 if number % 3 else 600)
    store.clock.tick(60)
    assert len(page(store, limit=10).items) == 10
    assert len(page(store, limit=20).items) == 10


def test_what_is_given_is_changed(store: Store) -> None:
    id = made(store, ttl=600, color="blue")
    store.clock.tick(100)
    assert update(store, id, confirmed=True)
    assert update(store, id, options={"color": "red"})
    known = got(store, id)
    assert known
    assert (known.confirmed, known.options, known.ttl, known.age) == (
        True,
        {"color": "red"},
        600,
        100,
    )
    assert update(store, id, ttl=300)
    assert update(store, id, subscriber=HOOK + "2")
    known = got(store, id)
    assert known
    assert (known.confirmed, known.ttl, known.age) == (True, 300, 0)
    assert found(store) is None
    assert found(store, HOOK + "2") == known
    assert update(store, id, confirmed=False)
    assert update(store, id)
    store.clock.tick(300)
    assert got(store, id) is None


def test_a_subscriber_is_not_taken_over(store: Store) -> None:
    first, second = made(store), made(store, HOOK + "2")
    with pytest.raises(errors.SubscriberTaken, match=HOOK):
        update(store, second, subscriber=HOOK, ttl=5)
    known = got(store, second)
    assert known
    assert (known.subscriber, known.ttl) == (HOOK + "2", 600)
    assert update(store, first, subscriber=HOOK)
    delete(store, first)
    assert update(store, second, subscriber=HOOK)


def test_a_subscriber_whose_time_is_over_is_free(store: Store) -> None:
    made(store, ttl=60)
    second = made(store, HOOK + "2")
    store.clock.tick(60)
    assert update(store, second, subscriber=HOOK)
    known = found(store)
    assert known
    assert known.id == second


def test_deleting_is_idempotent(store: Store) -> None:
    id = made(store)
    for _ in range(2):
        delete(store, id)
        assert got(store, id) is None
    assert page(store).items == []
    assert made(store)


@pytest.mark.parametrize("id", STRANGE_IDS)
def test_an_id_that_was_never_given_is_of_nothing(store: Store, id: str) -> None:
    known = made(store)
    assert got(store, id) is None
    assert not update(store, id, ttl=5)
    delete(store, id)
    assert page(store, id).items in ([], [got(store, known)])


def test_a_deleted_queue_takes_its_subscriptions_along(store: Store) -> None:
    store.post("x")
    id = made(store)
    store.run(store.driver.queues.delete(store.project, "q"))
    store.post("x")
    assert got(store, id) is None
    assert page(store).items == []
    assert made(store)


def test_purging_messages_leaves_subscriptions(store: Store) -> None:
    store.post("x")
    id = made(store)
    store.run(store.driver.queues.purge(store.project, "q"))
    assert got(store, id)


def test_the_sweeper_forgets_those_that_ended(real: Store) -> None:
    real.reset()  # it sweeps what other tests have left, too
    real.create()
    (before,) = real.command("KEYS", "*")
    for number in range(250):
        made(real, f"{HOOK}/{number}", ttl=60)
    real.clock.tick(60)
    real.sweep(0)
    (after,) = real.command("KEYS", "*")
    assert sorted(after) == sorted(before)


def test_what_is_at_rest_fits_together(real: Store) -> None:
    real.reset()
    ids = [made(real, f"{HOOK}/{number}", ttl=60 + number) for number in range(40)]
    update(real, ids[5], subscriber=HOOK)
    delete(real, ids[6])
    real.clock.tick(70)
    made(real)
    assert findings(real) == []
    real.reset()
