# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the REST tests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.api.client import ZaqarTestClient
from tests.api.round_trips import CountedStore
from tests.support import fixtures, servers
from tests.support.backends import Backend
from tests.support.tiers import in_gate
from tests.support.ways import HOT, WAYS

#: Files of tests in which no route is hot.
_ASGI_ROUTES = {"test_pools", "test_schedules", "test_subscriptions", "test_subscription_notices"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames:
        is_asgi = metafunc.module.__name__.rpartition(".")[2] in _ASGI_ROUTES
        metafunc.parametrize("way", [HOT] if is_asgi else in_gate(WAYS))


@pytest.fixture(scope="session")
def http_by_way() -> Iterator[dict[str, httpx.Client]]:
    """One HTTP connection pool for all tests, by the way that requests take."""
    with contextlib.ExitStack() as stack:
        yield {
            way: stack.enter_context(httpx.Client(timeout=30, headers=headers))
            for way, headers in WAYS.items()
        }


@pytest.fixture
def http(http_by_way: dict[str, httpx.Client], way: str) -> httpx.Client:
    return http_by_way[way]


@pytest.fixture
def api(http: httpx.Client, service: servers.RunningService, project: str) -> ZaqarTestClient:
    """A client of a project of its own, at the service with default options."""
    return ZaqarTestClient(http, service.url, project)


@pytest.fixture
def other(api: ZaqarTestClient) -> ZaqarTestClient:
    """Another client of the same project."""
    return api.another_client()


#: A service with every optional feature enabled.
rich_service = fixtures.service(
    {
        "DEFAULT": {"admin_mode": True, "enable_checksum": True},
        "transport": {"message_encryption_key": "a key for tests", "client_id_uuid_safe": "off"},
        "signed_url": {"secret_key": "a secret for tests"},
    },
    scope="session",
)


@pytest.fixture
def rich(http: httpx.Client, rich_service: servers.RunningService, project: str) -> ZaqarTestClient:
    """A client of the service with every optional feature."""
    return ZaqarTestClient(http, rich_service.url, project)


@pytest.fixture
def store(redis_server: Backend, project: str) -> Iterator[CountedStore]:
    """The Redis driver without HTTP, with a clock that the test controls."""
    with asyncio.Runner() as runner:
        store = CountedStore(redis_server.uri, runner, project)
        # Years ahead of Redis' own clock, by which services on the same Redis sweep.
        store.clock.now = int(time.time() + 10 * 365 * 86400) * 1000
        store.run(store.driver.start())
        yield store
        store.run(store.driver.close())
