# SPDX-License-Identifier: Apache-2.0
"""A store that keeps what it has acknowledged, for notifiers in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import fixtures, servers
from tests.support.receivers import AnsweringEndpoint, answering_endpoint
from tests.support.stores import ContractStore, opened

server = fixtures.redis("function", fsync="always")


@pytest.fixture
def store(server: servers.RedisServer, project: str) -> Iterator[ContractStore]:
    with opened(server.uri, project) as store:
        store.create_for_processes()
        yield store


@pytest.fixture
def uri() -> Iterator[str]:
    """Of a Redis that no other test uses."""
    with servers.redis_server() as server:
        yield server.uri


@pytest.fixture
def receiver() -> Iterator[AnsweringEndpoint]:
    with answering_endpoint() as endpoint:
        yield endpoint
