# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a store of stock Zaqar, and an empty one of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.stock.harness import ImportedStore, ImportHarness
from tests.support import servers
from tests.support.backends import NewStore


@pytest.fixture(scope="session")
def both(new_store: NewStore) -> Iterator[ImportHarness]:
    with servers.redis_server() as theirs, new_store() as ours:
        yield ImportHarness(theirs, ours)


@pytest.fixture
def harness(both: ImportHarness) -> ImportHarness:
    for server in (both.theirs, both.ours):
        with server.client() as client:
            client.flushall()
    return both


@pytest.fixture
def ours(harness: ImportHarness) -> Iterator[ImportedStore]:
    with asyncio.Runner() as runner:
        store = ImportedStore(harness.ours.uri, runner)
        store.run(store.driver.start())
        yield store
        store.run(store.driver.close())
