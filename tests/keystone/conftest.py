# SPDX-License-Identifier: Apache-2.0
"""A Keystone, and services beside it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.keystone.receivers import TokenReceiver
from tests.support import fixtures, servers
from tests.support.keystone import RunningKeystone
from tests.support.keystone import keystone as running_keystone
from tests.support.servers import RedisServer, RunningService
from tests.support.tiers import in_gate
from tests.support.ways import WAYS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first test creates Keystone's database, or waits for another process that does.
    folder = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def keystone() -> Iterator[RunningKeystone]:
    with running_keystone() as running:
        yield running


#: Of the services beside Keystone: their pools are not those of other tests.
own_store = fixtures.redis("session")


#: A store that no service has used as its own.
pool_store = fixtures.redis("session")


def options_of_service(keystone: RunningKeystone, **more: object) -> dict[str, dict[str, object]]:
    """*more*: of the group ``keystone_authtoken``."""
    return {
        "DEFAULT": {"admin_mode": True},
        "auth": {"strategy": "keystone"},
        "signed_url": {"secret_key": "of the tests"},
        "trustee": keystone.trustee_options(),
        "notification": {"allowed_networks": "127.0.0.0/8"},
        "keystone_authtoken": keystone.service_options() | more,
    }


@pytest.fixture(scope="session")
def beside(keystone: RunningKeystone, own_store: RedisServer) -> Iterator[RunningService]:
    """A service beside Keystone, and in its catalogue."""
    with servers.service(own_store.uri, options=options_of_service(keystone)) as running:
        keystone.add_endpoint(running.url)
        yield running


class TokenClient:
    """Sends requests with tokens."""

    def __init__(self, http: httpx.Client, url: str, way: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._headers = {"Client-ID": str(uuid.uuid4())} | way

    def request(
        self,
        method: str,
        path: str,
        token: str | bytes | None = None,
        document: Any = None,
        headers: list[tuple[str, str]] | None = None,
    ) -> httpx.Response:
        """*path*: below ``/v2``.  *headers*: more of them; a name may come more than once."""
        sent: list[Any] = [*self._headers.items(), *(headers or [])]
        if token is not None:
            sent.append((b"X-Auth-Token", token if isinstance(token, bytes) else token.encode()))
        sent = [
            tuple(each if isinstance(each, bytes) else each.encode() for each in pair)
            for pair in sent
        ]
        return self._http.request(method, f"{self._url}/v2{path}", json=document, headers=sent)

    def post(self, queue: str, token: str, **more: Any) -> httpx.Response:
        document = {"messages": [{"body": "posted", "ttl": 300}]}
        return self.request("POST", f"/queues/{queue}/messages", token, document, **more)

    def listed(self, token: str | bytes | None = None, **more: Any) -> httpx.Response:
        return self.request("GET", "/queues", token, **more)


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as client:
        yield client


@pytest.fixture(params=in_gate(WAYS))
def api(http: httpx.Client, beside: RunningService, request: pytest.FixtureRequest) -> TokenClient:
    """A client whose requests take the fast path, and one whose requests take the ASGI path."""
    return TokenClient(http, beside.url, WAYS[request.param])


@pytest.fixture
def hot(http: httpx.Client, beside: RunningService) -> TokenClient:
    return TokenClient(http, beside.url, {})


@pytest.fixture
def queue() -> str:
    return f"queue-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def receiver() -> Iterator[TokenReceiver]:
    with servers.http_server(TokenReceiver()) as found:
        yield found
