# SPDX-License-Identifier: Apache-2.0
"""python-zaqarclient: creation and use of pre-signed URLs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from zaqarclient.transport import errors

from tests.clients.conftest import MakeClient


def holder(make_client: MakeClient, shared: dict[str, Any]) -> Any:
    """A client with nothing but the shared document."""
    options = {name: shared[name] for name in ("expires", "methods", "paths", "signature")}
    return make_client(options | {"os_project_id": shared["project"]}, backend="signed-url")


def test_default_share_allows_reading_messages_for_a_day(
    make_client: MakeClient, queue: Any, queue_name: str, project: str
) -> None:
    queue.post({"body": "for the holder"})
    shared = queue.signed_url()
    assert shared["paths"] == [f"/v2/queues/{queue_name}/messages"]
    assert shared["methods"] == ["GET"]
    assert shared["project"] == project
    until = datetime.fromisoformat(shared["expires"]).replace(tzinfo=UTC)
    assert 23 * 3600 < (until - datetime.now(UTC)).total_seconds() <= 24 * 3600

    theirs = holder(make_client, shared).queue(queue_name, auto_create=False)
    (message,) = theirs.messages()
    assert message.body == "for the holder"
    assert theirs.message(message.id).body == "for the holder"


def test_requests_that_were_not_shared_are_refused(
    make_client: MakeClient, queue: Any, queue_name: str
) -> None:
    queue.post({"body": 1})
    shared = queue.signed_url(methods=["GET"])
    client = holder(make_client, shared)
    theirs = client.queue(queue_name, auto_create=False)
    with pytest.raises(errors.ResourceNotFound):
        theirs.post({"body": 2})
    with pytest.raises(errors.ResourceNotFound):
        theirs.claim(ttl=60, grace=60)
    with pytest.raises(errors.ResourceNotFound):
        client.queue(f"{queue_name}-2", auto_create=False).messages()
    with pytest.raises(errors.ResourceNotFound):
        client.queues()


def test_share_can_allow_all_that_a_worker_needs(
    make_client: MakeClient, queue: Any, queue_name: str
) -> None:
    # The client sends the expiry with microseconds.
    shared = queue.signed_url(
        paths=["messages", "claims"], ttl_seconds=600, methods=["GET", "POST", "PATCH", "DELETE"]
    )
    theirs = holder(make_client, shared).queue(queue_name, auto_create=False)
    theirs.post([{"body": "job"}])
    claim = theirs.claim(ttl=60, grace=60)
    claim.update(ttl=120)
    (message,) = claim
    message.delete()
    claim.delete()
    assert queue.stats["messages"]["total"] == 0


def test_changed_share_document_is_refused(
    make_client: MakeClient, queue: Any, queue_name: str, project: str
) -> None:
    queue.post({"body": 1})
    shared = queue.signed_url()
    for change in (
        {"methods": ["DELETE", "GET"]},
        {"paths": [f"/v2/queues/{queue_name}"]},
        {"project": f"{project}-other"},
        {"expires": "2999-01-01T00:00:00"},
        {"signature": "0" * 64},
    ):
        theirs = holder(make_client, shared | change).queue(queue_name, auto_create=False)
        with pytest.raises(errors.ResourceNotFound):
            theirs.messages()


def test_share_with_past_expiry_is_refused(queue: Any) -> None:
    with pytest.raises(errors.MalformedRequest):
        queue.signed_url(ttl_seconds=-60)
