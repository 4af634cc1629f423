# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: a durable queue, persistent messages, publisher confirms."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from benchmarks.brokers.broker import QUEUE, new_folder, program
from zaqar_redis.benchmarks import servers


class RabbitBroker:
    def __init__(self, stack: contextlib.ExitStack, payload: bytes, *, queue_type: str) -> None:
        self._payload = payload
        self._queue_type = queue_type
        folder = new_folder(stack)
        server = program("rabbitmq-server")
        # Erlang's port mapper. Without one the server would start one that outlives it.
        words = [program("epmd"), "-address", "127.0.0.1", "-port"]
        _, epmd_port = stack.enter_context(
            servers.running("epmd", lambda port: [*words, str(port)], {})
        )
        environment = {
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "HOME": str(folder),  # for its cookie
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(servers.free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            # Its script becomes the server then, and does not wait for it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

        def command(port: int) -> Sequence[str]:
            (folder / "rabbitmq.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{port}\n")
            return [server]

        process, self._port = stack.enter_context(
            servers.running("rabbitmq-server", command, environment)
        )
        self.processes = {"rabbitmq-server": process}

    @contextlib.asynccontextmanager
    async def connect(self, count: int, *, claims: bool) -> AsyncIterator[Sequence[RabbitClient]]:
        async with await aio_pika.connect(f"amqp://127.0.0.1:{self._port}/") as connection:
            channel = await connection.channel(publisher_confirms=True)
            await channel.set_qos(prefetch_count=count)
            queue = await channel.declare_queue(
                QUEUE, durable=True, arguments={"x-queue-type": self._queue_type}
            )
            deliveries: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            if claims:
                await queue.consume(deliveries.put)
            yield [RabbitClient(channel, queue, deliveries, self._payload)] * count


class RabbitClient(msgspec.Struct, frozen=True):
    channel: AbstractChannel
    queue: AbstractQueue
    deliveries: asyncio.Queue[AbstractIncomingMessage]
    payload: bytes

    async def post(self) -> bool:
        message = aio_pika.Message(self.payload, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self.channel.default_exchange.publish(message, QUEUE)
        return True

    async def claim_delete(self) -> bool:
        message = await self.deliveries.get()
        await message.ack()
        return True

    async def purge(self) -> None:
        await self.queue.purge()
