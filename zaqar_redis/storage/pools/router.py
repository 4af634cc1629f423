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
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, Verb, verb
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import IdempotencyKey, LockKind, MoveLock, NewMessage
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL, Catalogue, Control, Pools
from zaqar_redis.storage.pools.pool_stores import PoolStores, Route, StoreT
from zaqar_redis.storage.pools.retry import DEFAULT_RETRY, Attempts, RetryPolicy

A = TypeVar("A")

#: Most queues whose route is cached: about 300 bytes each.
_ROUTE_CACHE_SIZE = 10_000
#: Seconds within which a queue is created after its pool was chosen: then its reserved epoch is
#: gone.
_RESERVED_EPOCH_TTL_SECONDS = 60


class RoutingControl(Protocol):
    """What the router needs of a control store."""

    @property
    def pools(self) -> Pools: ...

    @property
    def catalogue(self) -> Catalogue: ...


ControlT = TypeVar("ControlT", bound=RoutingControl)


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
        self._retry = retry
        self._cache_ttl = cache_ttl
        self._expires = cache_ttl < math.inf
        self._cached_until = -math.inf
        self._route_cache: dict[tuple[str, str], Route[StoreT]] = {}
        self.stores: PoolStores[StoreT] = PoolStores(
            default,
            control.pools,
            open_pool,
            self.dead_letter,
            on_change=self._route_cache.clear,
            cache_ttl=cache_ttl,
        )
        #: called with a queue whose pool has changed, or None: any may have
        self.move_listeners: list[Callable[[tuple[str, str] | None], None]] = []

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
                result: A = yield act(known.driver)
                return result
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
                result = yield act(route.driver)
                return result
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
        if make and located.deleted and (yield from self._flavor_of(located.pool)) != flavor:
            yield self.forget(project, queue, located.pool)
            located = yield self.control.catalogue.locate(project, queue)
        if located.pool is None:
            if not make:
                return self.stores.default
            pool = yield from self._assign(project, queue, flavor, located.reserved_epoch)
        else:
            pool = located.pool
        route: Route[StoreT] = yield self.stores.get(pool)
        if len(self._route_cache) >= _ROUTE_CACHE_SIZE:
            self._route_cache.clear()
        self._route_cache[project, queue] = route
        return route

    @verb
    def forget(self, project: str, queue: str, pool: str) -> Steps[bool]:
        """Removes a queue marked as deleted from the catalogue, or the mark of one that exists.

        Returns whether it is not marked any more.  Raises Unavailable.
        """
        catalogue = self.control.catalogue
        transfer = (yield self.stores.get(pool)).driver.transfer
        if transfer is None:
            return False
        if (yield transfer.lock_missing(project, queue)):
            forgotten: bool = yield catalogue.release(project, queue, pool)
            return forgotten
        yield catalogue.alive(project, queue)
        return True

    @verb
    def expect_flavor(self, project: str, queue: str, flavor: str) -> Steps[None]:
        """Drops a cached route to a pool of another flavor: the queue may have been deleted."""
        known = self._route_cache.get((project, queue))
        if known is not None and (yield from self._flavor_of(known.name)) != flavor:
            self.invalidate_route(project, queue)

    def _flavor_of(self, pool: str) -> Steps[str]:
        """Returns the flavor of a pool; empty: it has none, as the default pool."""
        known = (yield self.stores.snapshot()).items
        return next((each.flavor for each in known if each.name == pool), "")

    def invalidate(self, changed_queue: tuple[str, str] | None) -> None:
        """Drops cached routes after a change that the control store announced."""
        if changed_queue is None:
            self._route_cache.clear()
            self.stores.invalidate()
        else:
            self._route_cache.pop(changed_queue, None)
        for listener in self.move_listeners:
            listener(changed_queue)

    def invalidate_route(self, project: str, queue: str) -> None:
        """Drops the cached route of a queue."""
        self._route_cache.pop((project, queue), None)

    def _expire_cache(self) -> None:
        if time.monotonic() > self._cached_until:
            self._cached_until = time.monotonic() + self._cache_ttl
            self._route_cache.clear()

    def _assign(self, project: str, queue: str, flavor: str, reserved_epoch: str) -> Steps[str]:
        catalogue = self.control.catalogue
        while True:
            known = yield self.stores.snapshot()
            name = yield from self._propose_pool(project, queue, flavor, known.items)
            if reserved_epoch:
                yield from self._reserve_epoch(name, project, queue, reserved_epoch)
            assigned: str | None = yield catalogue.assign(
                project, queue, name, known.version, reserved_epoch
            )
            if assigned is not None:
                break
            self.stores.invalidate()  # pools have changed, or an epoch was reserved meanwhile
            reserved_epoch = (yield catalogue.locate(project, queue)).reserved_epoch
        if reserved_epoch and assigned != DEFAULT_POOL:
            yield from self._reserve_epoch(DEFAULT_POOL, project, queue, "")
        return assigned

    def _reserve_epoch(self, name: str, project: str, queue: str, epoch: str) -> Steps[None]:
        transfer = (yield self.stores.get(name)).driver.transfer
        if transfer is not None:
            yield transfer.reserve_epoch(project, queue, epoch, _RESERVED_EPOCH_TTL_SECONDS)

    def _propose_pool(
        self, project: str, queue: str, flavor: str, pools: Iterable[Pool]
    ) -> Steps[str]:
        with contextlib.suppress(errors.MoveLocked):
            if (yield self.stores.default.driver.queues.get(project, queue)) is not None:
                return DEFAULT_POOL  # the queue is older than the catalogue
        pool: Pool | None = yield self.stores.choose_available(pools, flavor)
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
            unlocked: bool = yield transfer.unlock(project, queue, lock)
            return unlocked
        move = located.move
        if lock.kind is LockKind.GONE and move is not None and move.token == lock.token:
            # The mover died between two steps.
            committed: bool = yield self.control.catalogue.commit(project, queue, move)
            return committed
        return False


#: The router of a service, which awaits its verbs.
ServiceRouter = Router[Driver, Control]
