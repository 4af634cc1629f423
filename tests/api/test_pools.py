# SPDX-License-Identifier: Apache-2.0
"""Pools and flavors over HTTP: the operator's requests and their effects on queues."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import redis

from tests.api.client import ZaqarTestClient, refused
from tests.support import servers
from tests.support.command_line import CommandLine

ADMIN: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}


class OperatorClient(ZaqarTestClient):
    """An operator of a service of its own, with stores for pools."""

    stores: list[servers.RedisServer]
    default_store: servers.RedisServer

    def pool(self, name: str, store: int = 0, weight: int = 100, **more: Any) -> httpx.Response:
        document = {"uri": self.stores[store].uri, "weight": weight} | more
        return self.request("PUT", f"/pools/{name}", document)

    def shown(self, name: str) -> dict[str, Any]:
        answer = self.get(f"/pools/{name}", detailed=True)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def queues_in(self, store: servers.RedisServer) -> set[str]:
        with store.client() as client:
            found = client.zrange(f"zr:queues:{self.project}", 0, -1)
        assert isinstance(found, list)
        return {name.decode() for name in found}


@pytest.fixture(scope="module")
def running() -> Iterator[
    tuple[servers.RunningService, servers.RedisServer, list[servers.RedisServer]]
]:
    with (
        servers.redis_server() as default_store,
        servers.redis_server() as one,
        servers.redis_server(servers.VALKEY) as two,
        servers.service(default_store.uri, workers=2, options=ADMIN) as service,
    ):
        yield service, default_store, [one, two]


@pytest.fixture
def operator(
    running: tuple[servers.RunningService, servers.RedisServer, list[servers.RedisServer]],
    http: httpx.Client,
    project: str,
) -> Iterator[OperatorClient]:
    service, default_store, stores = running
    client = OperatorClient(http, service.url, project)
    client.default_store, client.stores = default_store, stores
    yield client
    for store in (default_store, *stores):
        with store.client() as redis:
            redis.flushall()
    with default_store.client() as redis:
        redis.publish("zr:{control}:news", "pools")
    servers.wait_for(lambda: client.get("/pools").json()["pools"] == [], "no pools")


def test_without_pools_queues_are_in_default_pool(operator: OperatorClient) -> None:
    assert operator.get("/pools").json() == {"pools": [], "links": []}
    assert operator.get("/flavors").json() == {"flavors": [], "links": []}
    operator.send("q", 1)
    assert operator.queues_in(operator.default_store) == {"q"}


def test_option_of_a_pool_that_has_no_effect_is_named(operator: OperatorClient) -> None:
    created = operator.pool("one", options={"timeut": 2, "timeout": 30})
    assert (created.status_code, created.headers["Ignored"]) == (201, '"timeut"')
    changed = operator.request("PATCH", "/pools/one", {"options": {"max_retry_attempts": 9}})
    assert (changed.status_code, changed.headers["Ignored"]) == (200, '"max_retry_attempts"')
    assert "Ignored" not in operator.pool("one", options={"timeout": 30}).headers


def test_pool_is_created_shown_changed_and_deleted(operator: OperatorClient) -> None:
    answer = operator.pool("one", weight=5, options={"timeout": 30})
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v2/pools/one")
    href = "/v2/pools/one"
    assert operator.shown("one") == {
        "name": "one",
        "href": href,
        "uri": operator.stores[0].uri,
        "weight": 5,
        "flavor": "",
        "draining": False,
        "options": {"timeout": 30},
        "queues": 0,
        "stayed": {"queues": 0, "why": []},
    }
    changed = operator.request("PATCH", "/pools/one", {"weight": 7})
    assert (changed.status_code, changed.json()["weight"]) == (200, 7)
    assert operator.pool("one", weight=9).status_code == 201
    listed = operator.get("/pools")
    assert listed.headers["Content-Location"]
    (item,) = listed.json()["pools"]
    assert (item["weight"], "options" in item) == (9, False)
    for _ in range(2):
        assert operator.request("DELETE", "/pools/one").status_code == 204
    refused(operator.get("/pools/one"), 404, "one")
    refused(operator.request("PATCH", "/pools/one", {"weight": 7}), 404, "one")


def test_pools_are_listed_in_pages(operator: OperatorClient) -> None:
    operator.pool("b", 0)
    operator.pool("a", 1)
    first = operator.get("/pools", limit=1, detailed=True).json()
    assert [pool["name"] for pool in first["pools"]] == ["a"]
    assert "options" in first["pools"][0]
    (link,) = first["links"]
    second = operator.follow(link["href"]).json()
    assert [pool["name"] for pool in second["pools"]] == ["b"]
    refused(operator.get("/pools", limit=0), 400, "limit")


BAD_POOLS: list[tuple[Any, str]] = [
    ({}, "uri"),
    ({"uri": "redis://h"}, "weight"),
    ({"weight": 1}, "uri"),
    ({"uri": 5, "weight": 1}, "uri"),
    ({"uri": "", "weight": 1}, "uri"),
    ({"uri": "x" * 256, "weight": 1}, "255"),
    ({"uri": "nonsense://h", "weight": 1}, "nonsense"),
    ({"uri": "redis://h/not-a-number", "weight": 1}, "database number"),
    ({"uri": "redis://h?colour=red", "weight": 1}, "colour"),
    ({"uri": "memory://", "weight": 1}, "memory:// cannot be a pool"),
    (
        {"uri": "unix:///no/such/socket", "weight": 1, "options": {"connect_timeout": 0.1}},
        "cannot connect",
    ),
    ({"uri": "redis://:secret@127.0.0.1:1", "weight": 1}, "refused"),
    ({"uri": "redis://:sec/secret@127.0.0.1:1", "weight": 1}, "uri"),
    ({"uri": "redis://:secret@[127.0.0.1:1", "weight": 1}, "uri"),
    ({"uri": "redis://h", "weight": -1}, "weight"),
    ({"uri": "redis://h", "weight": 2**32}, "weight"),
    ({"uri": "redis://h", "weight": "1"}, "weight"),
    ({"uri": "redis://h", "weight": 1, "flavor": None}, "flavor"),
    ({"uri": "redis://h", "weight": 1, "flavor": "a b"}, "flavor"),
    ({"uri": "redis://h", "weight": 1, "options": []}, "options"),
    ({"uri": "redis://h", "weight": 1, "options": {"x": "y" * 5000}}, "options"),
    ({"uri": "redis://h", "weight": 1, "options": {"timeout": "x"}}, "timeout"),
    ({"uri": "redis://h", "weight": 1, "options": {"timeout": -2}}, "timeout"),
    ({"uri": "redis://h", "weight": 1, "options": {"in_flight": 1.5}}, "in_flight"),
    ({"uri": "redis://h", "weight": 1, "group": "g"}, "group"),
    ([], "object"),
]


@pytest.mark.parametrize(("document", "names"), BAD_POOLS)
def test_invalid_pool_is_refused(operator: OperatorClient, document: object, names: str) -> None:
    answer = operator.request("PUT", "/pools/p", document)
    refused(answer, 400, names)
    assert "secret" not in answer.text
    assert operator.get("/pools").json()["pools"] == []


@pytest.mark.parametrize(
    "name", ["default", "catalog_reachable", "a b", "ä", "x" * 65, "a%2Fb", "%2E%2E"]
)
def test_pool_needs_a_valid_name(operator: OperatorClient, name: str) -> None:
    assert operator.pool(name).status_code in (400, 404)
    assert operator.get("/pools").json()["pools"] == []


@pytest.mark.parametrize("change", [{}, {"weight": -1}, {"uri": "nope"}, {"name": "x"}, [], 5])
def test_invalid_change_of_a_pool_changes_nothing(operator: OperatorClient, change: object) -> None:
    operator.pool("one")
    before = operator.shown("one")
    assert operator.request("PATCH", "/pools/one", change).status_code == 400
    assert operator.shown("one") == before


def test_store_cannot_be_two_pools_by_different_uris(operator: OperatorClient) -> None:
    operator.pool("one")
    uri = operator.stores[0].uri
    socket = uri.removeprefix("unix://")
    folder, _, name = socket.rpartition("/")
    for spelling in (uri, f"{uri}?db=0", f"unix://{folder}/../{folder.rpartition('/')[2]}/{name}"):
        answer = operator.request("PUT", "/pools/two", {"uri": spelling, "weight": 1})
        refused(answer, 409, '"one"')
    answer = operator.request("PUT", "/pools/two", {"uri": operator.default_store.uri, "weight": 1})
    refused(answer, 409, '"default"')
    other = operator.request("PUT", "/pools/two", {"uri": f"{uri}?db=1", "weight": 1})
    assert other.status_code == 201


def test_passwords_are_masked_and_masked_uris_are_accepted_back(operator: OperatorClient) -> None:
    with operator.stores[0].client() as client:
        client.config_set("requirepass", "open-sesame")
    try:
        uri = operator.stores[0].uri.replace("unix://", "unix://:open-sesame@")
        assert operator.request("PUT", "/pools/one", {"uri": uri, "weight": 1}).status_code == 201
        shown = operator.shown("one")
        assert shown["uri"] == uri.replace("open-sesame", "***")
        assert "open-sesame" not in operator.get("/pools", detailed=True).text
        again = {"uri": shown["uri"], "weight": 2}
        assert operator.request("PUT", "/pools/one", again).status_code == 201
        operator.send("q", 1)
        assert operator.bodies("q") == [1]
    finally:
        socket = operator.stores[0].uri.removeprefix("unix://")
        with redis.Redis(unix_socket_path=socket, password="open-sesame") as client:
            client.config_set("requirepass", "")


def test_new_queues_go_to_pools_by_weight_and_old_ones_stay(operator: OperatorClient) -> None:
    operator.send("old", 1)
    operator.pool("one", 0, weight=100)
    operator.pool("two", 1, weight=0)
    names = {f"q{number}" for number in range(20)}
    for name in sorted(names):
        operator.send(name, name)
    operator.send("old", 2)
    assert operator.queues_in(operator.stores[0]) == names
    assert operator.queues_in(operator.stores[1]) == set()
    assert operator.bodies("old") == [1, 2]
    listed = operator.get("/queues", limit=20, with_count=True).json()
    assert listed["count"] == 21
    assert [queue["name"] for queue in listed["queues"]] == sorted(names | {"old"})[:20]
    operator.request("PATCH", "/pools/one", {"weight": 0})
    operator.request("PATCH", "/pools/two", {"weight": 1})
    assert _is_created_in(operator, 1)


def _is_created_in(operator: OperatorClient, store: int) -> bool:
    name = uuid.uuid4().hex
    operator.send(name, 1)
    return name in operator.queues_in(operator.stores[store])


def test_pages_of_queues_span_pools(operator: OperatorClient) -> None:
    operator.send("default_store", 0)
    operator.pool("one", 0)
    operator.pool("two", 1)
    names = {f"q{number:02}" for number in range(30)}
    for name in sorted(names):
        operator.create(name, colour="blue" if name > "q14" else "red")
    assert operator.queues_in(operator.stores[0])
    assert operator.queues_in(operator.stores[1])
    found: list[str] = []
    answer = operator.get("/queues", limit=7)
    while queues := answer.json()["queues"]:
        found += [queue["name"] for queue in queues]
        answer = operator.follow(answer.json()["links"][0]["href"])
    assert found == sorted(names | {"default_store"})
    blue = operator.get("/queues", colour="blue", limit=20).json()["queues"]
    assert [queue["name"] for queue in blue] == [name for name in sorted(names) if name > "q14"]


def test_flavor_is_created_from_pools(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.pool("two", 1)
    answer = operator.request("PUT", "/flavors/fast", {"pool_list": ["two"]})
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v2/flavors/fast")
    fast = operator.get("/flavors/fast").json()
    assert fast["name"] == "fast"
    assert fast["pool_list"] == ["two"]
    assert "FIFO" in fast["capabilities"]
    assert operator.shown("two")["flavor"] == "fast"
    (listed,) = operator.get("/flavors").json()["flavors"]
    assert listed == {"name": "fast", "href": "/v2/flavors/fast", "pool_list": ["two"]}
    changed = operator.request("PATCH", "/flavors/fast", {"pool_list": ["one", "two"]})
    assert changed.json()["pool_list"] == ["one", "two"]
    assert operator.request("DELETE", "/flavors/fast").status_code == 204
    assert operator.request("DELETE", "/flavors/fast").status_code == 204
    refused(operator.get("/flavors/fast"), 404, "fast")
    assert operator.shown("two")["flavor"] == ""


def test_pool_is_released_from_its_flavor(operator: OperatorClient) -> None:
    operator.pool("one", 0, flavor="fast")
    refused(operator.request("DELETE", "/pools/one"), 403, "fast")
    answer = operator.request("PATCH", "/pools/one", {"flavor": ""})
    assert (answer.status_code, answer.json()["flavor"]) == (200, "")
    fast = operator.get("/flavors/fast").json()
    assert (fast["pool_list"], fast["capabilities"]) == ([], [])
    refused(operator.create("q", _flavor="fast"), 400, "fast", "has pools")
    assert operator.request("DELETE", "/pools/one").status_code == 204


def test_a_flavor_takes_the_last_pool_of_another(operator: OperatorClient) -> None:
    operator.pool("one", 0, flavor="fast")
    assert operator.request("PUT", "/flavors/slow", {"pool_list": ["one"]}).status_code == 201
    assert operator.get("/flavors/fast").json()["pool_list"] == []
    back = operator.request("PATCH", "/flavors/fast", {"pool_list": ["one"]})
    assert (back.status_code, back.json()["pool_list"]) == (200, ["one"])
    assert operator.get("/flavors/slow").json()["pool_list"] == []


def test_document_as_read_is_accepted_as_a_change(operator: OperatorClient) -> None:
    operator.pool("one", 0, flavor="fast", options={"timeout": 30})
    for path in ("/pools/one", "/flavors/fast"):
        read = operator.get(path, detailed=True).json()
        assert operator.request("PATCH", path, read).status_code == 200
        assert operator.get(path, detailed=True).json() == read
        changed = read | {"name": "other", "capabilities": [], "colour": "red"}
        assert operator.request("PATCH", path, changed).status_code == 200
        assert operator.get(path, detailed=True).json() == read


def test_queues_of_a_flavor_are_created_in_its_pools(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.pool("two", 1)
    operator.request("PUT", "/flavors/fast", {"pool_list": ["two"]})
    for number in range(10):
        operator.create(f"fast{number}", _flavor="fast")
        operator.create(f"plain{number}")
    assert operator.queues_in(operator.stores[0]) == {f"plain{number}" for number in range(10)}
    refused(operator.create("q", _flavor="none"), 400, "none")
    refused(operator.create("q", _flavor=7), 400, "_flavor")
    operator.create("deleted", _flavor="fast")
    assert operator.request("DELETE", "/queues/deleted").status_code == 204
    refused(operator.create("deleted", _flavor="none"), 400, "none")
    assert operator.create("fast0", _flavor="none").status_code == 204
    change = {"op": "add", "path": "/metadata/_flavor", "value": "none"}
    refused(operator.patch("plain1", change), 400, "none")


@pytest.mark.parametrize(("old", "new"), [("", "fast"), ("fast", "")])
def test_queue_that_was_deleted_is_created_in_a_pool_of_its_new_flavor(
    operator: OperatorClient, old: str, new: str
) -> None:
    operator.pool("one", 0)
    operator.pool("two", 1, flavor="fast")
    stores = {"": operator.stores[0], "fast": operator.stores[1]}
    operator.create("q", _flavor=old)
    assert operator.queues_in(stores[old]) == {"q"}
    operator.request("DELETE", "/queues/q")
    operator.create("q", _flavor=new)
    operator.send("q", 1)
    assert operator.queues_in(stores[new]) == {"q"}
    assert operator.queues_in(stores[old]) == set()
    assert operator.bodies("q") == [1]


BAD_FLAVORS: list[tuple[object, str]] = [
    ({}, "pool_list"),
    ({"pool_list": []}, "pool_list"),
    ({"pool_list": ["nobody"]}, "nobody"),
    ({"pool_list": "one"}, "pool_list"),
    ({"pool_list": [5]}, "pool_list"),
    ({"pool_list": ["one"], "pool": "one"}, "pool"),
]


@pytest.mark.parametrize(("document", "names"), BAD_FLAVORS)
def test_invalid_flavor_is_refused(operator: OperatorClient, document: object, names: str) -> None:
    operator.pool("one")
    refused(operator.request("PUT", "/flavors/f", document), 400, names)
    assert operator.request("PATCH", "/flavors/f", document).status_code in (400, 404)
    assert operator.get("/flavors").json()["flavors"] == []


def test_pool_with_flavor_or_queues_cannot_be_deleted(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.request("PUT", "/flavors/fast", {"pool_list": ["one"]})
    refused(operator.request("DELETE", "/pools/one"), 403, "fast")
    operator.request("DELETE", "/flavors/fast")
    assert _is_created_in(operator, 0)
    refused(operator.request("DELETE", "/pools/one"), 403, "drain")
    assert operator.shown("one")["queues"] == 1


def test_pool_whose_queues_were_deleted_can_be_deleted(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.send("q", 1)
    operator.request("DELETE", "/queues/q")
    assert operator.request("DELETE", "/pools/one").status_code == 204
    operator.send("q", 2)
    assert operator.bodies("q") == [2]
    assert operator.queues_in(operator.default_store) == {"q"}


def test_dead_letters_go_to_a_queue_in_another_pool(operator: OperatorClient) -> None:
    operator.pool("one", 0, weight=1)
    operator.create("dlq")
    operator.pool("two", 1, weight=1)
    operator.request("PATCH", "/pools/one", {"weight": 0})
    assert _is_created_in(operator, 1)
    operator.create("q", _max_claim_count=1, _dead_letter_queue="dlq")
    assert "q" in operator.queues_in(operator.stores[1])
    operator.send("q", "letter")
    operator.release("q", operator.hold("q")[0])
    assert operator.claim("q").status_code == 204
    assert operator.bodies("dlq") == ["letter"]
    assert operator.queues_in(operator.stores[0]) == {"dlq"}


def test_waiting_claim_is_woken_by_post_to_a_pool(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.create("q")
    with httpx.Client(timeout=30) as client:
        another_client = ZaqarTestClient(client, operator.url, operator.project)
        with ThreadPoolExecutor() as threads:
            answer = threads.submit(another_client.request, "POST", "/queues/q/claims", wait=20)
            servers.wait_for(lambda: _is_watched(operator.stores[0]), "the feed to be subscribed")
            operator.send("q", 1)
            assert answer.result(60).status_code == 201


def _is_watched(store: servers.RedisServer) -> bool:
    with store.client() as client:
        return any(b"}:feed" in name for name in client.pubsub_channels())


def test_dead_pool_affects_only_its_own_queues(http: httpx.Client, project: str) -> None:
    with (
        servers.redis_server() as default_store,
        servers.redis_server() as one,
        servers.redis_server() as two,
        servers.service(default_store.uri, options=ADMIN) as service,
    ):
        operator = OperatorClient(http, service.url, project)
        operator.default_store, operator.stores = default_store, [one, two]
        operator.send("default_store", 1)
        operator.pool("one", 0)
        operator.send("first", 1)
        operator.pool("two", 1)
        operator.request("PATCH", "/pools/one", {"weight": 0})
        assert _is_created_in(operator, 1)
        elsewhere = operator.another_client(f"{project}-else")
        elsewhere.send("q", 1)
        one.signal(signal.SIGKILL)
        servers.wait_for(lambda: operator.get("/queues/first").status_code == 503, "the loss")
        answer = operator.post("first", {"body": 1})
        refused(answer, 503, "The store one cannot be reached")
        assert answer.headers["Retry-After"] == "1"
        assert operator.bodies("default_store") == [1]
        assert elsewhere.bodies("q") == [1]
        assert elsewhere.get("/queues").status_code == 200
        assert operator.get("/queues").status_code == 503  # one pool cannot be listed
        created = [operator.post(f"new{number}", {"body": 1}).status_code for number in range(8)]
        assert created == [201] * 8, "new queues go to reachable pools"
        assert operator.get("/queues/first/pool").json()["pool"] == "one"
        ping = operator.get("/ping")
        assert (ping.status_code, "one" in ping.text) == (503, True)
        assert http.get(f"{service.url}/healthcheck").status_code == 200
        refused(http.get(f"{service.url}/health"), 503, "one")
        answer = operator.get("/health")
        assert answer.status_code == 503
        health = answer.json()
        assert health["catalog_reachable"] is True
        reachable = {name: health[name]["storage_reachable"] for name in ("default", "one", "two")}
        assert reachable == {"default": True, "one": False, "two": True}


def test_a_draining_pool_is_emptied_by_the_service(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    held = {}
    for number in range(20):
        operator.send(f"q{number:02}", *range(10))
        held[f"q{number:02}"] = operator.hold(f"q{number:02}", 3)[0]
    operator.pool("two", 1)
    changed = operator.request("PATCH", "/pools/one", {"draining": True})
    assert changed.json()["draining"] is True
    operator.send("new", 1)
    assert operator.queues_in(operator.stores[1]) >= {"new"}
    servers.wait_for(lambda: operator.shown("one")["queues"] == 0, "the pool to be empty")
    assert operator.queues_in(operator.stores[0]) == set()
    for name, claim in held.items():
        assert operator.bodies(name, include_claimed=True) == list(range(10))
        assert len(operator.claimed(name, claim).json()["messages"]) == 3
    assert operator.request("DELETE", "/pools/one").status_code == 204


def test_concurrent_pool_updates_are_all_applied(operator: OperatorClient) -> None:
    operator.pool("one")
    changes = [{"weight": 7}, {"draining": True}, {"options": {"timeout": 30}}] * 5
    with ThreadPoolExecutor(len(changes)) as threads:
        answers = list(
            threads.map(lambda change: operator.request("PATCH", "/pools/one", change), changes)
        )
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert sum(answer.status_code == 200 for answer in answers) >= 10
    found = operator.shown("one")
    assert (found["weight"], found["draining"], found["options"]) == (7, True, {"timeout": 30})


def test_queue_that_cannot_move_is_reported_with_the_reason(operator: OperatorClient) -> None:
    operator.pool("one", 0)
    operator.request("PUT", "/flavors/fast", {"pool_list": ["one"]})
    operator.request("PUT", "/queues/q", {"_flavor": "fast"})
    operator.request("PATCH", "/pools/one", {"draining": True})
    servers.wait_for(lambda: operator.shown("one")["stayed"]["queues"] == 1, "the reason")
    (why,) = operator.shown("one")["stayed"]["why"]
    assert why.startswith(f"{operator.project}/q: ")
    assert '"fast" has no other pool' in why
    operator.pool("two", 1, flavor="fast")
    servers.wait_for(lambda: operator.shown("one")["queues"] == 0, "one to be empty")
    servers.wait_for(lambda: operator.shown("one")["stayed"]["queues"] == 0, "no reason")


def test_uri_of_a_pool_cannot_change_to_a_store_without_its_queues(
    operator: OperatorClient,
) -> None:
    operator.pool("one", 0)
    operator.send("q", 1)
    elsewhere = {"uri": operator.stores[1].uri}
    refused(operator.request("PATCH", "/pools/one", elsewhere), 409, "none of the queues")
    refused(operator.pool("one", 1), 409, "none of the queues")
    assert operator.bodies("q") == [1]
    with operator.stores[0].client() as client, operator.stores[1].client() as copy:
        for key in client.scan_iter():
            # What the service keeps in every store may be there from the test before.
            copy.restore(key, 0, client.dump(key), replace=True)
        client.flushall()
    assert operator.request("PATCH", "/pools/one", elsewhere).status_code == 200
    assert operator.bodies("q") == [1]


def test_store_of_another_installation_must_be_adopted_as_a_pool(
    operator: OperatorClient, http: httpx.Client
) -> None:
    store = operator.stores[0]
    with servers.service(store.uri) as service:
        other = ZaqarTestClient(http, service.url, operator.project)
        servers.wait_for(lambda: _owner(store) is not None, "the store to be marked")
        refused(operator.pool("one"), 409, "another installation")
        for number in range(13):
            other.send(f"q{number}", number)
    refused(operator.pool("one"), 409, "adopt")
    assert operator.get("/pools").json()["pools"] == []
    assert operator.bodies("q7") == []
    assert operator.pool("one", adopt=True).status_code == 201
    assert [operator.bodies(f"q{number}") for number in range(13)] == [[n] for n in range(13)]
    assert operator.shown("one")["queues"] == 13
    assert CommandLine(["--storage", operator.default_store.uri]).shown("check") == []


def test_unmarked_store_with_queues_is_refused_as_a_pool(operator: OperatorClient) -> None:
    operator.pool("one")
    operator.send("q", 1)
    with operator.stores[0].client() as client:
        client.delete("zr:owner")
    _forget_pools(operator)
    refused(operator.pool("one"), 409, f'"q" of project "{operator.project}"')


def test_store_with_a_queue_of_an_existing_name_is_not_adopted(operator: OperatorClient) -> None:
    operator.pool("one")
    operator.send("q", "other")
    owner = _owner(operator.stores[0])
    _forget_pools(operator)
    operator.send("q", "own")
    refused(operator.pool("one", adopt=True), 409, f'"q" of project "{operator.project}"')
    assert operator.get("/pools").json()["pools"] == []
    assert operator.bodies("q") == ["own"]
    assert owner is not None
    assert _owner(operator.stores[0]) == owner


def test_deleted_pool_has_no_owner_mark(operator: OperatorClient) -> None:
    operator.pool("one")
    assert _owner(operator.stores[0])
    operator.request("DELETE", "/pools/one")
    assert _owner(operator.stores[0]) is None


def test_service_on_a_foreign_pool_starts_only_with_adopt(
    operator: OperatorClient, http: httpx.Client
) -> None:
    operator.pool("one")
    operator.send("q", "other")
    store = operator.stores[0]
    owner = _owner(store)
    serve = [sys.executable, "-m", "zaqar_redis.cli.main", "serve", "--storage", store.uri]
    refusal = subprocess.run([*serve, "--bind", "127.0.0.1:1"], capture_output=True, text=True)
    assert refusal.returncode == 1
    assert store.uri in refusal.stderr
    assert "--adopt" in refusal.stderr
    assert _owner(store) == owner
    with servers.service(store.uri, "--adopt") as service:
        assert _owner(store) not in (None, owner)
        assert ZaqarTestClient(http, service.url, operator.project).bodies("q") == ["other"]


def _forget_pools(operator: OperatorClient) -> None:
    """Empties the control store, as if it had been replaced."""
    with operator.default_store.client() as client:
        client.flushall()
        client.publish("zr:{control}:news", "pools")
    servers.wait_for(lambda: operator.get("/pools").json()["pools"] == [], "no pools")


def _owner(store: servers.RedisServer) -> bytes | None:
    with store.client() as client:
        owner = client.get("zr:owner")
    assert owner is None or isinstance(owner, bytes)
    return owner


def test_pool_with_a_flavor_creates_the_flavor(operator: OperatorClient) -> None:
    operator.pool("one", 0, flavor="fast")
    assert operator.get("/flavors/fast").json()["pool_list"] == ["one"]
    assert operator.request("PUT", "/queues/q", {"_flavor": "fast"}).status_code == 201
    refused(operator.request("DELETE", "/pools/one"), 403)


def test_pool_of_a_queue_is_shown(operator: OperatorClient) -> None:
    operator.send("old", 1)
    refused(operator.get("/queues/nothing/pool"), 404, "nothing")
    operator.pool("one", 0)
    operator.send("new", 1)
    for queue, pool in (("old", "default"), ("new", "one")):
        document = {"queue": queue, "pool": pool, "moving_to": None}
        assert operator.get(f"/queues/{queue}/pool").json() == document


@pytest.mark.nightly
def test_queues_are_spread_by_weight(operator: OperatorClient) -> None:
    names = [f"q{number:02}" for number in range(12)]
    for name in names:
        operator.send(name, name)
    assert operator.get("/rebalance").json() == {
        "running": False,
        "stores": [{"name": "default", "queues": 12, "due": 12}],
        "stayed": {"queues": 0, "why": []},
    }
    operator.pool("one", 0, weight=300)
    operator.pool("two", 1, weight=100)
    before = operator.get("/rebalance").json()["stores"]
    due = [("default", 12, 0), ("one", 0, 9), ("two", 0, 3)]
    assert [tuple(store.values()) for store in before] == due
    answer = operator.request("PUT", "/rebalance")
    assert (answer.status_code, answer.json()["running"]) == (202, True)
    servers.wait_for(
        lambda: not operator.get("/rebalance").json()["running"], "the rebalance to end"
    )
    after = operator.get("/rebalance").json()["stores"]
    assert [store["queues"] for store in after] == [0, 9, 3]
    found = [operator.queues_in(store) for store in (operator.default_store, *operator.stores)]
    assert (len(found[0]), found[1] | found[2]) == (0, set(names))
    for name in names:
        assert operator.bodies(name) == [name]
    operator.request("PUT", "/rebalance")
    assert operator.request("DELETE", "/rebalance").status_code == 204
    assert operator.get("/rebalance").json()["running"] is False


def test_pools_are_for_admin_mode_only(api: ZaqarTestClient) -> None:
    for path in ("/pools", "/pools/p", "/flavors", "/flavors/f"):
        assert api.get(path).status_code == 404
        assert "pool" not in api.get("/").text
