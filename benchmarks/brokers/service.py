# SPDX-License-Identifier: Apache-2.0
"""Our service: one worker, over a Redis that syncs its append-only file each second."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from benchmarks.brokers.broker import QUEUE, program
from benchmarks.support import deployment
from zaqar_redis.benchmarks.client import HttpConnection

_QUEUE = f"/v2/queues/{QUEUE}"


class ServiceBroker:
    def __init__(self, stack: contextlib.ExitStack, payload: bytes) -> None:
        program("redis-server")  # else the error would not name the package
        store = deployment.redis_server(stack, fsync="everysec")
        self._service, worker = deployment.service(stack, store)
        self._document = b'{"messages":[{"body":%b}]}' % payload
        self.processes = {"worker": worker, "redis-server": store.pid}

    @contextlib.asynccontextmanager
    async def connect(self, count: int, *, claims: bool) -> AsyncIterator[Sequence[ServiceClient]]:
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(contextlib.closing(self._service.connection()))
                for _ in range(count)
            ]
            yield [ServiceClient(connection, self._document) for connection in connections]


class ServiceClient(msgspec.Struct, frozen=True):
    connection: HttpConnection
    document: bytes

    async def post(self) -> bool:
        status, _ = await self.connection.request("POST", f"{_QUEUE}/messages", self.document)
        return status == 201

    async def claim_delete(self) -> bool:
        claims = f"{_QUEUE}/claims?limit=1"
        status, answer = await self.connection.request("POST", claims, b"{}")
        if status != 201:
            return False
        [claimed] = msgspec.json.decode(answer)["messages"]
        status, _ = await self.connection.request("DELETE", claimed["href"])
        return status == 204

    async def purge(self) -> None:
        await self.connection.request("DELETE", _QUEUE)
