# SPDX-License-Identifier: Apache-2.0
"""Messages of a queue reach a webhook by the process that delivers, with its options."""

from __future__ import annotations

import json

from tests.notify.deliveries import subscribe
from tests.support import servers
from tests.support.notifiers import notifier
from tests.support.receivers import AnsweringEndpoint
from tests.support.stores import opened

#: of `AnsweringEndpoint`
OPTIONS = {"notification": {"allowed_networks": "127.0.0.0/8"}}


def test_messages_reach_a_webhook_in_a_network_that_the_operator_allows(
    receiver: AnsweringEndpoint, project: str
) -> None:
    with servers.redis_server() as server, opened(server.uri, project) as store:
        store.create_for_processes()
        subscribe(store, receiver.uri)
        store.post("a", "b")
        with notifier(server.uri, OPTIONS):
            servers.wait_for(lambda: len(receiver.got) == 2, "both messages")
    expected = [
        {"body": body, "ttl": 3600, "Message_Type": "Notification", "queue_name": "q"}
        for body in "ab"
    ]
    assert sorted(receiver.documents(), key=str) == sorted(expected, key=str)


def test_batch_and_its_messages_by_themselves_have_different_webhook_ids(
    receiver: AnsweringEndpoint, project: str
) -> None:
    # A receiver that has recorded the id of a batch must not take a part of it for done.
    receiver.status_of = lambda body: 400 if len(json.loads(body)["messages"]) > 1 else 204

    def delivered() -> list[str]:
        batches = [document["messages"] for document in receiver.documents()]
        return [messages[0]["body"] for messages in batches if len(messages) == 1]

    with servers.redis_server() as server, opened(server.uri, project) as store:
        store.create_for_processes()
        subscribe(store, receiver.uri, batch=10, ordered=True)
        store.post("a", "b", "c")
        with notifier(server.uri, OPTIONS):
            servers.wait_for(lambda: len(delivered()) == 3, "all messages", 20)
    assert delivered() == ["a", "b", "c"]
    ids = [headers["webhook-id"] for headers, _ in receiver.got]
    assert len(ids) > 3
    assert len(set(ids)) == len(ids)
