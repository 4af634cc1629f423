# SPDX-License-Identifier: Apache-2.0
"""beanstalkd with its binlog, which it syncs at most once a second."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import aiostalk
import msgspec

from benchmarks.brokers.broker import QUEUE, new_folder, program
from zaqar_redis.benchmarks import servers


class BeanstalkdBroker:
    def __init__(self, stack: contextlib.ExitStack, payload: bytes) -> None:
        self._payload = payload
        words = [program("beanstalkd"), "-l", "127.0.0.1"]
        words += ["-b", str(new_folder(stack)), "-f", "1000"]
        process, self._port = stack.enter_context(
            servers.running("beanstalkd", lambda port: [*words, "-p", str(port)], {})
        )
        self.processes = {"beanstalkd": process}

    @contextlib.asynccontextmanager
    async def connect(
        self, count: int, *, claims: bool
    ) -> AsyncIterator[Sequence[BeanstalkdClient]]:
        address = ("127.0.0.1", self._port)
        async with contextlib.AsyncExitStack() as stack:
            connections = [
                # One answers one command after the other, so each client has its own.
                await stack.enter_async_context(
                    aiostalk.Client(address, encoding=None, use=QUEUE, watch=QUEUE)
                )
                for _ in range(count)
            ]
            yield [BeanstalkdClient(connection, self._payload) for connection in connections]


class BeanstalkdClient(msgspec.Struct, frozen=True):
    connection: aiostalk.Client
    payload: bytes

    async def post(self) -> bool:
        await self.connection.put(self.payload)
        return True

    async def claim_delete(self) -> bool:
        await self.connection.delete(await self.connection.reserve())
        return True

    async def purge(self) -> None:
        with contextlib.suppress(aiostalk.TimedOutError):
            while True:  # it has no command for it
                await self.connection.delete(await self.connection.reserve(timeout=0))
