# SPDX-License-Identifier: Apache-2.0
"""What a control store promises: pools, flavors, and where each queue lives.

All of it belongs to the operator; none of it is seen by a project.  Each method
is one atomic step, so that several workers and operators agree.  Every method
may raise `errors.StoreUnavailable` or `errors.Overloaded`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol

from zaqar_redis.records import Checked, Flavor, Job, Located, Move, Placed, Pool
from zaqar_redis.records import Pools as AllPools

#: The pool of queues that are in none: the service's own store.
DEFAULT = "default"
#: Pools, and flavors: one script reads all of them.
POOLS_MAX = 1000


class Pools(Protocol):
    """Stores that queues are spread over."""

    def put(
        self,
        pool: Pool,
        *,
        canonical: str,
        version: int | None = None,
        with_flavor: bool = True,
    ) -> Awaitable[bool | None]:
        """Make or replace a pool, and *with_flavor* its flavor if need be; True when it is new.

        None, and nothing is changed, when pools have changed since *version*.
        *canonical* is the one spelling of its URI.  Raises UriTaken when it is
        another pool's, and TooMany.
        """

    def get(self, name: str) -> Awaitable[Pool | None]:
        """The pool, or None."""

    def list(self) -> Awaitable[AllPools]:
        """All pools; there are 1000 at most."""

    def delete(self, name: str) -> Awaitable[None]:
        """Idempotent.  Raises PoolInUse while queues live in it, and FlavorEmptied
        when it is the last one of a flavor."""


class Flavors(Protocol):
    """Groups of pools.  A pool is in one at most."""

    def put(self, name: str, pools: Sequence[str]) -> Awaitable[bool]:
        """Make a flavor of just these pools; True when it is new.

        Those of another flavor are taken from it, as stock Zaqar does: it may be left
        without any.  Raises NoSuchPool and TooMany.
        """

    def get(self, name: str) -> Awaitable[Flavor | None]:
        """The flavor with its pools, or None."""

    def list(self) -> Awaitable[Sequence[Flavor]]:
        """All flavors in order of name; there are 1000 at most."""

    def describe(self, name: str, about: Any) -> Awaitable[None]:
        """Note what a flavor can do, in stock Zaqar's terms; make it if need be.

        One that is made so has no pools.  Raises TooMany.
        """

    def delete(self, name: str) -> Awaitable[None]:
        """Idempotent; its pools stay, without a flavor."""


class Catalogue(Protocol):
    """Which pool each queue lives in, and which are on the move."""

    def locate(self, project: str, queue: str) -> Awaitable[Located]:
        """The queue's pool (None: in no catalogue), and its move if there is one."""

    def promise(self, project: str, queue: str) -> Awaitable[Located]:
        """Promise the epoch that a queue in no pool is to have, whichever it gets.

        The same for a day from the last call on.  Of a queue in a pool: that pool.
        """

    def assign(
        self, project: str, queue: str, pool: str, version: int, told: str | None = None
    ) -> Awaitable[str | None]:
        """Give a queue that has no pool this one; the pool it has now.

        A queue noted as deleted is alive again.  None when pools have changed since
        *version*, which the pool was chosen from, or another epoch is promised than the
        pool was *told*: look and choose again.  *told* is None for a queue that is there,
        and has an epoch.
        """

    def put(self, project: str, queue: str, pool: str) -> Awaitable[None]:
        """Let the catalogue say that a queue lives in a pool, wherever it was.

        Nothing is moved: this is for those who see to that themselves.
        """

    def deleted(self, project: str, queue: str) -> Awaitable[None]:
        """Note that the queue was deleted; its place is kept for a while."""

    def alive(self, project: str, queue: str) -> Awaitable[None]:
        """Take the note back."""

    def deleted_since(self, age: int, skip: int, limit: int) -> Awaitable[Sequence[Placed]]:
        """Queues noted as deleted at least *age* ms ago, oldest first."""

    def release(self, project: str, queue: str, pool: str) -> Awaitable[bool]:
        """Forget a queue noted as deleted, if it still is in this pool."""

    def pools_of(self, project: str) -> Awaitable[dict[str, int]]:
        """The pools that the project's queues live in, and how many in each."""

    def queues_of(self, pool: str, after: str, limit: int) -> Awaitable[Sequence[Placed]]:
        """Queues of a pool behind the marker *after* (`Placed.marker`), in a fixed order."""

    def count(self, pool: str) -> Awaitable[int]:
        """How many queues the pool has in the catalogue."""

    def begin(self, project: str, queue: str, move: Move) -> Awaitable[Move | None]:
        """Record that a queue moves; the unfinished earlier record when there is one.

        With an earlier record nothing is recorded: settle that one first.  Raises
        NotThere when the queue does not live in the source, and NoSuchPool when the
        target is gone or draining.
        """

    def commit(self, project: str, queue: str, move: Move) -> Awaitable[bool]:
        """Let the queue live where it moved to; False when no such move is recorded."""

    def end(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Forget the record of a move.  Idempotent."""

    def moves(self) -> Awaitable[Sequence[tuple[Placed, Move]]]:
        """Every move on record."""


class Jobs(Protocol):
    """What the process that moves queues is asked to do, and how that goes."""

    def put(self, name: str, job: Job) -> Awaitable[None]:
        """Ask for it, or note how it goes."""

    def get(self, name: str) -> Awaitable[Job | None]:
        """How it goes, or None."""

    def end(self, name: str) -> Awaitable[None]:
        """Forget it.  Idempotent."""


#: Called with (project, queue) whose place changed, or with None: pools changed.
News = Callable[[tuple[str, str] | None], None]


class Control(Protocol):
    """A control store."""

    @property
    def pools(self) -> Pools: ...

    @property
    def flavors(self) -> Flavors: ...

    @property
    def catalogue(self) -> Catalogue: ...

    @property
    def jobs(self) -> Jobs: ...

    async def start(self) -> None:
        """Connect.  Does not fail when the store is away: its calls do."""

    async def close(self) -> None:
        """Let go of every connection."""

    async def ping(self) -> None:
        """Raises StoreUnavailable when the store does not answer."""

    async def installation(self) -> str:
        """What tells this control store from all others, for good; made when first asked for."""

    async def watch(self, news: News) -> None:
        """Call *news* on changes that anybody makes; None after a gap."""

    def check(self, pools: Collection[str], repair: bool) -> AsyncIterator[Checked]:
        """Read the catalogue, and mend what can be with *repair*.

        Yields what does not fit together.  *pools* are all there are, and `DEFAULT`.
        """

    async def lead(self, role: str, seconds: float) -> bool:
        """Whether this process has the role for so long; one process at a time has it."""

    async def resign(self, role: str) -> None:
        """Let another process have the role now.  Idempotent."""
