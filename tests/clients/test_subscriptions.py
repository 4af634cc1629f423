# SPDX-License-Identifier: Apache-2.0
"""Subscriptions with python-zaqarclient and openstacksdk."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions
from openstack.message.v2 import _proxy
from openstack.message.v2 import subscription as subscriptions
from zaqarclient.transport import errors

HOOK = "http://example.org/hook"
#: The default of Heat's OS::Zaqar::Subscription.
HEAT_TTL = 220367260800


def test_zaqarclient_creates_shows_changes_and_deletes(zaqar: Any, queue_name: str) -> None:
    made = zaqar.subscription(queue_name, subscriber="mailto:a@example.org", ttl=600)
    assert (made.ttl, made.options, made.confirmed) == (600, {}, False)
    assert 0 <= made.age < 60
    made.update({"subscriber": "mailto:b@example.org", "ttl": 900, "options": {"subject": "x"}})
    found = zaqar.subscription(queue_name, id=made.id)
    assert (found.subscriber, found.ttl) == ("mailto:b@example.org", 900)
    assert found.options == {"subject": "x"}
    made.delete()
    with pytest.raises(errors.ResourceNotFound):
        zaqar.subscription(queue_name, id=made.id)


@pytest.mark.parametrize("options", [{}, {"MessagingKey": "value"}])
def test_zaqarclient_reads_the_options_that_it_gave(
    zaqar: Any, queue_name: str, options: dict[str, str]
) -> None:
    made = zaqar.subscription(queue_name, subscriber=HOOK, ttl=600, options=options)
    (listed,) = zaqar.subscriptions(queue_name)
    assert made.options == listed.options == options
    made.update({"options": {"test": "updated"}})
    assert zaqar.subscription(queue_name, id=made.id).options == {"test": "updated"}


def test_calls_of_heat_are_served(zaqar: Any, queue_name: str) -> None:
    """heat/engine/resources/openstack/zaqar/subscription.py: handle_create, handle_update, ..."""
    data = {"subscriber": HOOK, "ttl": HEAT_TTL, "options": None}
    id = zaqar.subscription(queue_name, **data).id
    found = zaqar.subscription(queue_name, id=id, auto_create=False)
    found.update(data | {"ttl": HEAT_TTL + 60})
    shown = vars(zaqar.subscription(queue_name, id=id))
    assert {name: shown[name] for name in ("queue_name", *data)} == {
        "queue_name": queue_name,
        "subscriber": HOOK,
        "ttl": HEAT_TTL + 60,
        "options": {},
    }
    found.delete()


def test_zaqarclient_lists_by_pages(zaqar: Any, queue_name: str) -> None:
    made = {
        zaqar.subscription(queue_name, subscriber=f"{HOOK}/{number}", ttl=600).id
        for number in range(7)
    }
    listed = zaqar.subscriptions(queue_name, limit=3)
    assert {each.id for each in listed} < made
    first = sorted(made)[0]
    zaqar.subscription(queue_name, id=first).update({"paused": True})
    found = [each for each in zaqar.queue(queue_name).subscriptions() if each.id == first]
    assert found[0].subscriber.startswith(HOOK)


def test_zaqarclient_subscribes_twice(zaqar: Any, queue_name: str) -> None:
    made = [zaqar.subscription(queue_name, subscriber=HOOK, ttl=600).id for _ in range(2)]
    assert made[0] == made[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_openstacksdk_creates_lists_shows_and_deletes(cloud: _proxy.Proxy, queue_name: str) -> None:
    made = [
        cloud.create_subscription(queue_name, subscriber=f"{HOOK}/{number}", ttl=600)
        for number in range(7)
    ]
    ids = sorted(each.subscription_id for each in made)
    assert [each.id for each in cloud.subscriptions(queue_name, limit=3)] == ids
    found = cloud.get_subscription(queue_name, ids[0])
    assert isinstance(found, subscriptions.Subscription)
    assert (found.source, found.ttl) == (queue_name, 600)
    cloud.delete_subscription(queue_name, ids[0])
    cloud.delete_subscription(queue_name, ids[0], ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_subscription(queue_name, ids[0])
    with pytest.raises(exceptions.BadRequestException):
        cloud.create_subscription(queue_name, subscriber="ftp://example.org/", ttl=600)
