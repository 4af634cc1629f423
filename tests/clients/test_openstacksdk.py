# SPDX-License-Identifier: Apache-2.0
"""openstacksdk: ``openstack.message.v2`` for queues, messages and claims."""

from __future__ import annotations

import uuid

import pytest
from openstack import exceptions
from openstack.message.v2 import _proxy
from openstack.message.v2 import claim as claims
from openstack.message.v2 import message as messages
from openstack.message.v2 import queue as queues

from tests.clients.conftest import bodies

#: The SDK emits deprecation warnings of its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


def post(cloud: _proxy.Proxy, queue: str, count: int) -> list[str]:
    hrefs = cloud.post_message(queue, [{"body": n, "ttl": 300} for n in range(count)])
    return [href.rsplit("/", 1)[1] for href in hrefs]


def claim_messages(cloud: _proxy.Proxy, queue: str, **attributes: int) -> claims.Claim:
    # As cloud.create_claim(), but without the connection: with it the SDK replaces the
    # Location header, from which it reads the claim's id, by a location of its own.
    return claims.Claim.new(queue_name=queue, **attributes).create(cloud)


def test_a_queue_is_created_with_its_attributes(cloud: _proxy.Proxy, queue_name: str) -> None:
    made = cloud.create_queue(
        name=queue_name,
        description="what comes in",
        default_message_ttl=500,
        max_messages_post_size=1000,
    )
    assert made.id == queue_name
    found = cloud.get_queue(queue_name)
    assert isinstance(found, queues.Queue)
    assert found.description == "what comes in"
    assert found.default_message_ttl == 500
    assert found.max_messages_post_size == 1000
    assert found.name == queue_name


def test_a_queue_may_be_created_twice(cloud: _proxy.Proxy, queue_name: str) -> None:
    cloud.create_queue(name=queue_name)
    cloud.create_queue(name=queue_name)
    assert [queue.name for queue in cloud.queues()] == [queue_name]


def test_names_may_have_dots(cloud: _proxy.Proxy, queue_name: str) -> None:
    cloud.create_queue(name=f"{queue_name}.dead")
    assert [queue.name for queue in cloud.queues()] == [f"{queue_name}.dead"]


def test_wrong_attributes_are_refused(cloud: _proxy.Proxy, queue_name: str) -> None:
    with pytest.raises(exceptions.BadRequestException):
        cloud.create_queue(name=queue_name, default_message_ttl=59)
    assert list(cloud.queues()) == []


@pytest.mark.parametrize("limit", [None, 1, 4, 8])
def test_queues_are_paged_by_their_names(cloud: _proxy.Proxy, limit: int | None) -> None:
    made = [f"queue-{n:02}" for n in range(17)]
    for name in made:
        cloud.create_queue(name=name)
    query = {} if limit is None else {"limit": limit}
    assert [queue.name for queue in cloud.queues(**query)] == made


def test_a_queue_is_deleted(cloud: _proxy.Proxy, queue_name: str) -> None:
    cloud.create_queue(name=queue_name)
    cloud.delete_queue(queue_name)
    cloud.delete_queue(queue_name, ignore_missing=False)
    assert list(cloud.queues()) == []


def test_messages_are_posted_and_found(cloud: _proxy.Proxy, queue_name: str) -> None:
    hrefs = cloud.post_message(
        queue_name, [{"body": {"n": 1}, "ttl": 120}, {"body": "text", "ttl": 60}]
    )
    assert all(href.startswith(f"/v2/queues/{queue_name}/messages/") for href in hrefs)
    found = cloud.get_message(queue_name, hrefs[0].rsplit("/", 1)[1])
    assert isinstance(found, messages.Message)
    assert (found.body, found.ttl, found.href) == ({"n": 1}, 120, hrefs[0])


@pytest.mark.parametrize("limit", [None, 1, 6, 20])
def test_messages_are_paged_by_their_ids(
    cloud: _proxy.Proxy, queue_name: str, limit: int | None
) -> None:
    ids = post(cloud, queue_name, 23)
    query = {} if limit is None else {"limit": limit}
    listed = list(cloud.messages(queue_name, **query))
    assert [message.id for message in listed] == ids
    assert bodies(listed) == list(range(23))


def test_paging_continues_although_messages_are_deleted_meanwhile(
    cloud: _proxy.Proxy, queue_name: str
) -> None:
    post(cloud, queue_name, 11)
    seen = []
    for message in cloud.messages(queue_name, limit=3):
        seen.append(message.body)
        cloud.delete_message(queue_name, message)
    assert seen == list(range(11))


def test_own_messages_are_hidden_without_echo(cloud: _proxy.Proxy, queue_name: str) -> None:
    me = str(uuid.uuid4())
    mine = messages.Message.new(queue_name=queue_name, client_id=me)
    mine.post(cloud, [{"body": "mine", "ttl": 60}])
    assert bodies(cloud.messages(queue_name, client_id=me)) == []
    assert bodies(cloud.messages(queue_name, client_id=me, echo=True)) == ["mine"]


def test_claimed_messages_are_listed_with_include_claimed(
    cloud: _proxy.Proxy, queue_name: str
) -> None:
    post(cloud, queue_name, 13)
    claim_messages(cloud, queue_name, ttl=60, grace=60)
    assert bodies(cloud.messages(queue_name)) == [10, 11, 12]
    assert bodies(cloud.messages(queue_name, include_claimed=True, limit=4)) == list(range(13))


def test_a_message_is_deleted(cloud: _proxy.Proxy, queue_name: str) -> None:
    (id,) = post(cloud, queue_name, 1)
    cloud.delete_message(queue_name, id)
    cloud.delete_message(queue_name, id, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_message(queue_name, id)


def test_messages_are_claimed_renewed_and_released(cloud: _proxy.Proxy, queue_name: str) -> None:
    post(cloud, queue_name, 3)
    claim = claim_messages(cloud, queue_name, ttl=600, grace=100)
    assert [message["body"] for message in claim.messages] == [0, 1, 2]

    found = cloud.get_claim(queue_name, claim.id)
    assert isinstance(found, claims.Claim)
    assert found.ttl == 600
    assert [message["body"] for message in found.messages] == [0, 1, 2]

    cloud.update_claim(queue_name, claim.id, ttl=1200, grace=60)
    assert cloud.get_claim(queue_name, claim.id).ttl == 1200

    cloud.delete_claim(queue_name, claim.id)
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_claim(queue_name, claim.id)
    assert bodies(cloud.messages(queue_name)) == [0, 1, 2]


def test_a_claim_without_lease_gets_the_defaults(cloud: _proxy.Proxy, queue_name: str) -> None:
    post(cloud, queue_name, 1)
    claim = claim_messages(cloud, queue_name)
    assert cloud.get_claim(queue_name, claim.id).ttl == 300


def test_a_limit_in_the_body_of_a_claim_is_ignored(cloud: _proxy.Proxy, queue_name: str) -> None:
    # In the API the limit of a claim is a query parameter; the SDK puts it into the body.
    post(cloud, queue_name, 12)
    claim = claim_messages(cloud, queue_name, ttl=60, grace=60, limit=3)
    assert len(claim.messages) == 10


def test_a_claim_without_messages_has_no_id(cloud: _proxy.Proxy, queue_name: str) -> None:
    claim = cloud.create_claim(queue_name, ttl=60, grace=60)
    assert claim.id is None
    assert not claim.messages


def test_a_claimed_message_is_deleted_through_its_claim(
    cloud: _proxy.Proxy, queue_name: str
) -> None:
    first, second = post(cloud, queue_name, 2)
    claim = claim_messages(cloud, queue_name, ttl=60, grace=60)
    with pytest.raises(exceptions.ForbiddenException):
        cloud.delete_message(queue_name, first)
    cloud.delete_message(queue_name, first, claim.id)
    # The SDK accepts the claim object as well.
    cloud.delete_message(queue_name, second, claim)  # type: ignore[arg-type]  # the SDK says str
    assert list(cloud.messages(queue_name, include_claimed=True)) == []
    assert cloud.get_claim(queue_name, claim.id).messages == []
