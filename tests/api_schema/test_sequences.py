# SPDX-License-Identifier: Apache-2.0
"""Sequences of requests that build on each other, checked against the description.

Random requests hardly ever name a message or a claim that exists; these do.
"""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.api_schema import description
from tests.api_schema.test_conformance import CHECKS
from tests.support import servers

SCHEMA = description.schema()
QUEUE = "/v2/queues/{queue}"
PATCH = "application/openstack-messaging-v2.0-json-patch"

BODIES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"body": BODIES},
        optional={"ttl": st.integers(60, 1209600), "delay": st.integers(0, 900)},
    ),
    min_size=1,
    max_size=5,
)
CHANGES = st.dictionaries(
    st.sampled_from(["_default_message_delay", "_max_claim_count", "colour"]),
    st.integers(0, 900),
    min_size=1,
)
CLAIM = st.fixed_dictionaries(
    {}, optional={"ttl": st.integers(60, 43200), "grace": st.integers(60, 43200)}
)


class CheckingClient:
    """A client in a project of its own that checks every response."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": f"talk-{uuid.uuid4()}"}

    def __call__(self, method: str, path: str, body: Any = None, **parameters: Any) -> Any:
        inside: dict[str, Any] = {"queue": "talk"}
        inside |= {
            name: parameters.pop(name) for name in ("message", "claim") if name in parameters
        }
        given: dict[str, Any] = {} if body is None else {"body": body}
        media = PATCH if method == "PATCH" and path == QUEUE else "application/json"
        case = SCHEMA[path][method].Case(
            path_parameters=inside,
            headers=self.headers,
            query=parameters,
            media_type=media,
            **given,
        )
        return case.call_and_validate(base_url=self.url, checks=CHECKS)


class RequestSequence(RuleBasedStateMachine):
    """Requests of one client to two queues; the second gets the dead letters of the first."""

    url: str

    messages = Bundle("messages")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.ask = CheckingClient(self.url)

    @rule(encrypted=st.booleans())
    def create(self, encrypted: bool) -> None:
        metadata = {"_dead_letter_queue": "letters", "_enable_encrypt_messages": encrypted}
        assert self.ask("PUT", QUEUE, metadata).status_code in (201, 204)

    @rule(changes=CHANGES)
    def patch(self, changes: dict[str, int]) -> None:
        operations = [
            {"op": "add", "path": f"/metadata/{key}", "value": value}
            for key, value in changes.items()
        ]
        assert self.ask("PATCH", QUEUE, operations).status_code in (200, 404)

    @initialize(target=messages, posted=MESSAGES, encrypted=st.booleans())
    def begin(self, posted: list[Any], encrypted: bool) -> Any:
        self.create(encrypted)
        return self.post(posted)

    @rule(target=messages, posted=MESSAGES)
    def post(self, posted: list[Any]) -> Any:
        answer = self.ask("POST", f"{QUEUE}/messages", {"messages": posted})
        assert answer.status_code == 201
        return multiple(*(href.rsplit("/", 1)[1] for href in answer.json()["resources"]))

    @rule(
        flags=st.fixed_dictionaries(
            {},
            optional={
                "echo": st.booleans(),
                "include_claimed": st.booleans(),
                "include_delayed": st.booleans(),
                "limit": st.integers(1, 20),
            },
        )
    )
    def list_messages(self, flags: dict[str, Any]) -> None:
        assert self.ask("GET", f"{QUEUE}/messages", **flags).status_code == 200

    @rule(ids=st.lists(messages, min_size=1, max_size=20))
    def get_many(self, ids: list[str]) -> None:
        assert self.ask("GET", f"{QUEUE}/messages", ids=ids).status_code in (200, 404)

    @rule(message=messages)
    def get_message(self, message: str) -> None:
        path = f"{QUEUE}/messages/{{message}}"
        assert self.ask("GET", path, message=message).status_code in (200, 404)

    @rule(message=messages)
    def delete_message(self, message: str) -> None:
        path = f"{QUEUE}/messages/{{message}}"
        assert self.ask("DELETE", path, message=message).status_code in (204, 403)

    @rule(message=messages, claim=claims)
    def delete_claimed(self, message: str, claim: str) -> None:
        path = f"{QUEUE}/messages/{{message}}"
        answer = self.ask("DELETE", path, message=message, claim_id=claim)
        assert answer.status_code in (204, 400, 403)

    @rule(ids=st.lists(messages, min_size=1, max_size=20))
    def delete_many(self, ids: list[str]) -> None:
        assert self.ask("DELETE", f"{QUEUE}/messages", ids=ids).status_code == 204

    @rule(most=st.integers(1, 20))
    def pop(self, most: int) -> None:
        assert self.ask("DELETE", f"{QUEUE}/messages", pop=most).status_code == 200

    @rule(target=claims, wanted=CLAIM, limit=st.integers(1, 20))
    def claim(self, wanted: dict[str, int], limit: int) -> Any:
        answer = self.ask("POST", f"{QUEUE}/claims", wanted, limit=limit)
        assert answer.status_code in (201, 204)
        if answer.status_code == 204:
            return multiple()
        return answer.headers["location"][0].rsplit("/", 1)[1]

    @rule(claim=claims)
    def get_claim(self, claim: str) -> None:
        path = f"{QUEUE}/claims/{{claim}}"
        assert self.ask("GET", path, claim=claim).status_code in (200, 404)

    @rule(claim=claims, wanted=CLAIM)
    def renew(self, claim: str, wanted: dict[str, int]) -> None:
        path = f"{QUEUE}/claims/{{claim}}"
        assert self.ask("PATCH", path, wanted, claim=claim).status_code in (204, 404)

    @rule(claim=consumes(claims))
    def release(self, claim: str) -> None:
        assert self.ask("DELETE", f"{QUEUE}/claims/{{claim}}", claim=claim).status_code == 204

    @rule()
    def look(self) -> None:
        assert self.ask("GET", QUEUE).status_code == 200
        assert self.ask("GET", f"{QUEUE}/stats").status_code == 200
        assert self.ask("GET", "/v2/queues", detailed=True, with_count=True).status_code == 200

    @rule(
        # Rare, so that the queue mostly has messages.
        message=consumes(messages),
        types=st.sets(st.sampled_from(["messages", "subscriptions"])),
    )
    def purge(self, message: str, types: set[str]) -> None:
        answer = self.ask("POST", f"{QUEUE}/purge", {"resource_types": sorted(types)})
        assert answer.status_code == 204

    @rule(message=consumes(messages), claim=consumes(claims))
    def delete(self, message: str, claim: str) -> None:
        assert self.ask("DELETE", QUEUE).status_code == 204


def test_random_request_sequences_conform_to_schema(described: servers.RunningService) -> None:
    RequestSequence.url = described.url
    run_state_machine_as_test(
        RequestSequence,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_message_lifecycle_conforms_to_schema(described: servers.RunningService) -> None:
    ask = CheckingClient(described.url)
    item, claim_item = f"{QUEUE}/messages/{{message}}", f"{QUEUE}/claims/{{claim}}"

    def status(method: str, path: str, body: Any = None, **parameters: Any) -> int:
        return int(ask(method, path, body, **parameters).status_code)

    assert status("PUT", QUEUE, {"colour": "red"}) == 201
    assert status("PUT", QUEUE, {"colour": "red"}) == 204
    assert status("POST", f"{QUEUE}/claims", {}) == 204
    posted = ask("POST", f"{QUEUE}/messages", {"messages": [{"body": n} for n in range(4)]})
    ids = [href.rsplit("/", 1)[1] for href in posted.json()["resources"]]
    claimed = ask("POST", f"{QUEUE}/claims", {"ttl": 60, "grace": 60}, limit=2)
    assert claimed.status_code == 201
    claim = claimed.headers["location"][0].rsplit("/", 1)[1]

    assert status("GET", claim_item, claim=claim) == 200
    assert status("PATCH", claim_item, {"ttl": 90}, claim=claim) == 204
    assert status("GET", item, message=ids[0]) == 200
    assert status("GET", f"{QUEUE}/messages", ids=ids) == 200
    assert status("GET", f"{QUEUE}/messages", echo=True, include_claimed=True) == 200
    assert status("GET", f"{QUEUE}/stats") == 200
    assert status("DELETE", item, message=ids[0]) == 403
    assert status("DELETE", item, message=ids[2], claim_id=claim) == 400
    assert status("DELETE", item, message=ids[0], claim_id=claim) == 204
    assert status("DELETE", claim_item, claim=claim) == 204
    assert status("GET", claim_item, claim=claim) == 404
    assert status("PATCH", claim_item, {}, claim=claim) == 404
    assert status("DELETE", f"{QUEUE}/messages", pop=1) == 200
    assert status("DELETE", f"{QUEUE}/messages", ids=ids) == 204
    assert status("GET", f"{QUEUE}/messages", ids=ids) == 404
    assert status("GET", "/v2/queues", detailed=True, with_count=True) == 200
    assert status("DELETE", QUEUE) == 204
    assert status("PATCH", QUEUE, []) == 404
