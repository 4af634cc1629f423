# SPDX-License-Identifier: Apache-2.0
"""Results of jobs, for those who ask: in a queue of the asking process, by correlation id."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from math import inf
from typing import Any

from zaqar_redis_client.claims import AsyncLease, acknowledge
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.errors import JobFailed
from zaqar_redis_client.records import Attribute, DraftFields, Message

logger = logging.getLogger(__name__)

#: Seconds that a job lives whose poster waits for its result, and at least that a result does.
_TTL = 60
#: Seconds until the next attempt when the service is away.
_PAUSE = 1.0
#: The attribute of a reply that is no result, but the reason why there is none.
_FAILED = "failed"


class Replies:
    """What one client has asked for."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._name = f"replies-{uuid.uuid4()}"
        #: by correlation id; as many as there are callers
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._receiving: asyncio.Task[None] | None = None
        #: of what was received: no more is claimed while the service is away
        self._acks: set[asyncio.Task[None]] = set()

    async def ask(self, queue: str, body: Any, fields: DraftFields) -> Any:
        """Posts a job, and returns its result.  Raises JobFailed and TimeoutError."""
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive())
        correlation_id = str(uuid.uuid4())
        ttl = fields.get("ttl") or _TTL
        mine = {"reply_to": self._name, "correlation_id": correlation_id}
        sent: DraftFields = {"ttl": ttl, "attributes": {**fields.get("attributes", {}), **mine}}
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ttl):
                await self.client.queue(queue).post(body, **fields | sent)
                return await future
        except TimeoutError:
            what = f"{body['task']}: no result from queue {queue} within {ttl} seconds"
            raise TimeoutError(f"{what}: it was not done, or has failed") from None
        finally:
            del self._waiting[correlation_id]

    async def _receive(self) -> None:
        queue = self.client.queue(self._name)
        while True:
            try:
                async with contextlib.aclosing(queue.consume()) as leases:
                    async for lease in leases:
                        self._settle(lease.message)
                        # Those of a claim leave together.
                        ack = asyncio.create_task(acknowledge(lease))
                        self._acks.add(ack)
                        ack.add_done_callback(self._acks.discard)
            except Exception as error:  # of a credential it may be any
                logger.warning("results: %s", error)
                await asyncio.sleep(_PAUSE)

    def _settle(self, message: Message) -> None:
        future = self._waiting.get(str(message.attributes.get("correlation_id")))
        if future is None or future.done():
            return
        if _FAILED in message.attributes:
            future.set_exception(JobFailed(message.body))
        else:
            future.set_result(message.body)

    async def close(self) -> None:
        """Closes the client, too."""
        async with self.client:
            if self._receiving is None:
                return
            self._receiving.cancel()
            await asyncio.wait({self._receiving, *self._acks})
            try:
                await self.client.queue(self._name).delete()
            except Exception as error:  # of a credential it may be any
                logger.warning("queue %s stays: %s", self._name, error)


async def reply(client: AsyncClient, asked: Message, result: Any, **more: Attribute) -> None:
    """Posts the result of a job, if somebody waits for it: once, however often it is done."""
    if not asked.attributes.get("reply_to"):
        return
    correlation_id = str(asked.attributes.get("correlation_id", ""))
    await client.queue(str(asked.attributes["reply_to"])).post(
        result,
        ttl=max(_TTL, asked.ttl - asked.age),
        dedup_id=correlation_id or None,
        attributes={"correlation_id": correlation_id, **more},
    )


async def reply_if_dead(client: AsyncClient, lease: AsyncLease, reason: str) -> None:
    """Posts why a job has failed, if somebody waits for it and it becomes a dead letter."""
    asked, name = lease.message, lease.claim._queue.name
    if "reply_to" not in asked.attributes:
        return
    with contextlib.suppress(Exception):  # of a credential it may be any; the time ends by itself
        known = await client.queue(name).metadata()
        attempts = known.get("_max_claim_count") or inf
        if asked.claim_count >= attempts and known.get("_dead_letter_queue", name) != name:
            await reply(client, asked, reason, **{_FAILED: 1})
