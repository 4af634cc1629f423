# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient: posting, reading, deleting and popping messages."""

from __future__ import annotations

from typing import Any

import pytest
from zaqarclient.transport import errors

from tests.clients.conftest import MakeClient, Post, bodies


def test_one_message_is_posted_and_read_by_its_id(queue: Any) -> None:
    body = {"event": "Übertragung", "parts": [1, 2.5, None, True]}
    answer = queue.post({"body": body, "ttl": 120})
    (href,) = answer["resources"]

    message = queue.message(href.rsplit("/", 1)[1])
    assert message.body == body
    assert message.ttl == 120
    assert message.href == href
    assert message.id == href.rsplit("/", 1)[1]
    assert message.age >= 0
    assert message.claim_id is None
    assert message.checksum is None


def test_a_list_of_messages_is_posted_in_order(queue: Any) -> None:
    answer = queue.post([{"body": n} for n in range(12)])
    ids = [href.rsplit("/", 1)[1] for href in answer["resources"]]
    assert bodies(queue.messages(*ids)) == list(range(12))


def test_own_messages_are_hidden_without_echo(queue: Any) -> None:
    queue.post([{"body": "mine"}])
    assert bodies(queue.messages()) == []
    assert bodies(queue.messages(echo=True)) == ["mine"]


@pytest.mark.parametrize("limit", [1, 4, 7])
def test_messages_are_paged_by_following_links(
    queue: Any, post_from_another: Post, limit: int
) -> None:
    post_from_another(21)
    listed = queue.messages(limit=limit).stream()
    assert bodies(listed) == list(range(21))


def test_pages_skip_hidden_messages(make_client: MakeClient, queue: Any, queue_name: str) -> None:
    # More consecutive hidden messages than fit a page.
    queue.post([{"body": f"own {n}"} for n in range(9)])
    make_client().queue(queue_name).post([{"body": "other"}])
    queue.post([{"body": "own, last"}])
    assert bodies(queue.messages(limit=2).stream()) == ["other"]


def test_paging_continues_although_messages_were_deleted(
    queue: Any, post_from_another: Post
) -> None:
    post_from_another(9)
    seen = []
    for message in queue.messages(limit=2).stream():
        seen.append(message.body)
        message.delete()
    assert seen == list(range(9))
    assert queue.stats["messages"]["total"] == 0


def test_a_marker_is_the_id_of_a_message(queue: Any, post_from_another: Post) -> None:
    ids = post_from_another(5)
    assert bodies(queue.messages(marker=ids[2])) == [3, 4]


def test_claimed_messages_are_listed_with_include_claimed(
    queue: Any, post_from_another: Post
) -> None:
    post_from_another(8)
    claim = queue.claim(ttl=60, grace=60, limit=5)
    assert bodies(queue.messages()) == [5, 6, 7]
    listed = list(queue.messages(include_claimed=True, limit=3).stream())
    assert bodies(listed) == list(range(8))
    assert [message.claim_id for message in listed] == [claim.id] * 5 + [None] * 3


def test_delayed_messages_are_listed_with_include_delayed(
    make_client: MakeClient, zaqar: Any, queue_name: str
) -> None:
    queue = zaqar.queue(queue_name, force_create=True)
    queue.metadata({"_default_message_delay": 600})
    make_client().queue(queue_name).post([{"body": "now", "delay": 0}, {"body": "later"}])
    assert bodies(queue.messages()) == ["now"]
    assert bodies(queue.messages(include_delayed=True)) == ["now", "later"]
    assert bodies(queue.claim(ttl=60, grace=60)) == ["now"]


def test_a_missing_message_is_not_found(queue: Any) -> None:
    (href,) = queue.post({"body": 1})["resources"]
    id = href.rsplit("/", 1)[1]
    queue.message(id).delete()
    with pytest.raises(errors.ResourceNotFound):
        queue.message(id)
    with pytest.raises(errors.ResourceNotFound):
        queue.messages(id, "no-such-message")


def test_deletion_of_a_message_is_idempotent(queue: Any) -> None:
    queue.post([{"body": 1}, {"body": 2}])
    first, _ = queue.messages(echo=True)
    first.delete()
    first.delete()
    assert bodies(queue.messages(echo=True)) == [2]


def test_many_messages_are_deleted_by_their_ids(queue: Any, post_from_another: Post) -> None:
    ids = post_from_another(20)
    queue.delete_messages(*ids[:15], ids[0])
    assert bodies(queue.messages()) == [15, 16, 17, 18, 19]


def test_popped_messages_are_gone(queue: Any, post_from_another: Post) -> None:
    post_from_another(7)
    assert bodies(queue.pop()) == [0]
    popped = list(queue.pop(4))
    assert bodies(popped) == [1, 2, 3, 4]
    assert all(message.id for message in popped)
    assert bodies(queue.messages()) == [5, 6]
    assert bodies(queue.pop(20)) == [5, 6]
    assert bodies(queue.pop(20)) == []


def test_a_claimed_message_is_not_popped(queue: Any, post_from_another: Post) -> None:
    post_from_another(3)
    queue.claim(ttl=60, grace=60, limit=1)
    assert bodies(queue.pop(20)) == [1, 2]


@pytest.mark.parametrize(
    "message",
    [
        {"body": 1, "ttl": 59},
        {"body": 1, "ttl": 1209601},
        {"body": 1, "ttl": "300"},
        {"body": 1, "delay": 901},
        {"ttl": 60},
        "no object",
    ],
)
def test_a_wrong_message_is_refused_and_none_is_posted(queue: Any, message: object) -> None:
    with pytest.raises(errors.MalformedRequest):
        queue.post([{"body": "right"}, message])
    assert bodies(queue.messages(echo=True)) == []


def test_a_post_without_messages_is_refused(queue: Any) -> None:
    with pytest.raises(errors.MalformedRequest):
        queue.post([])


def test_post_size_limit_of_the_queue_applies(zaqar: Any, queue_name: str) -> None:
    queue = zaqar.queue(queue_name, force_create=True)
    queue.metadata({"_max_messages_post_size": 100})
    queue.post({"body": "x" * 50})
    with pytest.raises(errors.MalformedRequest):
        queue.post({"body": "x" * 100})
