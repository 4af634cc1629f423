# SPDX-License-Identifier: Apache-2.0
"""A store that counts its round trips."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.stores import ContractStore, WrappedClient
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.storage.redis import RedisDriver


class RoundTripCounter(WrappedClient):
    """A client that counts round trips: calls issued together are one."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self._turn: object = None
        self.trips = 0

    async def call(self, call: RedisCommand) -> Any:
        if self._turn is None:
            self.trips += 1
            self._turn = asyncio.get_running_loop().call_soon(self._next)
        return await super().call(call)

    def _next(self) -> None:
        self._turn = None


class CountedStore(ContractStore):
    """The Redis driver without HTTP."""

    driver: RedisDriver
    counter: RoundTripCounter

    def client(self, uri: str) -> AsyncClient:
        self.counter = RoundTripCounter(super().client(uri))
        return self.counter

    def trips(self, act: Callable[[], object]) -> int:
        """Returns how many round trips *act* takes."""
        before = self.counter.trips
        act()
        return self.counter.trips - before
