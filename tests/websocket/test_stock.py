# SPDX-License-Identifier: Apache-2.0
"""The same requests to stock Zaqar's server, and to ours."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import servers
from tests.websocket import stock_server
from tests.websocket.peers import ApiPeer, api_peer


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.RunningService]:
    """Stock Zaqar's WebSocket server, with its own driver."""
    log: Path = tmp_path_factory.mktemp("stock") / "server.log"
    port = servers.free_port()
    with servers.redis_server() as redis:
        words = [stock_server.__name__, f"redis:{redis.socket}?socket_timeout=10", str(port)]
        process = servers.start_logged([sys.executable, "-m", *words], log)

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        try:
            servers.wait_for(listens, "stock Zaqar to start")
            yield servers.RunningService(process, port, log)
        finally:
            process.kill()
            process.wait()


def _shape(value: Any) -> Any:
    """Returns a document without what differs from one service to the next."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return value if isinstance(value, bool) or value is None else type(value).__name__


def _story(peer: ApiPeer) -> Iterator[tuple[str, int, Any]]:
    """Yields the status and the shape of the body of each response."""

    def ask(action: str, /, **body: Any) -> Any:
        status, found = peer.ask(action, **body)
        errors = status >= 400 and status != 409 and "messages" not in found
        said.append((action, status, sorted(found) if errors else _shape(found)))
        return found

    said: list[tuple[str, int, Any]] = []
    q, message = {"queue_name": "q"}, {"body": {"a": 1}, "ttl": 300}
    ask("queue_list")
    ask("queue_get", **q)
    ask("queue_get_stats", **q)
    ask("queue_create", **q, metadata={"a": {"b": 1}})
    ask("queue_create", **q)
    ask("queue_get", **q)
    ask("queue_list", detailed=True)
    ids = ask("message_post", **q, messages=[message] * 4)["message_ids"]
    ask("queue_get_stats", **q)
    ask("message_list", **q)
    ask("message_list", **q, echo=True, limit=2)
    ask("message_get", **q, message_id=ids[0])
    ask("message_get", **q, message_id="none")
    ask("message_get_many", **q, message_ids=ids)
    claim = ask("claim_create", **q, limit=1, ttl=100, grace=60)["claim_id"]
    ask("claim_get", **q, claim_id=claim)
    ask("claim_update", **q, claim_id=claim, ttl=100, grace=60)
    ask("message_delete", **q, message_id=ids[0])
    ask("message_delete", **q, message_id=ids[0], claim_id=claim)
    ask("claim_delete", **q, claim_id=claim)
    ask("claim_get", **q, claim_id=claim)
    ask("message_delete_many", **q, message_ids=ids[1:2])
    ask("message_delete_many", **q, pop=1)
    ask("message_delete_many", **q, pop=0)
    ask("message_post", **q, messages=[{"body": 1, "ttl": 1}])
    ask("message_list", **q, limit=0)
    ask("queue_purge", **q)
    ask("claim_create", **q)
    uri = "mailto:a@example.org"  # webhooks get a secret, which stock has not
    subscription = ask("subscription_create", **q, subscriber=uri, ttl=600)["subscription_id"]
    ask("subscription_create", **q, subscriber=uri)
    ask("subscription_list", **q)
    ask("subscription_get", **q, subscription_id=subscription)
    ask("subscription_create", **q, subscriber="ftp://example.org/")
    ask("subscription_delete", **q, subscription_id=subscription)
    ask("subscription_get", **q, subscription_id=subscription)
    ask("subscription_create", **q)
    ask("queue_delete", **q)
    ask("nothing")
    yield from said


def _end(**more: Any) -> dict[str, Any]:
    return {"id": "str", "age": "int", "created": "str", **more}


_COUNTS = dict.fromkeys(("claimed", "free", "total"), "int")
_POPPED = {"id": "str", "age": "int", "ttl": "int", "body": {"a": "int"}, "claim_count": "int"}
_WHOLE = _end(ttl="int", body={"a": "int"}, claim_id=None, claim_count="int")
#: What differs on purpose: stock's status and shape, and ours.
DIFFERENT = {
    # Counts are not to tell what is in the messages.
    "queue_get_stats": (
        (200, {"messages": _COUNTS | {"oldest": _WHOLE, "newest": _WHOLE}}),
        (200, {"messages": _COUNTS | {"oldest": _end(), "newest": _end()}}),
    ),
    # Once it is deleted no claim holds it.
    "message_delete_many": (
        (200, {"messages": [_POPPED | {"claim_id": "str"}]}),
        (200, {"messages": [_POPPED | {"claim_id": None}]}),
    ),
    # Stock names a claim that does not exist.
    "claim_create": ((204, {"claim_id": "str"}), (204, {"claim_id": None})),
    # The scheme is the client's mistake.
    "subscription_create": ((500, ["error", "exception"]), (400, ["error", "exception"])),
}


@pytest.mark.parametrize("binary", [False, True])
def test_responses_have_the_statuses_and_shapes_of_stock_zaqar(
    stock: servers.RunningService, service: servers.RunningService, project: str, binary: bool
) -> None:
    told = []
    for each in (stock, service):
        with api_peer(each, project, binary=binary, path="/") as peer:
            told.append(list(_story(peer)))
    theirs, ours = told
    different = [
        (one[0], (one[1:], other[1:]))
        for one, other in zip(theirs, ours, strict=True)
        if one != other
    ]
    assert different == list(DIFFERENT.items())
