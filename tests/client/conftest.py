# SPDX-License-Identifier: Apache-2.0
"""A service, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from zaqar_redis_client import AsyncClient

from tests.support import servers
from tests.support.backends import Backend


@pytest.fixture(scope="session")
def running(redis_server: Backend) -> Iterator[servers.RunningService]:
    options: dict[str, dict[str, object]] = {"signed_url": {"secret_key": "of the tests only"}}
    with servers.service(redis_server.uri, workers=2, options=options) as running:
        servers.wait_for(lambda: len(running.workers()) == 2, "two workers")
        yield running


@pytest.fixture
def client(
    running: servers.RunningService, project: str, runner: asyncio.Runner
) -> Iterator[AsyncClient]:
    client = AsyncClient(running.url, project)
    yield client
    runner.run(client.close())
