# SPDX-License-Identifier: Apache-2.0
"""What is claimed from a queue."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zaqar_redis_client.errors import LeaseLost, Unsupported, ZaqarError
from zaqar_redis_client.records import Message

if TYPE_CHECKING:
    from zaqar_redis_client.queues import AsyncQueue


class AsyncClaim:
    """Messages that are held until the claim ends, or they are deleted or given back."""

    def __init__(
        self, queue: AsyncQueue, claim_id: str, ttl: int, grace: int, messages: list[Message]
    ) -> None:
        self._queue = queue
        self.id = claim_id
        #: seconds
        self.ttl, self.grace = ttl, grace
        self.messages = messages
        self._held = {message.id for message in messages}
        self._path = f"{queue._path}/claims/{claim_id}"
        self._renewal: asyncio.Task[None] | None = None

    async def show(self) -> dict[str, Any]:
        """Returns its document: `ttl`, `age` and what it still holds.  Raises LeaseLost."""
        return dict((await self._queue._connection.send("GET", self._path, of_lease=True)).document)

    async def renew(self, ttl: int | None = None) -> None:
        """Holds all that it still holds for as long again.  Raises LeaseLost."""
        document = {"ttl": ttl or self.ttl, "grace": self.grace}
        await self._queue._connection.send("PATCH", self._path, document, of_lease=True)

    async def extend(self, message_id: str, ttl: int) -> None:
        """Holds one message for *ttl* seconds from now.  Raises LeaseLost."""
        await self._require_leases()
        document = {"ids": [message_id], "ttl": ttl}
        answer = await self._queue._connection.send("PATCH", self._path, document, of_lease=True)
        if message_id not in answer.document["renewed"]:
            raise LeaseLost(404, "Not held", "the claim does not hold it any more", message_id)

    async def delete(self, message_id: str) -> None:
        """Deletes a message that it holds: it is done.  Raises LeaseLost."""
        try:
            await self._queue._delete_held(self.id, message_id)
        finally:
            self._forget([message_id])

    async def release(
        self, ids: Sequence[str] | None = None, *, delay: int | None = None, reason: str = ""
    ) -> None:
        """Gives messages back, all or these; *delay*: seconds, None: as the queue says."""
        try:
            if ids is None and delay is None and not reason:
                await self._queue._connection.send("DELETE", self._path)
                return
            await self._require_leases()
            document: dict[str, Any] = {"reason": reason} if reason else {}
            document |= {} if ids is None else {"ids": [*ids]}
            document |= {} if delay is None else {"delay": delay}
            path = f"{self._path}/release"
            await self._queue._connection.send(
                "POST", path, document, of_lease=True, repeatable=False
            )
        finally:
            self._forget(self._held if ids is None else ids)

    async def keep(self) -> None:
        """Renews the claim in time, again and again, until it is cancelled or has ended."""
        with contextlib.suppress(LeaseLost):
            while True:
                await asyncio.sleep(self.ttl / 3)
                with contextlib.suppress(ZaqarError):
                    await self.renew()

    def ends_when_empty(self, renewal: asyncio.Task[None]) -> None:
        """Ends its renewal with the last of its leases."""
        self._renewal = renewal
        self._forget(())

    def _forget(self, ids: Iterable[str]) -> None:
        self._held -= {*ids}
        if not self._held and self._renewal is not None:
            self._renewal.cancel()

    async def _require_leases(self) -> None:
        if not await self._queue._connection.is_extended():
            raise Unsupported("stock Zaqar has no leases of single messages")


@dataclass(frozen=True, slots=True)
class AsyncLease:
    """A message that was claimed."""

    claim: AsyncClaim
    message: Message

    @property
    def body(self) -> Any:
        return self.message.body

    async def ack(self) -> None:
        """Deletes the message: it is done.  Raises LeaseLost."""
        await self.claim.delete(self.message.id)

    async def release(self, *, delay: int | None = None, reason: str = "") -> None:
        """Gives it back; *delay*: seconds, None: as the queue says."""
        await self.claim.release([self.message.id], delay=delay, reason=reason)

    async def extend(self, ttl: int) -> None:
        """Holds it for *ttl* seconds from now.  Raises LeaseLost."""
        await self.claim.extend(self.message.id, ttl)
