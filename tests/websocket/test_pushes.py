# SPDX-License-Identifier: Apache-2.0
"""Messages that sockets get as they are posted."""

from __future__ import annotations

import uuid

import httpx

from tests.api.client import ZaqarTestClient
from tests.support import servers
from tests.support.backends import Backend
from tests.websocket import guarded_app
from tests.websocket.conftest import GuardedService, NewPeer
from tests.websocket.peers import ApiPeer, api_peer


def _subscribe(peer: ApiPeer, queue: str = "q", **body: object) -> str:
    created = peer.ask("subscription_create", queue_name=queue, **body)
    assert created.status == 201
    id: str = created.body["subscription_id"]
    return id


def _post(peer: ApiPeer, *bodies: object, queue: str = "q") -> None:
    messages = [{"body": body, "ttl": 300} for body in bodies]
    assert peer.ask("message_post", queue_name=queue, messages=messages).status == 201


def _post_seen(witness: ApiPeer, *bodies: object) -> None:
    """Posts as a subscriber of the queue, and returns when it has the pushes.

    All sockets of a worker get theirs at the same time.
    """
    messages = [{"body": body, "ttl": 300} for body in bodies]
    body = {"queue_name": "q", "messages": messages}
    witness.send({"action": "message_post", "headers": witness.headers, "body": body})
    frames = [witness.receive() for _ in (*bodies, "response")]
    assert [each["headers"]["status"] for each in frames if "request" in each] == [201]


def _pushes_before(peer: ApiPeer) -> tuple[list[object], int]:
    """Returns the bodies that are pushed before a response, and its status."""
    peer.send({"action": "queue_list", "headers": peer.headers})
    found = []
    while "request" not in (frame := peer.receive()):
        found.append(frame["body"])
    return found, frame["headers"]["status"]


def _subscriptions(peer: ApiPeer, queue: str = "q") -> list[str]:
    found = peer.ask("subscription_list", queue_name=queue).body["subscriptions"]
    return [each["id"] for each in found]


def test_subscriber_gets_messages_as_they_are_posted(
    service: servers.RunningService, peer: ApiPeer
) -> None:
    with api_peer(service, peer.project) as poster:
        _subscribe(peer)
        _post(poster, {"a": 1}, "b")
        pushes = [peer.receive(), peer.receive()]
        ids = [push.pop("id") for push in pushes]
        common = {"ttl": 300, "queue_name": "q", "Message_Type": "Notification"}
        assert pushes == [{"body": {"a": 1}} | common, {"body": "b"} | common]
        stored = poster.ask("message_list", queue_name="q", echo=True).body["messages"]
        assert [each["id"] for each in stored] == ids


def test_push_keeps_the_encoding_of_its_subscription(new_peer: NewPeer) -> None:
    peer = new_peer(binary=True)
    _subscribe(peer)
    peer.binary = False
    message = {"queue_name": "q", "messages": [{"body": 1, "ttl": 60}]}
    peer.send({"action": "message_post", "headers": peer.headers, "body": message})
    frames = [peer.socket.recv(60), peer.socket.recv(60)]
    assert sorted(isinstance(frame, bytes) for frame in frames) == [False, True]


def test_attributes_are_pushed_to_those_who_asked(new_peer: NewPeer) -> None:
    attributes = {"kind": "order", "price": 9.5, "photo": {"binary": "AP8="}}
    stock, one, two, poster = new_peer(), new_peer(), new_peer(binary=True), new_peer()
    _subscribe(stock)
    for peer in (one, two):
        _subscribe(peer, with_attributes=True)
    labelled = {"body": 1, "ttl": 60, "attributes": attributes, "group": "ann"}
    messages = [labelled, {"body": 2, "ttl": 60}]
    poster.ask("message_post", queue_name="q", messages=messages)
    for peer, expected in ((stock, None), (one, attributes), (two, attributes)):
        pushes = [peer.receive(), peer.receive()]
        assert [(each["body"], each.get("attributes")) for each in pushes] == [
            (1, expected),
            (2, None),
        ]
        assert [each.get("group") for each in pushes] == ["ann", None]


def test_exact_bodies_are_pushed_and_read_with_their_fields(new_peer: NewPeer) -> None:
    text = {"body": "a\r\0\U0001f600", "content_type": "text/plain"}
    octets = {"body": "AP8=", "content_type": "a/b", "body_encoding": "base64"}
    posted = [text, octets, {"body": "x"}]
    for peer in (new_peer(), new_peer(binary=True)):
        _subscribe(peer)
        messages = [each | {"ttl": 60} for each in posted]
        peer.send(
            {
                "action": "message_post",
                "headers": peer.headers,
                "body": {"queue_name": "q", "messages": messages},
            }
        )
        frames = [peer.receive() for _ in range(4)]
        shown = [each for each in frames if "request" not in each]
        listed = peer.ask("message_list", queue_name="q", echo=True).body["messages"]
        claimed = peer.ask("claim_create", queue_name="q", ttl=60, grace=60).body["messages"]
        for found in (shown, listed, claimed):
            fields = ("body", "content_type", "body_encoding")
            assert [
                {name: each[name] for name in fields if name in each} for each in found
            ] == posted
        wrong = [octets | {"body": "?"}]
        refused = peer.ask("message_post", queue_name="q", messages=wrong)
        assert refused.status == 400
        assert '"body" must be base64' in refused.body["error"]
        assert peer.ask("queue_delete", queue_name="q").status == 204


def test_sockets_get_what_their_filters_want(new_peer: NewPeer) -> None:
    orders = {"filter": {"attributes": {"kind": ["order"]}}}
    urgent = {"filter": {"body": {"urgent": [True]}}}
    first, second, third, poster = new_peer(), new_peer(binary=True), new_peer(), new_peer()
    _subscribe(first, options=orders)
    _subscribe(second, options=urgent)
    _subscribe(third)
    bodies = [{"n": 1, "urgent": True}, {"n": 2}, "3"]
    messages: list[dict[str, object]] = [{"body": each, "ttl": 60} for each in bodies]
    messages[1]["attributes"] = {"kind": "order"}
    assert poster.ask("message_post", queue_name="q", messages=messages).status == 201
    assert [third.receive()["body"] for _ in bodies] == bodies
    assert _pushes_before(first) == ([bodies[1]], 200)
    assert _pushes_before(second) == ([bodies[0]], 200)


def test_bad_filter_of_a_socket_is_refused(peer: ApiPeer) -> None:
    options = {"filter": {"colour": ["blue"]}}
    refused = peer.ask("subscription_create", queue_name="q", options=options)
    assert refused.status == 400
    assert "filter" in refused.body["error"]
    assert _subscriptions(peer) == []


def test_message_posted_over_rest_is_pushed_with_its_delay(
    service: servers.RunningService, project: str
) -> None:
    with api_peer(service, project) as peer, httpx.Client() as http:
        _subscribe(peer)
        body = {"messages": [{"body": "x", "ttl": 60, "delay": 5}]}
        rest = ZaqarTestClient(http, service.url, project)
        assert rest.request("POST", "/queues/q/messages", body).status_code == 201
        push = peer.receive()
        assert (push["body"], push["delay"]) == ("x", 5)


def test_two_sockets_get_the_messages_of_their_queues(new_peer: NewPeer, project: str) -> None:
    one, two, poster, stranger = (
        new_peer(),
        new_peer(binary=True),
        new_peer(),
        new_peer(f"{project}-other"),
    )
    for peer, queue in ((one, "a"), (one, "b"), (two, "b"), (stranger, "a")):
        _subscribe(peer, queue)
    for queue in ("a", "b"):
        _post(poster, queue, queue=queue)
    assert [one.receive()["body"] for _ in "ab"] == ["a", "b"]
    assert _pushes_before(two) == (["b"], 200)
    assert _pushes_before(stranger) == ([], 200)


def test_socket_subscribes_to_a_queue_once(
    text_peer: ApiPeer, service: servers.RunningService, project: str
) -> None:
    _subscribe(text_peer)
    assert text_peer.ask("subscription_create", queue_name="q").status == 409
    with api_peer(service, project) as witness:
        _subscribe(witness)
        _post_seen(witness, 1)
    assert _pushes_before(text_peer) == ([1], 200)


def test_deleted_subscription_pushes_no_more(new_peer: NewPeer) -> None:
    peer, witness = new_peer(), new_peer()
    _subscribe(witness)
    id = _subscribe(peer)
    peer.ask("subscription_delete", queue_name="q", subscription_id=id)
    _post_seen(witness, 1)
    assert _pushes_before(peer) == ([], 200)


def test_subscription_that_another_deletes_pushes_no_more(new_peer: NewPeer) -> None:
    peer, witness = new_peer(), new_peer()
    id = _subscribe(peer)
    _subscribe(witness)
    witness.ask("subscription_delete", queue_name="q", subscription_id=id)

    def is_over() -> bool:
        _post_seen(witness, 1)
        return _pushes_before(peer) == ([], 200)

    servers.wait_for(is_over, "the socket to notice")


def test_subscription_ends_with_its_socket(
    text_peer: ApiPeer, service: servers.RunningService, project: str
) -> None:
    with api_peer(service, project) as peer:
        id = _subscribe(peer)
        assert _subscriptions(text_peer) == [id]
    servers.wait_for(lambda: _subscriptions(text_peer) == [], "the subscription to end")


def test_subscriptions_of_a_socket_are_bounded(text_peer: ApiPeer) -> None:
    for number in range(100):
        _subscribe(text_peer, f"q{number}")
    refused = text_peer.ask("subscription_create", queue_name="one-more")
    assert (refused.status, _subscriptions(text_peer, "one-more")) == (400, [])


def test_encrypted_messages_are_pushed_until_the_service_stops(
    redis_server: Backend, service: servers.RunningService, project: str
) -> None:
    options = {"transport": {"message_encryption_key": "k" * 32}}
    with (
        servers.service(redis_server.uri, options=options) as encrypting,
        api_peer(encrypting, project) as peer,
    ):
        peer.ask("queue_create", queue_name="q", metadata={"_enable_encrypt_messages": True})
        _subscribe(peer)
        with api_peer(encrypting, project) as poster:
            _post(poster, "secret")
        assert peer.receive()["body"] == "secret"
        encrypting.process.terminate()
        assert peer.expect_close()[0] == 1012
        encrypting.process.wait(60)
    with api_peer(service, project) as observer:
        assert _subscriptions(observer) == []


def test_subscriptions_end_when_the_socket_authenticates_as_somebody_else(
    guarded: GuardedService, project: str, member: str
) -> None:
    other = f"{project}-other"
    guarded.put(f"{member}-other", other, "member")
    with api_peer(guarded.running, project) as peer, api_peer(guarded.running, project) as witness:
        for each in (peer, witness):
            each.ask("authenticate", {"X-Auth-Token": member})
            _subscribe(each)
        peer.ask("authenticate", {"X-Auth-Token": member})
        _post_seen(witness, 1)
        assert _pushes_before(peer) == ([1], 200)
        peer.ask("authenticate", {"X-Auth-Token": f"{member}-other"})
        _post_seen(witness, 2)
        peer.headers["X-Project-ID"] = other
        assert _pushes_before(peer) == ([], 200)
        assert len(_subscriptions(witness)) == 1


def test_subscriptions_end_when_the_same_user_authenticates_with_less(
    guarded: GuardedService, project: str
) -> None:
    token = f"token-{uuid.uuid4()}"
    guarded.put(token, project, "member")
    credential = {"X-Auth-Token": token}
    with api_peer(guarded.running, project) as peer:
        assert peer.ask("authenticate", credential).status == 200
        id = _subscribe(peer)
        assert peer.ask("authenticate", credential).status == 200
        assert _subscriptions(peer) == [id]
        guarded.put(token, project, "reader")

        def has_less() -> bool:
            return peer.ask("queue_create", queue_name="other").status == 403

        servers.wait_for(has_less, "the roles to change")
        assert peer.ask("authenticate", credential).status == 200
        assert _subscriptions(peer) == []


def test_nothing_is_pushed_while_nobody_can_tell_whether_the_token_is_valid(
    guarded: GuardedService, project: str, member: str
) -> None:
    guarded.put(f"{member}-witness", project, "member")
    with api_peer(guarded.running, project) as peer, api_peer(guarded.running, project) as witness:
        for each, token in ((peer, member), (witness, f"{member}-witness")):
            each.ask("authenticate", {"X-Auth-Token": token})
            _subscribe(each)

        def is_pushed() -> bool:
            _post_seen(witness, 1)
            return _pushes_before(peer)[0] == [1]

        assert is_pushed()
        guarded.put(member, guarded_app.UNKNOWN)
        servers.wait_for(lambda: not is_pushed(), "the socket to hold its pushes back")
        guarded.put(member, project, "member")
        servers.wait_for(is_pushed, "the socket to push again")
