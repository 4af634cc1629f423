# SPDX-License-Identifier: Apache-2.0
"""A broker for taskiq: `broker = ZaqarAsyncBroker("http://127.0.0.1:8888", "demo")`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from zaqar_redis_client.claims import acknowledge
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.errors import Unavailable
from zaqar_redis_client.jobs import body_of, data_of, delayed
from zaqar_redis_client.records import DraftFields

logger = logging.getLogger(__name__)

#: Seconds after which an unreachable service is asked again.
_PAUSE = 1.0


class ZaqarAsyncBroker(AsyncBroker):
    """Keeps taskiq's messages in one queue of a service.

    *url*, *project* and *credential*: those of `AsyncClient`.  *prefetch*: messages that a worker
    process claims at a time, 20 at most.  *claim_ttl*: seconds after which the messages of a killed
    worker come back; less than 60 needs the queue's `_min_claim_ttl`.  *message_ttl*: seconds that
    a message waits at most; `max_message_ttl` of the service is the limit.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8888",
        project: str | None = None,
        *,
        credential: Credential | str | None = None,
        queue: str = "taskiq",
        prefetch: int = 20,
        claim_ttl: int = 60,
        message_ttl: int = 1_209_600,
    ) -> None:
        super().__init__()
        self._client = AsyncClient(url, project, credential=credential)
        self._queue = self._client.queue(queue)
        self._prefetch, self._claim_ttl = prefetch, claim_ttl
        self._message_ttl = message_ttl

    async def shutdown(self) -> None:
        await super().shutdown()
        await self._client.close()

    async def kick(self, message: BrokerMessage) -> None:
        """Posts a message.

        Of its labels, `delay` has seconds, rounded up, and `priority` is 0 to 31.  Raises Refused
        and Unavailable.
        """
        labels = message.labels
        fields: DraftFields = {"ttl": self._message_ttl}
        if labels.get("delay") is not None:
            fields |= delayed(float(labels["delay"]))
        if labels.get("priority") is not None:
            fields["priority"] = int(labels["priority"])
        await self._queue.post(body_of(message.message), **fields)

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Yields messages for ever; those that were not taken go back when the iteration ends."""
        while True:
            try:
                leases = self._queue.consume(prefetch=self._prefetch, ttl=self._claim_ttl)
                async with contextlib.aclosing(leases):
                    async for lease in leases:
                        yield AckableMessage(
                            data=data_of(lease.body), ack=functools.partial(acknowledge, lease)
                        )
            except Unavailable as error:
                logger.warning("No messages for the moment: %s", error)
                await asyncio.sleep(_PAUSE)
