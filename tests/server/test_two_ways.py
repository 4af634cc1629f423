# SPDX-License-Identifier: Apache-2.0
"""The answers of hot routes are the same, byte for byte, over either path of a request."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import pytest

from tests.server.counted_app import CALLS, KEY
from tests.support import fixtures, servers
from tests.support.raw_http import AnswerNormalizer, RawConnection, request
from tests.support.ways import ASGI, HOT, WAYS

_MESSAGE = re.compile(rb"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CLAIM = re.compile(rb"/claims/([0-9a-f]{32})")


class ScenarioClient:
    """The client of a project, whose requests all take one way."""

    def __init__(self, service: servers.RunningService, project: str, way: str) -> None:
        self._connection = RawConnection(service.port)
        self._project = f"{project}-{way}"
        self._headers = WAYS[way]
        self._normalized = AnswerNormalizer()
        #: what answers have named, in the order of its appearance
        self.ids: list[str] = []
        self.claims: list[str] = []

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """Returns the normalized answer; ``{ids[0]}`` in a path is the first message's id."""
        target = path.format(ids=self.ids, claims=self.claims)
        all_headers = (headers | self._headers).items()
        self._connection.send(request(method, target, self._project, body, all_headers))
        answer = b"".join(self._connection.answer(method))
        document = re.sub(rb"(?m)^x-openstack-request-id: .*$", b"", answer)
        for found, known in ((_MESSAGE, self.ids), (_CLAIM, self.claims)):
            known += [text.decode() for text in found.findall(document)]
            known[:] = dict.fromkeys(known)
        return self._normalized(answer)

    def close(self) -> None:
        self._connection.socket.close()


class BothWays:
    """Sends each request over both paths, and compares the answers."""

    def __init__(self, service: servers.RunningService, project: str) -> None:
        self._clients = [ScenarioClient(service, project, way) for way in (HOT, ASGI)]

    def ask(
        self, method: str, path: str, document: object = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        hot, asgi = (each.ask(method, path, body, headers or {}) for each in self._clients)
        assert hot == asgi, f"{method} {path}"
        return hot

    def close(self) -> None:
        for client in self._clients:
            client.close()


@pytest.fixture
def both(service: servers.RunningService, project: str) -> Iterator[BothWays]:
    ways = BothWays(service, project)
    yield ways
    ways.close()


QUEUE, MESSAGES, CLAIMS = "/v2/queues/q", "/v2/queues/q/messages", "/v2/queues/q/claims"


def test_life_of_messages_is_answered_alike(both: BothWays) -> None:
    first = {"messages": [{"body": {"n": 1}}, {"body": "é☃", "ttl": 100}, {"body": [None, 1.5]}]}
    assert b" 201 Created\r\n" in both.ask("POST", MESSAGES, first)
    both.ask("POST", MESSAGES, {"messages": [{"body": "later", "delay": 600}]})
    for query in (
        *("", "?echo=true", "?echo=true&limit=2", "?echo=true&limit=1&marker={ids[1]}"),
        *("?echo=1&include_delayed=true&include_claimed=yes", "?ids={ids[0]},{ids[2]}"),
        *("?ids={ids[0]}&ids={ids[1]}", "?echo=true&wait=0", "?echo=true&marker=nonsense", "?"),
        "?=&&unknown=1",
    ):
        both.ask("GET", MESSAGES + query)
    both.ask("GET", f"{MESSAGES}/{{ids[0]}}")
    assert b"/claims/" in both.ask("POST", f"{CLAIMS}?limit=2", {"ttl": 70, "grace": 80})
    both.ask("GET", f"{CLAIMS}/{{claims[0]}}")
    both.ask("PATCH", f"{CLAIMS}/{{claims[0]}}", {"ttl": 90})
    assert b" 403 " in both.ask("DELETE", f"{MESSAGES}/{{ids[0]}}")
    both.ask("DELETE", f"{MESSAGES}/{{ids[0]}}?claim_id={{claims[0]}}")
    both.ask("DELETE", f"{CLAIMS}/{{claims[0]}}")
    both.ask("DELETE", f"{MESSAGES}?pop=1")
    both.ask("DELETE", f"{MESSAGES}?ids={{ids[2]}},{{ids[0]}}")
    both.ask("POST", CLAIMS)
    both.ask("DELETE", f"{MESSAGES}?pop=5")
    both.ask("GET", f"{QUEUE}/stats")


def test_repeated_post_with_idempotency_key_is_answered_alike(both: BothWays) -> None:
    document = {"messages": [{"body": 1}]}
    for key in ("one", "one", "two", "", "x" * 300, "ü"):
        both.ask("POST", MESSAGES, document, {"Idempotency-Key": key})
    both.ask("POST", MESSAGES, {"messages": [{"body": 2}]}, {"Idempotency-Key": "one"})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MESSAGES, b""),
        ("POST", MESSAGES, b"{"),
        ("POST", MESSAGES, b"[]"),
        ("POST", MESSAGES, b"{}"),
        ("POST", MESSAGES, b"\xff"),
        ("POST", MESSAGES, b'{"messages":[]}'),
        ("POST", MESSAGES, b'{"messages":[{}]}'),
        ("POST", MESSAGES, b'{"messages":[{"body":1,"ttl":1}]}'),
        ("POST", MESSAGES, b'{"messages":[{"body":1,"delay":-1}]}'),
        ("POST", MESSAGES, b'{"messages":[{"body":"' + b"x" * 262_144 + b'"}]}'),
        ("POST", CLAIMS, b'{"ttl":1}'),
        ("POST", CLAIMS, b'{"grace":"x"}'),
        ("POST", f"{CLAIMS}?limit=0", b""),
        ("POST", f"{CLAIMS}?limit=x", b""),
        ("POST", f"{CLAIMS}?wait=-1", b""),
        ("POST", CLAIMS, b'"' + b"x" * 65_537 + b'"'),
        ("PATCH", f"{CLAIMS}/x", b"{}"),
        ("PATCH", f"{CLAIMS}/{'0' * 32}", b'{"ttl":100}'),
        ("PATCH", f"{CLAIMS}/{'0' * 32}", b""),
        ("GET", f"{MESSAGES}?limit=0", b""),
        ("GET", f"{MESSAGES}?limit=1&limit=x", b""),
        ("GET", f"{MESSAGES}?echo=maybe", b""),
        ("GET", f"{MESSAGES}?ids=", b""),
        ("GET", f"{MESSAGES}?ids=x", b""),
        ("GET", f"{MESSAGES}?ids={','.join('x' * 30)}", b""),
        ("GET", f"{MESSAGES}?wait=31", b""),
        ("GET", f"{MESSAGES}?limit=%31&echo=tru%65", b"unread"),
        ("GET", f"{MESSAGES}?a#b", b""),
        ("GET", f"{MESSAGES}?limit=1#b", b""),
        ("GET", f"{MESSAGES}#b", b""),
        ("GET", f"{MESSAGES}/", b""),
        ("GET", f"{MESSAGES}/x", b""),
        ("GET", f"{MESSAGES}/{'x' * 65}", b""),
        ("GET", "/v2/queues/%71/messages", b""),
        ("GET", f"/v2/queues/{'q' * 65}/messages", b""),
        ("GET", "/v2/queues//messages", b""),
        ("GET", "http://h/v2/queues/q/messages", b""),
        ("DELETE", MESSAGES, b""),
        ("DELETE", f"{MESSAGES}?pop=1&ids=x", b""),
        ("DELETE", f"{MESSAGES}?pop=0", b""),
        ("DELETE", f"{MESSAGES}?pop=x", b""),
        ("DELETE", f"{MESSAGES}/x?claim_id=y", b""),
        ("PUT", MESSAGES, b""),
        ("HEAD", MESSAGES, b""),
        ("OPTIONS", MESSAGES, b""),
        ("GET", "/v2/ping", b""),
        ("HEAD", "/v2/ping", b""),
        ("GET", "/health", b""),
        ("GET", "/healthcheck", b""),
        ("POST", "/healthcheck", b""),
    ],
)
def test_unusual_request_is_answered_alike(
    both: BothWays, method: str, path: str, body: bytes
) -> None:
    both.ask(method, path, body)
    both.ask("GET", "/v2/ping")  # the connection goes on


def test_life_of_queues_is_answered_alike(both: BothWays) -> None:
    for body in ({"a": 1}, {"a": 1}, b"", b"[]", {"_default_message_ttl": "x"}):
        both.ask("PUT", QUEUE, body)
    both.ask("PUT", "/v2/queues/r", {"_max_messages_post_size": 100})
    for query in ("", "?detailed=true", "?limit=1", "?with_count=true", "?limit=x", "?name=r"):
        both.ask("GET", f"/v2/queues{query}")
    for queue in (QUEUE, "/v2/queues/nowhere"):
        both.ask("GET", queue)
        both.ask("GET", f"{queue}/stats")
        both.ask("DELETE", queue)
        both.ask("GET", queue)


channels = fixtures.service({"channels": {"api_key": KEY, "history_size": 10, "history_ttl": 60}})


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"X-API-Key": KEY}, True),
        ({"Authorization": f"apikey {KEY}"}, True),
        ({"X-API-Key": KEY, "X-Centrifugo-Error-Mode": "transport"}, True),
        ({"X-API-Key": KEY, "Content-Type": "text/plain", "Accept": "text/html"}, True),
        ({"X-API-Key": "wrong"}, False),
        ({"Authorization": f"bearer {KEY}"}, False),
        ({}, False),
    ],
)
def test_call_of_the_server_api_is_answered_alike(
    channels: servers.RunningService, project: str, headers: dict[str, str], accepted: bool
) -> None:
    with contextlib.closing(BothWays(channels, project)) as both:
        published = both.ask("POST", "/api/publish", {"channel": "c", "data": 1}, headers)
        assert (b" 200 OK\r\n" if accepted else b" 401 ") in published
        for method, document in (
            ("presence", {"channel": "c"}),
            ("publish", {"channel": "nowhere:c", "data": 1}),
            ("publish", {"channel": "c"}),
            ("publish", b"{"),
            ("publish", b""),
            ("batch", {"commands": [{"publish": {"channel": "c", "data": 2}}, {}]}),
            ("channels", {}),
            ("nonsense", {}),
        ):
            both.ask("POST", f"/api/{method}", document, headers)
        both.ask("POST", f"/api/publish?api_key={KEY}", {"channel": "c", "data": 1})
        both.ask("GET", "/api/publish", headers=headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "text/html"},
        {"Accept": "text/html;q=0.1, */*;q=0.1"},
        {"Accept": "///"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"client-id": "not-a-uuid"},
        {"X-PROJECT-ID": ""},
        {"X-Project-Id": "p" * 257},
        {"URL-Signature": "x"},
        {"X-Tenant": "other"},
        {"Connection": "keep-alive"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity"},
    ],
)
def test_unusual_header_is_answered_alike(both: BothWays, headers: dict[str, str]) -> None:
    both.ask("GET", f"{MESSAGES}?echo=true", headers=headers)
    both.ask("POST", MESSAGES, {"messages": [{"body": 1}]}, headers)
    both.ask("GET", "/healthcheck", headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MESSAGES, b'{"messages":[{"body":1}]}'),
        ("GET", MESSAGES, b""),
        ("DELETE", f"{MESSAGES}?pop=1", b""),
        ("DELETE", f"{MESSAGES}?ids=x", b""),
        ("GET", f"{MESSAGES}/x", b""),
        ("DELETE", f"{MESSAGES}/x", b""),
        ("POST", CLAIMS, b""),
        ("PATCH", f"{CLAIMS}/x", b"{}"),
        ("GET", f"{CLAIMS}/x", b""),
        ("DELETE", f"{CLAIMS}/x", b""),
        ("PUT", QUEUE, b"{}"),
        ("GET", QUEUE, b""),
        ("DELETE", QUEUE, b""),
        ("GET", f"{QUEUE}/stats", b""),
        ("GET", "/v2/queues", b""),
        ("POST", "/api/publish", b'{"channel":"c","data":1}'),
        ("POST", f"/api/publish?api_key={KEY}", b'{"channel":"c","data":1}'),
        ("POST", f"/api/channels?api_key={KEY}", b""),
        ("GET", "/v2/ping", b""),
        ("GET", "/health", b""),
        ("GET", "/healthcheck", b""),
    ],
)
def test_hot_request_does_not_reach_asgi_unless_told_to(
    counted: servers.RunningService, project: str, method: str, path: str, body: bytes
) -> None:
    with RawConnection(counted.port) as connection:

        def calls() -> int:
            return int(connection.ask(request("GET", CALLS)).body)

        for way, count in ((HOT, 0), (ASGI, 1)):
            before = calls()
            connection.send(request(method, path, project, body, WAYS[way].items()))
            connection.answer(method)
            assert calls() - before == count
