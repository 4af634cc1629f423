# SPDX-License-Identifier: Apache-2.0
"""Health checks: pings of the stores, and every kind of operation with its duration."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from zaqar_redis import errors
from zaqar_redis.check_records import OperationCheck, StoreHealth
from zaqar_redis.records import Lease, MessageListing, NewMessage
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

#: Seconds for every store to answer; those who ask wait little longer, e.g. Kubernetes.
_READY_TIMEOUT = 2.0
#: Messages posted and deleted again: as many as in stock Zaqar's check.
_MESSAGES = 100

#: What asks a store, by the store's name.
_Pings: TypeAlias = dict[str, Callable[[], Awaitable[None]]]


class HealthService:
    def __init__(
        self,
        driver: Driver,
        channels: Callable[[], Awaitable[None]] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """*channels*: pings the stores of channels, if there are any.

        *is_stopping*: whether the service was asked to stop.
        """
        self._driver = driver
        self._channels = channels
        self._is_stopping = is_stopping

    async def ready(self) -> None:
        """Pings every store, those of channels too, for a bounded time.

        Raises ServiceStopping, and StoresUnavailable, which names those that did not answer.
        """
        self._check_stopping()
        deadline = asyncio.get_running_loop().time() + _READY_TIMEOUT
        driver = self._driver
        pings: _Pings = {DEFAULT_POOL: driver.ping}
        if isinstance(driver, PooledDriver):
            pings = {"control": driver.control.ping, DEFAULT_POOL: driver.ping_default}
        if self._channels is not None:
            pings["channels"] = self._channels
        found = await asyncio.gather(_missing(pings, deadline), self._missing_pools(deadline))
        if missing := [name for names in found for name in names]:
            raise errors.StoresUnavailable(names=", ".join(missing))

    async def _missing_pools(self, deadline: float) -> list[str]:
        driver = self._driver
        if not isinstance(driver, PooledDriver):
            return []
        try:
            async with asyncio.timeout_at(deadline):
                pools = await driver.router.stores.pools()
        except (errors.Unavailable, TimeoutError):
            return []  # the control store is missing itself
        return await _missing({name: partial(driver.ping_pool, name) for name in pools}, deadline)

    def _check_stopping(self) -> None:
        if self._is_stopping():
            raise errors.ServiceStopping

    async def ping(self) -> None:
        """Pings every store of queues.  Raises StoreUnavailable, which names the stores."""
        await self._driver.ping()

    async def ping_all(self) -> None:
        """Pings the stores of channels, too.  Raises StoreUnavailable."""
        await self._driver.ping()
        if self._channels is not None:
            await self._channels()

    async def ping_essential(self) -> None:
        """Pings the stores that every request needs: pools may be unavailable.

        Raises StoreUnavailable, ServiceStopping.
        """
        self._check_stopping()
        if isinstance(self._driver, PooledDriver):
            await self._driver.control.ping()
            await self._driver.ping_default()
        else:
            await self._driver.ping()

    async def check(self) -> tuple[bool, StoreHealth | dict[str, StoreHealth | bool]]:
        """Returns whether every operation succeeded, and the report.

        With pools ``{"catalog_reachable": bool, pool: ...}``: each is checked by itself, the
        service's own store as "default".
        """
        if not isinstance(self._driver, PooledDriver):
            only = await _check(self._driver)
            return only.healthy, only
        try:
            drivers = await self._driver.stores()
        except errors.Unavailable:
            default = self._driver.router.stores.default.driver
            return False, {"catalog_reachable": False, DEFAULT_POOL: await _check(default)}
        if len(drivers) == 1:
            only = await _check(drivers[DEFAULT_POOL])
            return only.healthy, only
        checks = await asyncio.gather(*map(_check, drivers.values()))
        report = {"catalog_reachable": True} | dict(zip(drivers, checks, strict=True))
        return all(each.healthy for each in checks), report


async def _missing(pings: _Pings, deadline: float) -> list[str]:
    """Returns the names of the stores that do not answer until then, by the loop's clock."""

    async def answers(ping: Callable[[], Awaitable[None]]) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                await ping()
        except (errors.Unavailable, errors.BadConfiguration, TimeoutError):
            return False
        return True

    good = await asyncio.gather(*map(answers, pings.values()))
    return [name for name, is_good in zip(pings, good, strict=True) if not is_good]


async def _check(driver: Driver | None) -> StoreHealth:
    if driver is None:
        return StoreHealth(False, {})
    try:
        await driver.ping()
    except errors.Unavailable:
        return StoreHealth(False, {})
    return StoreHealth(True, await _operations(driver))


async def _operations(driver: Driver) -> dict[str, OperationCheck]:
    project, queue = f"health-{uuid.uuid4()}", "health"
    queues, messages, claims = driver.queues, driver.messages, driver.claims
    message = NewMessage(body=b'{"health": "check"}', ttl=60)
    status: dict[str, OperationCheck] = {}

    async def timed(name: str, operation: Awaitable[Any]) -> Any:
        start = time.monotonic()
        try:
            answer = await operation
        except errors.Unavailable as error:
            seconds = time.monotonic() - start
            status[name] = OperationCheck(False, seconds, ref=str(uuid.uuid4()))
            raise error
        status[name] = OperationCheck(True, time.monotonic() - start)
        return answer

    try:
        await timed("create_queue", queues.create(project, queue, {}))
        posted = await timed(
            "post_messages",
            messages.post(
                project, queue, [message] * _MESSAGES, client="health", default_ttl=60, size=0
            ),
        )
        claimed = await timed(
            "claim_messages", claims.create(project, queue, Lease(60, 60), limit=1)
        )
        await timed("list_messages", messages.list(project, queue, MessageListing(10)))
        first, *others = posted.ids
        await timed(
            "delete_messages",
            messages.delete(project, queue, [first], claims=[claimed.claim_id], force=False),
        )
        await timed("delete_claim", claims.delete(project, queue, claimed.claim_id))
        await timed(
            "bulk_delete_messages",
            messages.delete(project, queue, others, claims=None, force=True),
        )
    except errors.Unavailable as error:
        LOG.warning(
            "the health check failed: %s",
            errors.reason(error),
            extra={"action": "check_failed"},
        )
    # Also after a failure: no queue may be left behind.
    with contextlib.suppress(errors.Unavailable):
        await timed("delete_queue", queues.delete(project, queue))
    return status
