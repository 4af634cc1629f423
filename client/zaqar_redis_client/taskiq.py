# SPDX-License-Identifier: Apache-2.0
"""A broker for taskiq: `broker = ZaqarBroker("http://127.0.0.1:8888", "demo")`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import math
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.errors import LeaseLost, Unavailable
from zaqar_redis_client.queues import AsyncLease
from zaqar_redis_client.records import DraftFields

logger = logging.getLogger(__name__)

#: Seconds that the service takes as a delay; later messages get a time by the client's clock.
_LONGEST_DELAY = 900
#: Seconds after which an unreachable service is asked again.
_PAUSE = 1.0


class ZaqarBroker(AsyncBroker):
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
        fields: DraftFields = {"ttl": self._message_ttl, **_delay(labels.get("delay"))}
        if labels.get("priority") is not None:
            fields["priority"] = int(labels["priority"])
        await self._queue.post(_body(message.message), **fields)

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Yields messages for ever; those that were not taken go back when the iteration ends."""
        while True:
            try:
                leases = self._queue.consume(prefetch=self._prefetch, ttl=self._claim_ttl)
                async with contextlib.aclosing(leases):
                    async for lease in leases:
                        yield AckableMessage(
                            data=_data(lease.body), ack=functools.partial(_acknowledge, lease)
                        )
            except Unavailable as error:
                logger.warning("No messages for the moment: %s", error)
                await asyncio.sleep(_PAUSE)


async def _acknowledge(lease: AsyncLease) -> None:
    try:
        await lease.ack()
    except (LeaseLost, Unavailable) as error:
        logger.warning("Message %s may be done twice: %s", lease.message.id, error)


def _delay(seconds: Any) -> DraftFields:
    if seconds is None:
        return {}
    whole = max(0, math.ceil(float(seconds)))
    if whole <= _LONGEST_DELAY:
        return {"delay": whole}
    return {"deliver_at": datetime.now(UTC) + timedelta(seconds=whole)}


def _body(data: bytes) -> Any:
    """Returns text, which is legible where messages are shown, or bytes that are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _data(body: Any) -> bytes:
    """Returns what was sent; of a schedule, say, the body is the document itself."""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
