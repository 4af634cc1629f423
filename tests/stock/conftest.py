# SPDX-License-Identifier: Apache-2.0
"""A store of stock Zaqar's, an empty one of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests import servers
from tests.stock.house import House, Ours


@pytest.fixture(scope="session")
def both() -> Iterator[House]:
    with servers.redis_server() as theirs, servers.redis_server() as ours:
        yield House(theirs, ours)


@pytest.fixture
def house(both: House) -> House:
    for server in (both.theirs, both.ours):
        with server.client() as client:
            client.flushall()
    return both


@pytest.fixture
def ours(house: House) -> Iterator[Ours]:
    with asyncio.Runner() as runner:
        made = Ours(house.ours.uri, runner)
        made.run(made.driver.start())
        yield made
        made.run(made.driver.close())
