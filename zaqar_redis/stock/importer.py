# SPDX-License-Identifier: Apache-2.0
"""Copies queues of a stock Zaqar store into ours, each whole or not at all.

A queue that is being copied has a gate ``into:import-…``: nobody else sees it.  An
import that is killed leaves that gate, by which the next one knows the half copy and
begins it anew.  A finished copy is known by the time at which the queue was made,
which it has from stock: nobody else makes a queue in the past.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from enum import StrEnum

from zaqar_redis import errors
from zaqar_redis.records import Queue, Record
from zaqar_redis.stock import layout
from zaqar_redis.stock.layout import Unreadable
from zaqar_redis.stock.portions import MESSAGES, Portions, Tally
from zaqar_redis.stock.source import Source
from zaqar_redis.stock.targets import Target
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.transfer import IMPORT, Transfer

#: Of a queue that is there.
_SINCE = "copied before; what stock Zaqar has got since then is not"

#: Called with how many more messages were read.
Told = Callable[[int], object]


class Fate(StrEnum):
    COPIED = "copied"
    WANTED = "to be copied"
    THERE = "already there"
    CONFLICT = "conflict"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        return self not in (Fate.CONFLICT, Fate.FAILED)


class Outcome(Record, frozen=True):
    """What became of a queue."""

    project: str
    queue: str
    fate: Fate
    why: str = ""
    #: of a queue that was, or would be, copied
    tally: Tally | None = None


class _Conflict(Exception):
    """There is another queue of this name; the text says which."""


class Importer:
    def __init__(self, source: Source, target: Target, *, now: int, dry: bool) -> None:
        """*now* is the source's time in seconds; when *dry*, nothing is written."""
        self._source = source
        self._target = target
        self._now = now
        self._dry = dry

    async def take(self, project: str, member: bytes, told: Told) -> Outcome:
        """Copy one queue, as its project's list names it.  Raises SourceAway."""
        name = member.decode(errors="replace")
        try:
            name = layout.name_of(project, member)
            queue = await self._source.queue(project, name)
            if await self._is_there(project, queue):
                return Outcome(project, name, Fate.THERE, _SINCE)
            portions = Portions(self._source, project, queue, self._now)
            if self._dry:
                await self._read(portions, told)
                return Outcome(project, name, Fate.WANTED, tally=portions.tally)
            await self._copy(project, queue, portions, told)
            return Outcome(project, name, Fate.COPIED, tally=portions.tally)
        except _Conflict as why:
            return Outcome(project, name, Fate.CONFLICT, str(why))
        except errors.Problem as problem:
            return Outcome(project, name, Fate.FAILED, problem.text)
        except Unreadable as why:
            return Outcome(project, name, Fate.FAILED, f"it cannot be read: {why}")

    async def _is_there(self, project: str, queue: Queue) -> bool:
        """Whether a finished import made it.  Raises _Conflict when somebody else did."""
        driver = await self._target.find(project, queue.name)
        transfer = _transfer(driver, queue.name)
        gate = await transfer.gate(project, queue.name)
        if gate.startswith((f"into:{IMPORT}", "closed:")):
            return False
        if gate:
            raise _Conflict("a queue of this name is on the move")
        there = await driver.queues.get(project, queue.name)
        if there is None:
            return False
        if there.created != queue.created:
            raise _Conflict("another queue of this name is there")
        if not self._dry:
            # The import may have been killed before it could list the queue.
            await transfer.welcome(project, queue.name, IMPORT)
        return True

    async def _read(self, portions: Portions, told: Told) -> None:
        before = 0
        async for _ in portions.read():
            told(portions.tally.copied[MESSAGES] - before)
            before = portions.tally.copied[MESSAGES]

    async def _copy(self, project: str, queue: Queue, portions: Portions, told: Told) -> None:
        flavor = queue.metadata.get("_flavor") or ""
        driver = await self._target.make(project, queue.name, flavor)
        transfer = _transfer(driver, queue.name)
        # Its own for each attempt: of two imports at once, the earlier one fails.
        token = IMPORT + secrets.token_hex(16)
        if not await transfer.stage(project, queue.name, token):
            raise _Conflict("a queue of this name was made meanwhile")
        try:
            before = 0
            async for portion in portions.read():
                await transfer.take_in(project, queue.name, token, portion)
                told(portions.tally.copied[MESSAGES] - before)
                before = portions.tally.copied[MESSAGES]
        except (Exception, asyncio.CancelledError):
            await self._undo(project, queue.name, transfer, token)
            raise
        await transfer.welcome(project, queue.name, token)

    async def _undo(self, project: str, queue: str, transfer: Transfer, token: str) -> None:
        with contextlib.suppress(errors.Unavailable):  # else the next import does it
            if await transfer.gate(project, queue) == f"into:{token}":
                await transfer.discard(project, queue, token)
                await self._target.give_up(project, queue)


def _transfer(driver: Driver, queue: str) -> Transfer:
    """Raises CannotMove."""
    if driver.transfer is None:
        raise errors.CannotMove(queue=queue, why="its store has no way to take queues in")
    return driver.transfer
