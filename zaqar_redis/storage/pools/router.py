# SPDX-License-Identifier: Apache-2.0
"""The route of each queue: which store it is in, as this process knows it.

A cached route may be old.  That does no harm: a queue that has moved leaves a move
lock in its old store, and a caller that meets a move lock reads the catalogue again.

The router consists of verbs: the service awaits them, and the plugin of stock Zaqar and the
tasks of Spark run them blocking.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Pause, Steps, Verb, verb
from zaqar_redis.records import IdempotencyKey, LockKind, MoveLock, NewMessage, Pool, PoolsSnapshot
from zaqar_redis.storage.contract import Driver, Messages, PostDeadLetter, Queues
from zaqar_redis.storage.control import DEFAULT_POOL, Catalogue, Control, Pools
from zaqar_redis.storage.pools.retry import DEFAULT_RETRY, Attempts, RetryPolicy
from zaqar_redis.storage.transfer import Transfer

A = TypeVar("A")

#: Most queues whose route is cached: about 300 bytes each.
_ROUTE_CACHE_SIZE = 10_000
#: Seconds between looks at a store that another caller opens.
_OPENING_DELAY_SECONDS = 0.01
#: Seconds for which a removed pool still serves requests in progress.
_DRAIN_GRACE_SECONDS = 5.0
#: Seconds within which a queue is created after its pool was chosen.  The entry of a deleted
#: queue is kept for as long, so its reserved epoch is gone before it gets another pool.
_RESERVED_EPOCH_TTL_SECONDS = 60


class RoutableStore(Protocol):
    """What the router needs of a store."""

    @property
    def queues(self) -> Queues: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def transfer(self) -> Transfer | None: ...

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None: ...

    def start(self) -> Awaitable[None]: ...

    def close(self) -> Awaitable[None]: ...

    def ping(self) -> Awaitable[None]: ...


class RoutingControl(Protocol):
    """What the router needs of a control store."""

    @property
    def pools(self) -> Pools: ...

    @property
    def catalogue(self) -> Catalogue: ...


StoreT = TypeVar("StoreT", bound=RoutableStore)
ControlT = TypeVar("ControlT", bound=RoutingControl)


class Route(Generic[StoreT]):
    """A store, under the name that the catalogue has for it."""

    __slots__ = ("driver", "name", "pool")

    def __init__(self, name: str, driver: StoreT, pool: Pool | None) -> None:
        self.name = name
        self.driver = driver
        self.pool = pool


class Router(ComposedVerbs, Generic[StoreT, ControlT]):
    """The routes of all queues, and the open stores of all pools."""

    def __init__(
        self,
        default: StoreT,
        control: ControlT,
        open_pool: Callable[[Pool], StoreT],
        retry: RetryPolicy = DEFAULT_RETRY,
        *,
        cache_ttl: float = math.inf,
    ) -> None:
        """*cache_ttl*: seconds, for a process that the control store does not notify."""
        self.control = control
        self.open_pool = open_pool
        self.default = Route(DEFAULT_POOL, default, None)
        default.route_dead_letters(self.dead_letter)
        self._retry = retry
        self._cache_ttl = cache_ttl
        self._expires = cache_ttl < math.inf
        self._cached_until = -math.inf
        self._route_cache: dict[tuple[str, str], Route[StoreT]] = {}
        self._pools: PoolsSnapshot | None = None
        self._opened: dict[str, Route[StoreT]] = {}
        #: names of pools whose stores are being opened
        self._opening: set[str] = set()
        #: stores that are not used any more, and until when they serve (monotonic)
        self._drained: list[tuple[float, StoreT]] = []
        #: called with a queue whose pool has changed, or None: any may have
        self.move_listeners: list[Callable[[tuple[str, str] | None], None]] = []

    @verb
    def close(self) -> Steps[None]:
        stores = [self.default.driver, *(route.driver for route in self._opened.values())]
        yield [store.close() for store in (*stores, *(store for _, store in self._drained))]

    def route(
        self,
        project: str,
        queue: str,
        act: Callable[[StoreT], Awaitable[A]],
        *,
        make: bool = False,
        flavor: str = "",
        first: Route[StoreT] | None = None,
    ) -> Verb[A]:
        """Returns the result of *act* on the store of the queue.

        A queue without a catalogue entry is looked up in the default pool, unless *make*:
        then a pool of its *flavor* is assigned to it.  *first* is tried before the catalogue
        is read.  Raises what *act* raises, Unavailable when the `RetryPolicy` ends.
        """
        return Verb(None, self._steps(project, queue, act, make, flavor, first))

    def _steps(
        self,
        project: str,
        queue: str,
        act: Callable[[StoreT], Awaitable[A]],
        make: bool,
        flavor: str,
        first: Route[StoreT] | None,
    ) -> Steps[A]:
        if self._expires:
            self._expire_cache()
        known = first or self._route_cache.get((project, queue))
        if known is not None:
            try:
                return (yield act(known.driver))  # type: ignore[no-any-return]
            except errors.MoveLocked:
                pass  # the route is old, or the queue is being moved
            except errors.Unavailable:
                if not self._retry.outage_timeout:
                    raise
        attempts = Attempts(self._retry)
        while True:
            route: Route[StoreT] | None = None
            try:
                route = yield self.find(project, queue, make=make, flavor=flavor)
                return (yield act(route.driver))  # type: ignore[no-any-return]
            except errors.MoveLocked as met:
                pause = attempts.pause(met)
                if route is not None and (
                    yield from self._retry_at_once(project, queue, route, met.move_lock)
                ):
                    continue
            except errors.Unavailable as error:
                self.invalidate_route(project, queue)
                pause = attempts.pause(error)
            yield pause

    def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Verb[None]:
        """Posts a dead letter to its queue, wherever that is: a `PostDeadLetter`."""
        return self.route(
            project,
            queue,
            lambda store: store.messages.dead_letter(
                project, queue, message, client=client, idempotency_key=idempotency_key
            ),
            make=True,
        )

    @verb
    def find(
        self, project: str, queue: str, *, make: bool = False, flavor: str = ""
    ) -> Steps[Route[StoreT]]:
        """Returns the route by the catalogue.  Raises StoreUnavailable when it cannot be opened."""
        located = yield self.control.catalogue.locate(project, queue)
        if located.pool is None:
            if not make:
                return self.default
            pool = yield from self._assign(project, queue, flavor, located.reserved_epoch)
        else:
            pool = located.pool
        route: Route[StoreT] = yield self.store(pool)
        if len(self._route_cache) >= _ROUTE_CACHE_SIZE:
            self._route_cache.clear()
        self._route_cache[project, queue] = route
        return route

    @verb
    def store(self, name: str) -> Steps[Route[StoreT]]:
        """Opens and returns the store of a pool.  Raises StoreUnavailable when there is none."""
        if name == DEFAULT_POOL:
            return self.default
        while True:
            pool = (yield from self._pools_by_name()).get(name)
            if pool is None:
                self._pools = None
                pool = (yield from self._pools_by_name()).get(name)
            if pool is None:
                raise errors.StoreUnavailable(name) from LookupError(f'there is no pool "{name}"')
            route = self._opened.get(name)
            if route is not None and route.pool == pool:
                return route
            if route is not None and _same_store(route.pool, pool):
                route.pool = pool
                return route
            if name not in self._opening:
                return (yield from self._open(name, pool))
            yield Pause(_OPENING_DELAY_SECONDS)

    def _open(self, name: str, pool: Pool) -> Steps[Route[StoreT]]:
        self._opening.add(name)
        try:
            driver = self.open_pool(pool)
            driver.route_dead_letters(self.dead_letter)
            yield driver.start()
        finally:
            self._opening.discard(name)
        if name in self._opened:
            self._drain(self._opened[name])
        route = self._opened[name] = Route(name, driver, pool)
        self._route_cache.clear()
        return route

    @verb
    def choose_available(self, pools: Iterable[Pool], flavor: str) -> Steps[Pool | None]:
        """Returns a pool for a queue, by weight, whose store answers; None: no pool fits.

        Raises StoresUnavailable when pools fit, and none of them answers.
        """
        fit = list(pools)
        unavailable: list[str] = []
        while (pool := choose_by_weight(fit, flavor)) is not None:
            try:
                route = yield self.store(pool.name)
                yield route.driver.ping()
            except (errors.Unavailable, errors.BadConfiguration):
                fit.remove(pool)
                unavailable.append(pool.name)
            else:
                return pool
        if unavailable:
            raise errors.StoresUnavailable(names=", ".join(unavailable))
        return None

    @verb
    def routes(self, names: Sequence[str]) -> Steps[list[Route[StoreT]]]:
        return (yield [self.store(name) for name in names])  # type: ignore[no-any-return]

    @verb
    def drivers(self) -> Steps[list[StoreT]]:
        """Returns the drivers of the default pool, and of every other that can be opened."""
        found = [self.default.driver]
        for name in (yield from self._pools_by_name()):
            with contextlib.suppress(errors.Unavailable, errors.BadConfiguration):
                route = yield self.store(name)
                found.append(route.driver)
        return found

    @verb
    def pools(self) -> Steps[Mapping[str, Pool]]:
        """Returns all pools by name."""
        return (yield from self._pools_by_name())

    def _pools_by_name(self) -> Steps[Mapping[str, Pool]]:
        snapshot = yield from self._load_pools()
        return {pool.name: pool for pool in snapshot.items}

    def _load_pools(self) -> Steps[PoolsSnapshot]:
        self._expire_cache()
        if self._pools is None:
            found = yield self.control.pools.list()
            for name in self._opened.keys() - {pool.name for pool in found.items}:
                self._drain(self._opened.pop(name))
                self._route_cache.clear()
            self._pools = found
            yield self.close_drained()
        return self._pools

    def invalidate(self, changed_queue: tuple[str, str] | None) -> None:
        """Drops cached routes after a change that the control store announced."""
        if changed_queue is None:
            self._route_cache.clear()
            self._pools = None
        else:
            self._route_cache.pop(changed_queue, None)
        for listener in self.move_listeners:
            listener(changed_queue)

    def invalidate_route(self, project: str, queue: str) -> None:
        """Drops the cached route of a queue."""
        self._route_cache.pop((project, queue), None)

    @verb
    def close_drained(self) -> Steps[None]:
        """Closes stores that are not used any more, after their requests had time to end."""
        now = time.monotonic()
        due = [store for until, store in self._drained if until <= now]
        self._drained = [each for each in self._drained if each[0] > now]
        for store in due:
            yield store.close()

    def _drain(self, route: Route[StoreT]) -> None:
        self._drained.append((time.monotonic() + _DRAIN_GRACE_SECONDS, route.driver))

    def _expire_cache(self) -> None:
        if self._expires and time.monotonic() > self._cached_until:
            self._cached_until = time.monotonic() + self._cache_ttl
            self.invalidate(None)

    def _assign(self, project: str, queue: str, flavor: str, reserved_epoch: str) -> Steps[str]:
        catalogue = self.control.catalogue
        while True:
            known = yield from self._load_pools()
            name = yield from self._propose_pool(project, queue, flavor, known.items)
            if reserved_epoch:
                yield from self._reserve_epoch(name, project, queue, reserved_epoch)
            assigned: str | None = yield catalogue.assign(
                project, queue, name, known.version, reserved_epoch
            )
            if assigned is not None:
                break
            self._pools = None  # pools have changed, or an epoch was reserved meanwhile
            reserved_epoch = (yield catalogue.locate(project, queue)).reserved_epoch
        if reserved_epoch and assigned != DEFAULT_POOL:
            yield from self._reserve_epoch(DEFAULT_POOL, project, queue, "")
        return assigned

    def _reserve_epoch(self, name: str, project: str, queue: str, epoch: str) -> Steps[None]:
        transfer = (yield self.store(name)).driver.transfer
        if transfer is not None:
            yield transfer.reserve_epoch(project, queue, epoch, _RESERVED_EPOCH_TTL_SECONDS)

    def _propose_pool(
        self, project: str, queue: str, flavor: str, pools: Iterable[Pool]
    ) -> Steps[str]:
        with contextlib.suppress(errors.MoveLocked):
            if (yield self.default.driver.queues.get(project, queue)) is not None:
                return DEFAULT_POOL  # the queue is older than the catalogue
        pool: Pool | None = yield self.choose_available(pools, flavor)
        if pool is not None:
            return pool.name
        if flavor:
            raise errors.NoSuchFlavor(name=flavor)
        return DEFAULT_POOL

    def _retry_at_once(
        self, project: str, queue: str, route: Route[StoreT], lock: MoveLock | None
    ) -> Steps[bool]:
        """Returns whether to try again at once after a move lock was met."""
        self.invalidate_route(project, queue)
        located = yield self.control.catalogue.locate(project, queue)
        if (located.pool or DEFAULT_POOL) != route.name:
            return True
        if lock is None:
            return False
        transfer = route.driver.transfer
        if lock.kind in (LockKind.CLOSED, LockKind.INTO) and transfer is not None:
            # The catalogue named this store after the move lock was read: the lock is left over.
            return (yield transfer.unlock(project, queue, lock))  # type: ignore[no-any-return]
        move = located.move
        if lock.kind is LockKind.GONE and move is not None and move.token == lock.token:
            # The mover died between two steps.
            return (yield self.control.catalogue.commit(project, queue, move))  # type: ignore[no-any-return]
        return False


#: The router of a service, which awaits its verbs.
ServiceRouter = Router[Driver, Control]


def choose_by_weight(pools: Iterable[Pool], flavor: str) -> Pool | None:
    """Returns a pool for a new queue, by weight; None: no pool fits.

    A queue without a flavor goes to a pool without one.
    """
    fit = [
        pool for pool in pools if pool.flavor == flavor and pool.weight > 0 and not pool.draining
    ]
    return random.choices(fit, [pool.weight for pool in fit])[0] if fit else None


def _same_store(one: Pool | None, other: Pool) -> bool:
    return one is not None and (one.uri, one.options) == (other.uri, other.options)
