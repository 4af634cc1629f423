# SPDX-License-Identifier: Apache-2.0
"""Queues, by their clients: what each does with one message, and with several at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Protocol, cast, runtime_checkable

#: Messages of one claim: the limit of a service that has the defaults.
_CLAIM = 20


class Sender(Protocol):
    """A connected client of one queue."""

    async def open(self, address: str, queue: str, together: int) -> None: ...

    async def send(self, bodies: Sequence[Any]) -> None:
        """Returns when all are confirmed."""

    async def close(self) -> None: ...


@runtime_checkable
class QueueClient(Sender, Protocol):
    """One that takes messages, too."""

    async def take(self, count: int) -> int:
        """Receives at most *count* messages, and acknowledges them; returns how many."""


class Zaqar:
    """Ours: claims, and acknowledgements that one request of the client has together."""

    async def open(self, address: str, queue: str, together: int) -> None:
        from zaqar_redis_client import AsyncClient

        self._client = AsyncClient(address, "benchmark")
        self._queue = self._client.queue(queue)

    async def send(self, bodies: Sequence[Any]) -> None:
        await asyncio.gather(*map(self._queue.post, bodies))

    async def take(self, count: int) -> int:
        claims = -(-count // _CLAIM)
        shares = [count // claims + (number < count % claims) for number in range(claims)]
        return sum(await asyncio.gather(*map(self._take, shares)))

    async def _take(self, count: int) -> int:
        claim = await self._queue.claim(count)
        if claim is None:
            return 0
        await claim.delete(*(message.id for message in claim.messages))
        return len(claim.messages)

    async def close(self) -> None:
        await self._client.close()


class RabbitMQ:
    """aio-pika: a durable queue, publisher confirms, a prefetch of as many as are taken."""

    async def open(self, address: str, queue: str, together: int) -> None:
        import aio_pika

        self._new = aio_pika.Message
        self._persistent = aio_pika.DeliveryMode.PERSISTENT
        self._connection = await aio_pika.connect(address)
        self._channel = await self._connection.channel(publisher_confirms=True)
        await self._channel.set_qos(prefetch_count=together)
        self._queue = await self._channel.declare_queue(queue, durable=True)
        self._received: asyncio.Queue[Any] | None = None

    async def send(self, bodies: Sequence[Any]) -> None:
        await asyncio.gather(*map(self._publish, bodies))

    async def _publish(self, body: Any) -> None:
        message = self._new(json.dumps(body).encode(), delivery_mode=self._persistent)
        await self._channel.default_exchange.publish(message, self._queue.name)

    async def take(self, count: int) -> int:
        if self._received is None:
            self._received = asyncio.Queue()
            await self._queue.consume(self._received.put)
        messages = [await self._received.get() for _ in range(count)]
        for message in messages:
            json.loads(message.body)
        await messages[-1].ack(multiple=True)  # all that came before it, too
        return count

    async def close(self) -> None:
        # The broker has done before what this channel asked for before.
        await self._channel.declare_queue(self._queue.name, passive=True)
        await self._connection.close()


class Nats:
    """nats-py: a stream of JetStream in a file, a pull consumer, confirmed acknowledgements."""

    async def open(self, address: str, queue: str, together: int) -> None:
        import nats
        from nats.js.api import RetentionPolicy

        self._subject = queue
        self._client = await nats.connect(address)
        self._stream = self._client.jetstream()
        await self._stream.add_stream(
            name=queue, subjects=[queue], retention=RetentionPolicy.WORK_QUEUE
        )
        self._consumer = await self._stream.pull_subscribe(queue, durable="benchmark")

    async def send(self, bodies: Sequence[Any]) -> None:
        publish, subject = self._stream.publish, self._subject
        await asyncio.gather(*(publish(subject, json.dumps(body).encode()) for body in bodies))

    async def take(self, count: int) -> int:
        messages = await self._consumer.fetch(count)
        for message in messages:
            json.loads(message.data)
        await asyncio.gather(*(message.ack_sync() for message in messages))
        return len(messages)

    async def close(self) -> None:
        await self._client.close()


class Beanstalkd:
    """greenstalk, which blocks and has no batches: several leave one after the other.

    That is faster than a thread and a connection for each.
    """

    async def open(self, address: str, queue: str, together: int) -> None:
        from greenstalk import Client

        host, _, port = address.partition(":")
        self._client = Client((host, int(port)), use=queue, watch=queue)

    async def send(self, bodies: Sequence[Any]) -> None:
        for body in bodies:
            self._client.put(json.dumps(body))

    async def take(self, count: int) -> int:
        jobs = [self._client.reserve() for _ in range(count)]
        for job in jobs:
            json.loads(job.body)
            self._client.delete(job)
        return count

    async def close(self) -> None:
        self._client.close()


class RedisStreams:
    """redis-py, asyncio: a consumer group; several messages in one pipeline, or command."""

    async def open(self, address: str, queue: str, together: int) -> None:
        from redis.asyncio import Redis
        from redis.exceptions import ResponseError

        self._redis = Redis.from_url(address)
        self._key = queue
        with contextlib.suppress(ResponseError):  # it exists
            await self._redis.xgroup_create(queue, "benchmark", "0", mkstream=True)

    async def send(self, bodies: Sequence[Any]) -> None:
        if len(bodies) == 1:
            await self._redis.xadd(self._key, {"body": json.dumps(bodies[0])})
            return
        async with self._redis.pipeline(transaction=False) as pipeline:
            for body in bodies:
                pipeline.xadd(self._key, {"body": json.dumps(body)})
            await pipeline.execute()

    async def take(self, count: int) -> int:
        read = self._redis.xreadgroup("benchmark", "one", {self._key: ">"}, count)
        [(_, found)] = cast("list[tuple[bytes, Any]]", await read)
        for _, fields in found:
            json.loads(fields[b"body"])
        await self._redis.xack(self._key, "benchmark", *(message_id for message_id, _ in found))
        return len(found)

    async def close(self) -> None:
        await self._redis.aclose()


CLIENTS: dict[str, type[QueueClient]] = {
    each.__name__: each for each in (Zaqar, RabbitMQ, Nats, Beanstalkd, RedisStreams)
}
