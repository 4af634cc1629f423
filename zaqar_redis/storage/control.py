# SPDX-License-Identifier: Apache-2.0
"""The contract of a control store: pools, flavors, the pools of queues, access keys, quotas,
histories of queues, recurring posts.

All of it belongs to the operator, and none is seen by a project, but for recurring posts.  Each
method, unless it says otherwise, is one atomic step, so that several workers and operators agree.
Every method may raise `errors.StoreUnavailable` or `errors.Overloaded`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from zaqar_redis.auth.access_keys import AccessKeys
from zaqar_redis.check_records import CheckResult
from zaqar_redis.figures import Alarm, HistoryPoint, LargeQueue, StoreStatus
from zaqar_redis.formats import WorkerRelease
from zaqar_redis.pool_records import CatalogueEntry, Flavor, Job, Move, Pool, QueueLocation
from zaqar_redis.pool_records import PoolsSnapshot as AllPools
from zaqar_redis.records import Page, Quota, QuotaNews
from zaqar_redis.schedule_records import DueSchedules, Schedule, StoredSchedule
from zaqar_redis.storage.contract import FormatMark

#: The default pool: the service's own store, for queues that are in no other pool.
DEFAULT_POOL = "default"
#: Most pools, and most flavors: one script reads all of them.
POOLS_MAX = 1000
#: Most projects with a quota of their own: every worker has all of them, about a megabyte.
QUOTAS_MAX = 10_000
#: Most schedules of a project: with the largest messages they take some 64 MB.
SCHEDULES_MAX = 1000


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
        """Creates or replaces a pool, and *with_flavor* its flavor if needed.

        Returns True when the pool is new, and None, without a change, when pools have
        changed since *version*.  *canonical* is the one spelling of its URI.  Raises
        UriTaken when another pool has that URI, and LimitExceeded.
        """

    def get(self, name: str) -> Awaitable[Pool | None]:
        """Returns the pool, or None."""

    def list(self) -> Awaitable[AllPools]:
        """Returns all pools, at most 1000."""

    def delete(self, name: str) -> Awaitable[None]:
        """Deletes a pool.  Idempotent.

        Raises PoolInUse while it has queues or moves from or to it have not ended, and
        FlavorEmptied when it is the last one of a flavor.
        """


class Flavors(Protocol):
    """Groups of pools.  A pool is in one at most."""

    def put(self, name: str, pools: Sequence[str]) -> Awaitable[bool]:
        """Creates or replaces a flavor of just these pools; returns True when it is new.

        Pools of another flavor are taken from that, as stock Zaqar does, which may leave it
        without any.  Raises NoSuchPool and LimitExceeded.
        """

    def get(self, name: str) -> Awaitable[Flavor | None]:
        """Returns the flavor with its pools, or None."""

    def list(self) -> Awaitable[Sequence[Flavor]]:
        """Returns all flavors, at most 1000, in order of name."""

    def describe(self, name: str, about: Any) -> Awaitable[None]:
        """Stores what a flavor can do, in stock Zaqar's terms.

        Creates the flavor, without pools, if needed.  Raises LimitExceeded.
        """

    def delete(self, name: str) -> Awaitable[None]:
        """Deletes a flavor; its pools stay, without one.  Idempotent."""


class Catalogue(Protocol):
    """The pool of each queue, and the queues that are being moved."""

    def locate(self, project: str, queue: str) -> Awaitable[QueueLocation]:
        """Returns the queue's pool (None: it has no entry), and its move if there is one."""

    def reserve_epoch(self, project: str, queue: str) -> Awaitable[QueueLocation]:
        """Reserves the epoch of a queue that has no pool, whichever pool it gets.

        The epoch stays the same for a day from the last call.  When the queue has a pool,
        returns that pool.
        """

    def assign(
        self, project: str, queue: str, pool: str, version: int, expected_epoch: str | None = None
    ) -> Awaitable[str | None]:
        """Assigns this pool to a queue that has none; returns the pool it has now.

        Removes the mark of a deleted queue.  Returns None when pools have changed since
        *version*, from which the pool was chosen, or the reserved epoch is not
        *expected_epoch*, which the pool has reserved: read and choose again.
        *expected_epoch* is None for a queue that exists, and so has an epoch.
        """

    def put(self, project: str, queue: str, pool: str) -> Awaitable[None]:
        """Sets the pool of a queue, whichever it was in.

        Nothing is moved: this is for callers that move the queue themselves.
        """

    def deleted(self, project: str, queue: str) -> Awaitable[None]:
        """Marks the queue as deleted; its entry is kept for a while."""

    def alive(self, project: str, queue: str) -> Awaitable[None]:
        """Removes the mark of a deleted queue."""

    def deleted_since(self, age: int, skip: int, limit: int) -> Awaitable[Sequence[CatalogueEntry]]:
        """Returns queues marked as deleted at least *age* ms ago, oldest first."""

    def release(self, project: str, queue: str, pool: str) -> Awaitable[bool]:
        """Removes the entry of a queue marked as deleted, if it is still in this pool."""

    def pools_of(self, project: str) -> Awaitable[dict[str, int]]:
        """Returns the pools that have queues of the project, and how many each has."""

    def queues_of(self, pool: str, after: str, limit: int) -> Awaitable[Sequence[CatalogueEntry]]:
        """Returns queues of a pool behind a `CatalogueEntry.marker`, in a fixed order."""

    def names(
        self, project: str, pool: str, after: str, limit: int, *, topics: bool = False
    ) -> Awaitable[Page[str]]:
        """Returns queues of a project in a pool, in order of name, behind the name *after*.

        *topics*: those that are topics, in the place of all others.  Without those that are marked
        as deleted: a page may be short, or empty, and still have a marker to go on from.  A queue
        whose creation failed may be among them, and those of the default pool that are older than
        the catalogue are not.
        """

    def count(self, pool: str) -> Awaitable[int]:
        """Returns how many queues the pool has in the catalogue.

        Until its move has ended, a queue counts in both pools.
        """

    def begin(self, project: str, queue: str, move: Move) -> Awaitable[Move | None]:
        """Records that a queue moves; returns an unfinished earlier record, if there is one.

        With an earlier record nothing is recorded: settle that one first.  Raises
        QueueNotInPool when the queue is not in the source, and NoSuchPool when the target
        does not exist or is draining.
        """

    def commit(self, project: str, queue: str, move: Move) -> Awaitable[bool]:
        """Assigns the queue to the target.

        Returns False when no such move is recorded, or it was withdrawn.
        """

    def withdraw(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Sees to it that a move is not committed any more; returns False when it is already."""

    def end(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Deletes the record of a move.  Idempotent."""

    def moves(self) -> Awaitable[Sequence[tuple[CatalogueEntry, Move]]]:
        """Returns every move on record."""


class Jobs(Protocol):
    """Jobs for the process that moves queues, and their progress."""

    def put(self, name: str, job: Job) -> Awaitable[None]:
        """Requests a job, or stores its progress."""

    def get(self, name: str) -> Awaitable[Job | None]:
        """Returns the job, or None."""

    def end(self, name: str) -> Awaitable[None]:
        """Deletes the job.  Idempotent."""


class Quotas(Protocol):
    """Quotas of projects that have others than the service's options say."""

    def put(self, project: str, quota: Quota) -> Awaitable[None]:
        """Creates or replaces the quota of a project.  Raises LimitExceeded."""

    def get(self, project: str) -> Awaitable[Quota | None]:
        """Returns the project's own quota, or None."""

    def list(self) -> Awaitable[dict[str, Quota]]:
        """Returns all quotas by project, at most 10 000."""

    def delete(self, project: str) -> Awaitable[None]:
        """Deletes the project's own quota.  Idempotent."""

    def report(
        self, worker: str, seconds: float, sockets: dict[str, int], version: int | None
    ) -> Awaitable[QuotaNews]:
        """Says that a worker lives, for *seconds* from now, and has these sockets by project.

        Returns what the others say, and the quotas if their version is not *version*.
        """

    def workers(self) -> Awaitable[Sequence[WorkerRelease]]:
        """Returns the releases of the workers that live."""


class Histories(Protocol):
    """The histories of the figures of queues, wherever these are, and what the process that writes
    them has seen: alarms about queues, and the largest queues of each store."""

    def append(
        self, project: str, points: Mapping[str, HistoryPoint], most: int, seconds: int
    ) -> Awaitable[None]:
        """Appends a point to the history of each of these queues, unless its figures are those
        of the last one.

        *most* points are kept, for *seconds* from the last one.  Each queue is one atomic step.
        """

    def read(self, project: str, queue: str) -> Awaitable[Sequence[HistoryPoint]]:
        """Returns the history of a queue, the oldest point first."""

    def put_alarms(
        self,
        alarms: Mapping[str, Sequence[Alarm]],
        largest: Mapping[str, Sequence[LargeQueue]],
        seconds: int,
    ) -> Awaitable[None]:
        """Replaces the alarms of all projects, and the largest queues of all stores.

        They are kept for *seconds*.  It works in a store whose memory is full, too.
        """

    def alarms(self, project: str) -> Awaitable[Sequence[Alarm]]:
        """Returns the alarms about queues of the project."""

    def all_alarms(self) -> Awaitable[Mapping[str, Sequence[Alarm]]]:
        """Returns the alarms about queues by project."""

    def largest_queues(self) -> Awaitable[Mapping[str, Sequence[LargeQueue]]]:
        """Returns the largest queues of each store, by its name, the largest first."""


class Schedules(Protocol):
    """Recurring posts of projects, and when each is due, by the clock of this store."""

    def put(
        self, project: str, name: str, schedule: Schedule, next_at: int
    ) -> Awaitable[bool | None]:
        """Creates or replaces a schedule, which is due at *next_at*; 0: it is not.

        Returns True when it is new, and None, without a change, when that time is past: choose
        a later one.  Raises LimitExceeded.
        """

    def get(self, project: str, name: str) -> Awaitable[tuple[int, StoredSchedule | None]]:
        """Returns the time, and the schedule or None."""

    def list(self, project: str, after: str, limit: int) -> Awaitable[Page[StoredSchedule]]:
        """Returns at most *limit* schedules behind a marker, in order of name."""

    def projects(self) -> AsyncIterator[str]:
        """Yields the projects that have schedules."""

    def delete(self, project: str, name: str) -> Awaitable[None]:
        """Deletes a schedule.  Idempotent."""

    def due(self, limit: int) -> Awaitable[DueSchedules]:
        """Returns at most *limit* schedules that are due, the longest due first."""

    def advance(self, stored: StoredSchedule, to: StoredSchedule, due: int) -> Awaitable[bool]:
        """Notes what has become of a schedule, and when to look at it again; 0: not any more.

        Returns False, without a change, when it is not as *stored*: it was replaced, deleted or
        advanced meanwhile.
        """

    def scan(self, cursor: str) -> Awaitable[tuple[str, Sequence[StoredSchedule]]]:
        """Returns some schedules that are or will be due, and the next cursor; empty: that was all.

        The first cursor is 0.  A schedule may come twice.
        """

    def accept_clock(self) -> Awaitable[None]:
        """Takes the present time for right, though later ones were seen."""


#: Called with (project, queue) whose pool changed, or with None: pools changed.
ChangeListener = Callable[[tuple[str, str] | None], None]


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

    @property
    def quotas(self) -> Quotas: ...

    @property
    def access_keys(self) -> AccessKeys: ...

    @property
    def histories(self) -> Histories: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def format(self) -> FormatMark: ...

    async def start(self) -> None:
        """Connects.  Does not fail when the store is unreachable: its calls do."""

    async def close(self) -> None:
        """Closes every connection."""

    async def ping(self) -> None:
        """Raises StoreUnavailable when the store does not answer."""

    async def status(self) -> StoreStatus | None:
        """Returns what the store says about itself; None: nothing.  Raises StoreUnavailable."""

    async def installation(self) -> str:
        """Returns the permanent id of this control store; the first call creates it."""

    async def watch(self, news: ChangeListener) -> None:
        """Calls *news* on changes, whoever makes them; with None after a gap."""

    def check(self, pools: Collection[str], repair: bool) -> AsyncIterator[CheckResult]:
        """Reads the catalogue, and with *repair* repairs what can be repaired.

        Yields inconsistencies.  *pools* are all pools, `DEFAULT_POOL` included.
        """

    async def lead(self, role: str, seconds: float) -> bool:
        """Takes or renews a role for *seconds*; returns False when another process has it."""

    async def resign(self, role: str) -> None:
        """Gives the role up, for another process to take.  Idempotent."""
