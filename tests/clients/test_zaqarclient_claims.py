# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient: claims, dead letters."""

from __future__ import annotations

import time
from typing import Any

import pytest
from zaqarclient.transport import errors

from tests.clients.conftest import MakeClient, Post, bodies


def test_a_claim_without_ttl_and_grace_gets_the_defaults(
    queue: Any, post_from_another: Post
) -> None:
    # The client sends null for both.
    post_from_another(12)
    began = time.monotonic()
    claim = queue.claim()
    assert bodies(claim) == list(range(10))
    assert claim.ttl == 300
    assert 0 <= claim.age <= time.monotonic() - began + 1


def test_a_claim_takes_as_many_as_its_limit(queue: Any, post_from_another: Post) -> None:
    post_from_another(20)
    claims = [queue.claim(ttl=60, grace=60, limit=limit) for limit in (3, 1, 20)]
    assert [bodies(claim) for claim in claims] == [[0, 1, 2], [3], list(range(4, 20))]
    assert len({claim.id for claim in claims}) == 3


@pytest.mark.parametrize("created", [True, False])
def test_a_claim_on_a_queue_without_messages_is_empty(
    zaqar: Any, queue_name: str, created: bool
) -> None:
    claim = zaqar.queue(queue_name, force_create=created).claim(ttl=60, grace=60)
    assert list(claim) == []
    assert claim.id is None


def test_a_claim_is_found_by_its_id(
    make_client: MakeClient, queue: Any, queue_name: str, post_from_another: Post
) -> None:
    ids = post_from_another(3)
    claim = queue.claim(ttl=90, grace=60)

    found = make_client().queue(queue_name).claim(id=claim.id)
    messages = list(found)
    assert found.ttl == 90
    assert [message.id for message in messages] == ids
    assert all(message.claim_id == claim.id for message in messages)


def test_an_unknown_claim_is_not_found(queue: Any) -> None:
    with pytest.raises(errors.ResourceNotFound):
        list(queue.claim(id="no-such-claim"))


def test_a_claim_is_renewed(queue: Any, post_from_another: Post) -> None:
    post_from_another(1)
    claim = queue.claim(ttl=60, grace=60)
    claim.update(ttl=7200, grace=100)

    found = queue.claim(id=claim.id)
    (message,) = found
    assert found.ttl == 7200
    # The claim outlives the message's TTL of an hour: the message lives until the grace ends.
    assert message.ttl == 7300


def test_a_renewal_without_values_gets_the_defaults(queue: Any, post_from_another: Post) -> None:
    post_from_another(1)
    claim = queue.claim(ttl=60, grace=60)
    claim.update()
    found = queue.claim(id=claim.id)
    list(found)
    assert found.ttl == 300


@pytest.mark.parametrize("values", [{"ttl": 59}, {"ttl": 43201}, {"grace": 59}])
def test_wrong_values_are_refused(
    queue: Any, post_from_another: Post, values: dict[str, int]
) -> None:
    post_from_another(1)
    with pytest.raises(errors.MalformedRequest):
        queue.claim(**values)
    claim = queue.claim(ttl=60, grace=60)
    assert bodies(claim) == [0]
    with pytest.raises(errors.MalformedRequest):
        claim.update(**values)


def test_messages_of_a_released_claim_are_claimable_again(
    queue: Any, post_from_another: Post
) -> None:
    post_from_another(4)
    first = queue.claim(ttl=60, grace=60, limit=2)
    second = queue.claim(ttl=60, grace=60, limit=1)
    first.delete()
    first.delete()

    # But not the messages of the second claim.
    assert bodies(queue.claim(ttl=60, grace=60)) == [0, 1, 3]
    assert bodies(queue.claim(id=second.id)) == [2]
    with pytest.raises(errors.ResourceNotFound):
        list(queue.claim(id=first.id))


def test_claimed_messages_are_deleted_through_their_claim(
    queue: Any, post_from_another: Post
) -> None:
    post_from_another(3)
    claim = queue.claim(ttl=60, grace=60)
    for message in claim:
        message.delete()
    assert queue.stats["messages"]["total"] == 0


def test_a_claimed_message_is_not_deleted_without_its_claim(
    queue: Any, post_from_another: Post
) -> None:
    (id,) = post_from_another(1)
    free = queue.message(id)
    claim = queue.claim(ttl=60, grace=60)
    with pytest.raises(errors.ForbiddenError):
        free.delete()

    (held,) = claim
    claim.delete()
    with pytest.raises(errors.MalformedRequest):
        held.delete()
    free.delete()
    assert queue.stats["messages"]["total"] == 0


def test_messages_claimed_too_often_become_dead_letters(
    zaqar: Any, make_client: MakeClient, queue_name: str
) -> None:
    dead_letters = f"{queue_name}-dead"
    metadata = {
        "_max_claim_count": 2,
        "_dead_letter_queue": dead_letters,
        "_dead_letter_queue_messages_ttl": 700,
    }
    queue = zaqar.queue(queue_name, force_create=True)
    queue.metadata(new_meta=metadata)
    assert metadata.items() <= queue.metadata(force_reload=True).items()
    queue.post([{"body": "poison"}, {"body": "poison too"}])
    for _ in range(2):
        claim = queue.claim(ttl=60, grace=60)
        assert bodies(claim) == ["poison", "poison too"]
        claim.delete()

    assert bodies(queue.claim(ttl=60, grace=60)) == []
    assert queue.stats["messages"]["total"] == 0
    dead = list(zaqar.queue(dead_letters).messages(echo=True))
    assert bodies(dead) == ["poison", "poison too"]
    assert [message.ttl for message in dead] == [700, 700]
    assert bodies(make_client().queue(dead_letters).claim(ttl=60, grace=60)) == [
        "poison",
        "poison too",
    ]
