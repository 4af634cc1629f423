# SPDX-License-Identifier: Apache-2.0
"""NATS JetStream: a work-queue stream in files, and one durable consumer that is pulled."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Sequence

import msgspec
import nats
from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy, StorageType

from benchmarks.brokers.broker import QUEUE, new_folder, program
from zaqar_redis.benchmarks import servers


class JetStreamBroker:
    def __init__(self, stack: contextlib.ExitStack, payload: bytes) -> None:
        self._payload = payload
        folder = new_folder(stack)
        configuration = folder / "nats.conf"
        words = [program("nats-server"), "--config", str(configuration)]

        def command(port: int) -> Sequence[str]:
            text = f'listen: "127.0.0.1:{port}", jetstream: {{store_dir: "{folder}"%s}}'
            configuration.write_text(text % ", sync_interval: 1s")
            if subprocess.run([*words, "-t"], capture_output=True).returncode:
                # Before 2.10 the interval is a constant, of a minute.
                configuration.write_text(text % "")
            return words

        process, self._port = stack.enter_context(servers.running("nats-server", command, {}))
        self.processes = {"nats-server": process}

    @contextlib.asynccontextmanager
    async def connect(
        self, count: int, *, claims: bool
    ) -> AsyncIterator[Sequence[JetStreamClient]]:
        connection = await nats.connect(f"nats://127.0.0.1:{self._port}")
        async with connection:
            context = connection.jetstream()
            # A message is deleted when it is acknowledged.
            retention = RetentionPolicy.WORK_QUEUE
            await context.add_stream(
                name=QUEUE, subjects=[QUEUE], retention=retention, storage=StorageType.FILE
            )
            yield [
                JetStreamClient(
                    context,
                    await context.pull_subscribe(QUEUE, durable=QUEUE, stream=QUEUE),
                    self._payload,
                )
                for _ in range(count)
            ]


class JetStreamClient(msgspec.Struct, frozen=True):
    context: JetStreamContext
    subscription: JetStreamContext.PullSubscription
    payload: bytes

    async def post(self) -> bool:
        await self.context.publish(QUEUE, self.payload)
        return True

    async def claim_delete(self) -> bool:
        [message] = await self.subscription.fetch(1)
        await message.ack_sync()
        return True

    async def purge(self) -> None:
        await self.context.purge_stream(QUEUE)
