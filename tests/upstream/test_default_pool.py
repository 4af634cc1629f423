# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar with pools over our stores: the default pool is our service's own store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import httpx
import pytest

from tests.stock.harness import StockZaqarStorage
from tests.support import servers
from tests.support.backends import Backend, NewStore
from tests.support.command_line import CommandLine
from tests.upstream import stock
from tests.upstream.rest_client import RestClient

pytestmark = [
    pytest.mark.filterwarnings("ignore:Call to deprecated hmset:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
]

_ADMIN: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}


class BothServices:
    """Our service, and stock Zaqar with the same message store and management store."""

    def __init__(self, url: str, zaqar: httpx.Client, default_pool: Backend) -> None:
        self._url = url
        self._zaqar = zaqar
        self.default_pool = default_pool

    def services(self, project: str) -> tuple[RestClient, RestClient]:
        """Returns clients of our service and of stock Zaqar."""
        return RestClient(self._url, project), RestClient("http://stock", project, self._zaqar)


@pytest.fixture(scope="module", params=["one Redis", "two Redis"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_store: NewStore
) -> Iterator[BothServices]:
    with contextlib.ExitStack() as stack:
        default_pool = stack.enter_context(new_store())
        other = request.param == "two Redis"
        management = stack.enter_context(new_store()) if other else default_pool
        options = _ADMIN | {"storage": {"control_uri": management.uri}}
        ours = stack.enter_context(servers.service(default_pool.uri, options=options))
        configured = stock.configuration(default_pool.uri, pooling=True, management=management.uri)
        folder = tmp_path_factory.mktemp("zaqar")
        yield BothServices(
            ours.url, stack.enter_context(stock.inside(folder, configured)), default_pool
        )


@pytest.fixture(params=["ours first", "stock first"])
def services(
    request: pytest.FixtureRequest, both: BothServices, project: str
) -> tuple[RestClient, RestClient]:
    ours, theirs = both.services(project)
    return (ours, theirs) if request.param == "ours first" else (theirs, ours)


def test_queue_of_either_service_is_visible_to_both(
    services: tuple[RestClient, RestClient],
) -> None:
    one, other = services
    one.ask("PUT", "/queues/orders", {"colour": "red"})
    ids = one.post("orders", 1, 2)
    assert other.listed("orders") == one.listed("orders")
    assert [queue["name"] for queue in other.ask("GET", "/queues")["queues"]] == ["orders"]
    assert other.ask("GET", "/queues/orders")["colour"] == "red"
    assert other.ask("GET", f"/queues/orders/messages/{ids[0]}")["body"] == 1
    other.post("orders", 3)
    claim, bodies = other.claim("orders", 2)
    assert bodies == [1, 2]
    assert one.stats("orders") == other.stats("orders") == (1, 2)
    one.ask("DELETE", f"/queues/orders/claims/{claim}")
    assert other.claim("orders", 10)[1] == [1, 2, 3]
    other.ask("DELETE", "/queues/orders")
    assert one.ask("GET", "/queues")["queues"] == []


def test_recreated_queue_is_visible_to_both_at_once(
    services: tuple[RestClient, RestClient],
) -> None:
    one, other = services
    for body in (1, 2):
        one.ask("PUT", "/queues/orders", {})
        one.post("orders", body)
        assert [each["body"] for each in other.listed("orders")] == [body]
        one.ask("DELETE", "/queues/orders")
    assert other.listed("orders") == []


def test_first_dead_letter_is_visible_to_both(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    one.ask("PUT", "/queues/jobs", {"_max_claim_count": 1, "_dead_letter_queue": "dead"})
    one.post("jobs", "poison")
    claim, _ = one.claim("jobs", 1)
    one.ask("DELETE", f"/queues/jobs/claims/{claim}")
    one.ask("POST", "/queues/jobs/claims", {"ttl": 300, "grace": 60})
    for service in services:
        assert [each["body"] for each in service.listed("dead")] == ["poison"]
        assert service.stats("dead") == (1, 0)
        names = [queue["name"] for queue in service.ask("GET", "/queues")["queues"]]
        assert names == ["dead", "jobs"]
    assert other.claim("dead", 1)[1] == ["poison"]


def test_imported_queues_are_visible_to_both(both: BothServices, project: str) -> None:
    ours, theirs = both.services(project)
    with servers.redis_server() as before:
        old = StockZaqarStorage(StockZaqarStorage.uri(before))
        old.make(project, "orders", colour="red")
        old.post(project, "orders", *range(3))
        shell = CommandLine(["--storage", both.default_pool.uri])
        shell.done("import-stock", "--from", StockZaqarStorage.uri(before))
    for service in (theirs, ours):
        assert [each["body"] for each in service.listed("orders")] == [0, 1, 2]
        assert service.ask("GET", "/queues/orders")["colour"] == "red"
        assert [queue["name"] for queue in service.ask("GET", "/queues")["queues"]] == ["orders"]
    theirs.post("orders", 3)
    assert ours.claim("orders", 10)[1] == [0, 1, 2, 3]
