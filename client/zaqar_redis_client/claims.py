# SPDX-License-Identifier: Apache-2.0
"""What is claimed from a queue."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any

from zaqar_redis_client.errors import LeaseLost, Refused
from zaqar_redis_client.http import Together
from zaqar_redis_client.records import Message

if TYPE_CHECKING:
    from zaqar_redis_client.queues import AsyncQueue

#: Renewals within the time of a claim, and attempts within that of a renewal: so one answer that
#: does not come costs no lease.
_RENEWALS, _ATTEMPTS = 3, 2
#: Share of a claim's time that is left when it counts as lost: to stop what works on its messages
#: before others get them, whose clock may be a little faster.
_MARGIN = 0.1
#: Messages of a claim or page, ids of a request: the most that a service with the defaults takes.
PAGE, _LONGEST_PAGE = 20, 100
logger = logging.getLogger(__name__)
#: What runs.  A process that was forked has it, too, and must not collect it there: that would
#: take connections out of the event loop of its parent.
_tasks: set[asyncio.Task[None]] = set()


def started(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


class AsyncClaim:
    """Messages that are held until the claim ends, or they are deleted or given back."""

    def __init__(
        self,
        queue: AsyncQueue,
        claim_id: str,
        ttl: int,
        grace: int,
        messages: list[Message],
        sent_at: float,
    ) -> None:
        self._queue, self._connection = queue, queue._connection
        self.id = claim_id
        #: seconds
        self.ttl, self.grace = ttl, grace
        self.messages = messages
        # It counts from when a request was sent: only its answer may have been late.
        self._until = sent_at + (1 - _MARGIN) * ttl
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = {message.id for message in messages}
        self._path = f"{queue._path}/claims/{claim_id}"
        self._renewal: asyncio.Task[None] | None = None
        # ids: as many as the service gave
        self._most = most = min(max(PAGE, len(messages)), _LONGEST_PAGE)
        self._deletions = Together(lambda ids: pages(ids, most), self._delete)

    async def show(self) -> dict[str, Any]:
        """Returns its document: `ttl`, `age` and what it still holds.  Raises LeaseLost."""
        return await self._connection.document("GET", self._path, of_lease=True)

    async def renew(self, ttl: int | None = None) -> None:
        """Holds all that it still holds for as long again.  Raises LeaseLost."""
        sent_at, ttl = monotonic(), ttl or self.ttl
        document = {"ttl": ttl, "grace": self.grace}
        await self._connection.send("PATCH", self._path, document, of_lease=True)
        self._until = sent_at + (1 - _MARGIN) * ttl

    async def extend(self, message_id: str, ttl: int) -> None:
        """Holds one message for *ttl* seconds from now.  Raises LeaseLost."""
        await self._connection.require_extended("leases of single messages")
        document = {"ids": [message_id], "ttl": ttl}
        found = await self._connection.document("PATCH", self._path, document, of_lease=True)
        if message_id not in found["renewed"]:
            raise LeaseLost(404, "Not held", "the claim does not hold it any more", message_id)

    async def delete(self, *message_ids: str) -> None:
        """Deletes messages that it holds: they are done.  Raises LeaseLost: one was not held."""
        try:
            if len(message_ids) == 1:  # with those that other tasks delete
                await self._deletions.add(message_ids[0])
                return
            outcomes = [await self._delete(each) for each in pages(message_ids, self._most)]
            for error in filter(None, chain(*outcomes)):
                raise error
        finally:
            self.forget(message_ids)

    async def _delete(self, ids: Sequence[str]) -> Sequence[BaseException | None]:
        """Returns what became of each."""
        messages = f"{self._queue._path}/messages"
        if len(ids) > 1 and await self._connection.is_extended():
            path = f"{messages}?ids={','.join(ids)}&claim_ids={self.id}"
            with contextlib.suppress(Refused):  # one of them, so nothing was deleted
                await self._connection.send("DELETE", path)
                return [None] * len(ids)
        paths = (f"{messages}/{each}?claim_id={self.id}" for each in ids)
        singly = (self._connection.send("DELETE", path, of_lease=True) for path in paths)
        outcomes = await asyncio.gather(*singly, return_exceptions=True)
        return [each if isinstance(each, BaseException) else None for each in outcomes]

    async def release(
        self, ids: Sequence[str] | None = None, *, delay: int | None = None, reason: str = ""
    ) -> None:
        """Gives messages back, all or these; *delay*: seconds, None: as the queue says."""
        wanted = {"ids": None if ids is None else [*ids], "delay": delay, "reason": reason or None}
        document = {name: value for name, value in wanted.items() if value is not None}
        try:
            if not document:
                await self._connection.send("DELETE", self._path)
                return
            await self._connection.require_extended("leases of single messages")
            path = f"{self._path}/release"
            await self._connection.send("POST", path, document, of_lease=True, repeatable=False)
        finally:
            self.forget(self._held if ids is None else ids)

    @property
    def is_lost(self) -> bool:
        """Whether others may have its messages soon, or have them: it was not renewed in time."""
        return self._lost.done() or monotonic() >= self._until

    def keep(self) -> None:
        """Renews it from now on, until it holds nothing any more, is lost, or the client closes."""
        self._renewal = started(self._keep(self._connection.session))

    async def _keep(self, session: object) -> None:
        with contextlib.suppress(LeaseLost, TimeoutError):
            await asyncio.sleep(self.ttl / _RENEWALS)
            while self._connection.session is session:  # else it was closed
                async with asyncio.timeout(self._until - monotonic()):
                    await self._renew_patiently(session)
                await asyncio.sleep(self.ttl / _RENEWALS)
        self._lost.set_result(None)

    async def _renew_patiently(self, session: object) -> None:
        pause = self.ttl / _RENEWALS / _ATTEMPTS
        while self._connection.session is session:
            try:
                async with asyncio.timeout(pause):
                    await self.renew()
                return
            except LeaseLost:
                raise
            except TimeoutError:
                pass
            except Exception as error:  # of a credential it may be any
                logger.warning("a lease could not be renewed, yet: %s", error)
                await asyncio.sleep(pause)

    def forget(self, ids: Iterable[str]) -> None:
        """Renews these no more, if they are all that it still holds."""
        self._held -= {*ids}
        if not self._held and self._renewal is not None:
            self._renewal.cancel()


@dataclass(frozen=True, slots=True)
class AsyncLease:
    """A message that was claimed."""

    claim: AsyncClaim
    message: Message

    @property
    def body(self) -> Any:
        return self.message.body

    @property
    def is_lost(self) -> bool:
        """Whether another consumer may have the message soon, or has it: stop working on it."""
        return self.claim.is_lost

    async def lost(self) -> None:
        """Returns when `is_lost` becomes true, for what `AsyncQueue.consume` yields."""
        await asyncio.shield(self.claim._lost)

    async def ack(self) -> None:
        """Deletes the message: it is done.  Raises LeaseLost."""
        await self.claim.delete(self.message.id)

    async def release(self, *, delay: int | None = None, reason: str = "") -> None:
        """Gives it back; *delay*: seconds, None: as the queue says."""
        await self.claim.release([self.message.id], delay=delay, reason=reason)

    async def extend(self, ttl: int) -> None:
        """Holds it for *ttl* seconds from now.  Raises LeaseLost."""
        await self.claim.extend(self.message.id, ttl)


async def acknowledge(lease: AsyncLease) -> None:
    """Deletes a message; where that fails, it comes again, which is logged."""
    try:
        await lease.ack()
    except Exception as error:  # of a credential it may be any
        logger.warning("message %s may be done twice: %s", lease.message.id, error)


def pages(ids: Sequence[str], page: int = PAGE) -> list[Sequence[str]]:
    return [ids[at : at + page] for at in range(0, len(ids), page)]


async def give_back(leases: Iterable[AsyncLease]) -> None:
    """Makes messages available to others at once, or, if that fails, when their leases end."""
    ids: dict[AsyncClaim, list[str]] = {}
    for lease in leases:
        if lease.claim._connection.session:  # else it was closed
            ids.setdefault(lease.claim, []).append(lease.message.id)
    releases = (claim.release(each, delay=0) for claim, each in ids.items())
    for error in await asyncio.gather(*releases, return_exceptions=True):
        if error is not None:
            logger.warning("messages come back when their leases end: %s", error)
