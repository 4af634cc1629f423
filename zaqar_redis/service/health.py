# SPDX-License-Identifier: Apache-2.0
"""Try every kind of operation on the store, and say how long each took."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import Draft
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled import PooledDriver

LOG = logging.getLogger(__name__)

#: Messages posted and taken away again: as many as stock Zaqar's check.
_MESSAGES = 100


class Health:
    def __init__(
        self, driver: Driver, channels: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """*channels*: asks the stores of channels, if there are any."""
        self._driver = driver
        self._channels = channels

    async def ping(self) -> None:
        """Ask every store of queues.  Raises StoreUnavailable, which names those away."""
        await self._driver.ping()

    async def ping_all(self) -> None:
        """Ask the stores of channels, too.  Raises StoreUnavailable."""
        await self._driver.ping()
        if self._channels is not None:
            await self._channels()

    async def ping_own(self) -> None:
        """Ask what nothing can be served without: pools may be away.

        Raises StoreUnavailable.
        """
        if isinstance(self._driver, PooledDriver):
            await self._driver.control.ping()
            await self._driver.places.home.driver.ping()
        else:
            await self._driver.ping()

    async def check(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything could be done, and what was tried:
        ``{"storage_reachable", "operation_status": {operation: {...}}}``.

        With pools ``{"catalog_reachable", pool: {...}}``, each is tried by itself, the
        service's own store as "default".
        """
        if not isinstance(self._driver, PooledDriver):
            return _judged(await _check(self._driver))
        try:
            drivers = await self._driver.stores()
        except errors.Unavailable:
            home = self._driver.places.home.driver
            return False, {"catalog_reachable": False, DEFAULT: await _check(home)}
        if len(drivers) == 1:
            return _judged(await _check(drivers[DEFAULT]))
        checks = await asyncio.gather(*map(_check, drivers.values()))
        report = {"catalog_reachable": True} | dict(zip(drivers, checks, strict=True))
        return all(_judged(each)[0] for each in checks), report


def _judged(check: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    outcomes = check["operation_status"].values()
    return check["storage_reachable"] and all(each["succeeded"] for each in outcomes), check


async def _check(driver: Driver | None) -> dict[str, Any]:
    away = {"storage_reachable": False, "operation_status": {}}
    if driver is None:
        return away
    try:
        await driver.ping()
    except errors.StoreUnavailable:
        return away
    return {"storage_reachable": True, "operation_status": await _Operations(driver).tried()}


class _Operations:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def tried(self) -> dict[str, Any]:
        project, queue = f"health-{uuid.uuid4()}", "health"
        queues, messages = self._driver.queues, self._driver.messages
        claims = self._driver.claims
        draft = Draft(body=b'{"health": "check"}', ttl=60)
        status: dict[str, Any] = {}

        async def timed(name: str, operation: Awaitable[Any]) -> Any:
            start = time.monotonic()
            try:
                answer = await operation
            except errors.Unavailable as error:
                status[name] = _outcome(start, str(uuid.uuid4()))
                raise error
            status[name] = _outcome(start, None)
            return answer

        try:
            await timed("create_queue", queues.create(project, queue, {}))
            posted = await timed(
                "post_messages",
                messages.post(
                    project, queue, [draft] * _MESSAGES, client="health", default_ttl=60, size=0
                ),
            )
            taken = await timed(
                "claim_messages", claims.create(project, queue, ttl=60, grace=60, limit=1)
            )
            await timed(
                "list_messages",
                messages.list(
                    project,
                    queue,
                    after=None,
                    limit=10,
                    hide_client=None,
                    include_claimed=False,
                    include_delayed=False,
                ),
            )
            first, *others = posted.ids
            await timed(
                "delete_messages",
                messages.delete(project, queue, [first], claims=[taken.claim_id], force=False),
            )
            await timed("delete_claim", claims.delete(project, queue, taken.claim_id))
            await timed(
                "bulk_delete_messages",
                messages.delete(project, queue, others, claims=None, force=True),
            )
        except errors.Unavailable as error:
            LOG.warning(
                "the health check: %s", errors.reason(error), extra={"action": "check_failed"}
            )
        # In any case: what was made is not left behind.
        with contextlib.suppress(errors.Unavailable):
            await timed("delete_queue", queues.delete(project, queue))
        return status


def _outcome(start: float, reference: str | None) -> dict[str, Any]:
    return {
        "succeeded": reference is None,
        "seconds": time.monotonic() - start,
        "ref": reference,
    }
