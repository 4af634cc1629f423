# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient: queues, their metadata, stats, purge; ping, health, home."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest
from zaqarclient.transport import errors

from tests.clients.conftest import MakeClient, Post
from tests.support import servers

RESERVED = {
    "_max_messages_post_size": 262144,
    "_default_message_ttl": 3600,
    "_default_message_delay": 0,
    "_enable_encrypt_messages": False,
}


@pytest.fixture
def queue(queue: Any) -> Any:
    """The queue, created."""
    queue.ensure_exists(force_create=True)
    return queue


def names(listed: Any) -> list[str]:
    return [queue.name for queue in listed]


def test_name_with_a_dot_is_refused_by_the_client_but_not_by_the_service(
    zaqar: Any, two_workers: servers.RunningService, project: str, queue_name: str
) -> None:
    """doc/tutorial.md says so."""
    dotted = f"{queue_name}.dead"
    headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}
    created = httpx.put(f"{two_workers.url}/v2/queues/{dotted}", headers=headers)
    assert created.status_code == 201
    with pytest.raises(ValueError, match="letters, digits, underscores and dashes"):
        zaqar.queue(dotted)
    listed, _ = zaqar.queues()
    with pytest.raises(ValueError, match="letters, digits, underscores and dashes"):
        names(listed)


def test_ensure_exists_creates_the_queue_once(zaqar: Any, queue_name: str) -> None:
    queue = zaqar.queue(queue_name, auto_create=False)
    for _ in range(2):
        queue.ensure_exists(force_create=True)
        listed, _ = zaqar.queues()
        assert names(listed) == [queue_name]


def test_exists(queue: Any) -> None:
    assert queue.exists() is True


def test_a_deleted_queue_is_not_listed_and_can_be_deleted_again(queue: Any, zaqar: Any) -> None:
    queue.delete()
    queue.delete()
    listed, _ = zaqar.queues()
    assert names(listed) == []


def test_queues_are_paged_by_following_links(zaqar: Any) -> None:
    created = [f"queue-{n:02}" for n in range(23)]
    for name in created:
        zaqar.queue(name, force_create=True)

    first, count = zaqar.queues(limit=5, detailed=True, with_count=True)
    assert count == 23
    queues = list(first.stream())

    assert names(queues) == created
    assert [queue.href for queue in queues] == [f"/v2/queues/{name}" for name in created]
    assert all(queue.metadata_dict == RESERVED for queue in queues)


def test_without_streaming_one_page_is_listed(zaqar: Any) -> None:
    for n in range(4):
        zaqar.queue(f"queue-{n}", force_create=True)
    listed, count = zaqar.queues(limit=3)
    assert names(listed) == ["queue-0", "queue-1", "queue-2"]
    assert count is None


def test_queues_can_be_listed_from_a_marker(zaqar: Any) -> None:
    for n in range(4):
        zaqar.queue(f"queue-{n}", force_create=True)
    listed, _ = zaqar.queues(marker="queue-1")
    assert names(listed) == ["queue-2", "queue-3"]


def test_projects_do_not_see_each_other(make_client: MakeClient, project: str) -> None:
    ours = make_client()
    others = make_client({"os_project_id": f"{project}-other"})
    ours.queue("ours", force_create=True)
    others.queue("theirs", force_create=True)
    assert names(ours.queues()[0]) == ["ours"]
    assert names(others.queues()[0]) == ["theirs"]


def test_a_page_beyond_the_limit_is_refused_with_the_reason(zaqar: Any) -> None:
    with pytest.raises(errors.MalformedRequest, match="between 1 and 20"):
        zaqar.queues(limit=21)


def test_a_queue_without_metadata_shows_the_defaults(queue: Any) -> None:
    assert queue.metadata() == RESERVED


def test_new_metadata_replaces_all_of_the_old(queue: Any) -> None:
    queue.metadata({"colour": "red", "size": 3, "_default_message_ttl": 120})
    assert queue.metadata(force_reload=True) == RESERVED | {
        "colour": "red",
        "size": 3,
        "_default_message_ttl": 120,
    }

    # The client removes every key that it saw and that is not in the new metadata: ours and
    # the reserved ones.
    queue.metadata({"size": 4, "shape": {"sides": [1, 2]}})
    shown = RESERVED | {"size": 4, "shape": {"sides": [1, 2]}}
    assert queue.metadata() == shown
    assert queue.metadata(force_reload=True) == shown

    queue.metadata({})
    assert queue.metadata(force_reload=True) == RESERVED


def test_metadata_may_have_keys_with_slashes_and_tildes(queue: Any) -> None:
    # The client does not escape keys; its users must.
    queue.metadata({"a~1b": 1, "c~0d": 2})
    assert queue.metadata(force_reload=True) == RESERVED | {"a/b": 1, "c~d": 2}


def test_metadata_of_a_missing_queue_cannot_be_set(zaqar: Any, queue_name: str) -> None:
    with pytest.raises(errors.ResourceNotFound):
        zaqar.queue(queue_name, auto_create=False).metadata({"colour": "red"})


def test_wrong_metadata_is_refused_and_changes_nothing(queue: Any) -> None:
    queue.metadata({"colour": "red"})
    with pytest.raises(errors.MalformedRequest, match="_default_message_ttl"):
        queue.metadata({"colour": "blue", "_default_message_ttl": 1})
    assert queue.metadata(force_reload=True)["colour"] == "red"


def test_stats_count_free_and_claimed(queue: Any, queue_name: str, post_from_another: Post) -> None:
    assert queue.stats == {"messages": {"claimed": 0, "free": 0, "total": 0}}

    first, *_, last = post_from_another(5)
    claim = queue.claim(ttl=60, grace=60, limit=2)
    shown = queue.stats["messages"]
    assert len(list(claim)) == 2
    assert (shown["claimed"], shown["free"], shown["total"]) == (2, 3, 5)
    for end, id in (("oldest", first), ("newest", last)):
        assert sorted(shown[end]) == ["age", "created", "href"]
        assert shown[end]["href"] == f"/v2/queues/{queue_name}/messages/{id}"


@pytest.mark.parametrize("types", [None, ["messages"], ["messages", "subscriptions"]])
def test_purge_empties_the_queue_and_keeps_it(
    queue: Any, post_from_another: Post, types: list[str] | None
) -> None:
    queue.metadata({"colour": "red"})
    post_from_another(30)
    queue.claim(ttl=60, grace=60, limit=3)
    queue.purge(resource_types=types)
    assert queue.stats == {"messages": {"claimed": 0, "free": 0, "total": 0}}
    assert queue.metadata(force_reload=True)["colour"] == "red"


def test_purging_subscriptions_keeps_messages(queue: Any, post_from_another: Post) -> None:
    post_from_another(3)
    queue.purge(resource_types=["subscriptions"])
    assert queue.stats["messages"]["total"] == 3


def test_ping(zaqar: Any) -> None:
    assert zaqar.ping() is True


def test_health_tries_every_kind_of_operation(zaqar: Any) -> None:
    health = zaqar.health()
    assert health["storage_reachable"] is True
    assert set(health["operation_status"]) == {
        *("create_queue", "post_messages", "claim_messages", "list_messages", "delete_messages"),
        *("delete_claim", "bulk_delete_messages", "delete_queue"),
    }
    assert all(tried["succeeded"] for tried in health["operation_status"].values())


def test_the_home_document_names_the_resources(zaqar: Any) -> None:
    resources = zaqar.homedoc()["resources"]
    assert {"rel/queues", "rel/queue", "rel/messages", "rel/claim", "rel/health"} <= set(resources)
