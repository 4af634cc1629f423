# SPDX-License-Identifier: Apache-2.0
"""The application: its parts, wired, and all its routes on one screen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import falcon.asgi
import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.api import body, problems
from zaqar_redis.api.door import Door
from zaqar_redis.api.rest import claims, home, messages, pools, queues
from zaqar_redis.auth.signed import Signer
from zaqar_redis.service.claims import Claims
from zaqar_redis.service.followed import FollowedQueues
from zaqar_redis.service.health import Health
from zaqar_redis.service.messages import Messages
from zaqar_redis.service.pools import Flavors, Pools, Rebalance
from zaqar_redis.service.queues import Queues
from zaqar_redis.service.sealing import Sealer
from zaqar_redis.service.waiting import Waiting
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled import PooledDriver
from zaqar_redis.storage.pooled.jobs import Jobs

LOG = logging.getLogger(__name__)

#: Seconds between looks for pools that are draining, but for news of them.
_TEND = 5.0


class Settings(msgspec.Struct, frozen=True):
    limits: rules.Limits = rules.Limits()
    admin_mode: bool = False
    enable_checksum: bool = False
    signing_key: str | None = None
    encryption_key: str | None = None
    #: requests of one worker that may wait for messages at a time
    max_waiting: int = 10_000
    #: seconds between the rounds of the sweeper
    sweep_interval: float = 60.0
    #: connections that one worker holds open at a time
    max_connections: int = 16_384
    #: seconds that a client may take to send one request
    request_timeout: float = 60.0


class Channels(Protocol):
    """See `zaqar_redis.api.channels`."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None: ...

    def has(self, path: str) -> bool: ...

    def leave(self) -> None: ...

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None: ...


class App:
    """The ASGI application over one store."""

    def __init__(
        self,
        driver: Driver,
        settings: Settings,
        channels: Callable[[FollowedQueues], Channels | None] | None = None,
    ) -> None:
        """*channels*: makes what answers websockets, and requests for the paths that are theirs."""
        limits = settings.limits
        self.settings = settings
        self._driver = driver
        self._sweep_interval = settings.sweep_interval
        self._chores: list[asyncio.Task[None]] = []
        self.waiting = Waiting(driver.feed, settings.max_waiting)
        sealer = Sealer(settings.encryption_key) if settings.encryption_key else None
        signer = Signer(settings.signing_key)
        of_queues = Queues(driver, limits, can_encrypt=sealer is not None)
        of_messages = Messages(driver, limits, sealer, self.waiting)
        of_claims = Claims(driver, limits, of_messages, self.waiting)
        followed = FollowedQueues(driver, of_messages, limits)
        self._channels = channels(followed) if channels is not None else None
        health = Health(driver, None if self._channels is None else self._channels.ping)
        pooled = driver if isinstance(driver, PooledDriver) else None

        app: falcon.asgi.App[Any, Any] = falcon.asgi.App(middleware=[Door(limits, signer), self])
        app.req_options.keep_blank_qs_values = False
        problems.install(app)
        route = app.add_route
        route("/", home.Versions())
        route("/healthcheck", home.HealthCheck(health))
        route("/health", home.Healthy(health))
        route("/v2/", home.Home(settings.admin_mode, pooled is not None))
        route("/v2/ping", home.Ping(health))
        route("/v2/queues", queues.QueueCollection(of_queues))
        route("/v2/queues/{queue}", queues.QueueItem(of_queues, limits.max_queue_metadata))
        route("/v2/queues/{queue}/stats", queues.QueueStats(of_queues))
        route("/v2/queues/{queue}/purge", queues.QueuePurge(of_queues))
        route("/v2/queues/{queue}/share", queues.QueueShare(signer))
        route(
            "/v2/queues/{queue}/messages",
            messages.MessageCollection(of_messages, limits, settings.enable_checksum),
        )
        route("/v2/queues/{queue}/messages/{message}", messages.MessageItem(of_messages))
        route("/v2/queues/{queue}/claims", claims.ClaimCollection(of_claims))
        route("/v2/queues/{queue}/claims/{claim}", claims.ClaimItem(of_claims))
        if settings.admin_mode:
            route("/v2/health", home.HealthReport(health))
        if settings.admin_mode and pooled is not None:
            of_pools, of_flavors = Pools(pooled), Flavors(pooled)
            route("/v2/pools", pools.PoolCollection(of_pools, limits))
            route("/v2/pools/{pool}", pools.PoolItem(of_pools))
            route("/v2/queues/{queue}/pool", pools.QueuePool(of_pools))
            route("/v2/rebalance", pools.RebalanceItem(Rebalance(pooled)))
            route("/v2/flavors", pools.FlavorCollection(of_flavors, limits))
            route("/v2/flavors/{flavor}", pools.FlavorItem(of_flavors))
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            other = self._channels if scope["type"] == "websocket" else None
            await (other or self._app)(scope, receive, send)
            return
        if self._channels is not None and self._channels.has(scope["path"]):
            await self._channels(scope, receive, send)
            return
        first = await receive()

        async def again() -> Any:
            return first  # falcon takes one event and keeps it to itself

        scope[body.FIRST] = first
        scope[body.RECEIVE] = receive
        try:
            await self._app(scope, again, send)
        finally:
            # The server's request holds the scope: without a knot it is freed at once.
            del scope[body.RECEIVE]

    def leave(self) -> None:
        """The service is about to stop: nobody waits any more."""
        self.waiting.close()
        if self._channels is not None:
            self._channels.leave()

    async def process_startup(self, scope: Any, event: Any) -> None:
        await self._driver.start()
        if self._channels is not None:
            await self._channels.start()
        self._chores = [asyncio.create_task(self._sweep(), name="sweeper")]
        if isinstance(self._driver, PooledDriver):
            jobs = self._driver.jobs
            self._chores.append(asyncio.create_task(self._move(jobs), name="mover"))
            self._chores.append(asyncio.create_task(_mark(self._driver), name="owner"))

    async def process_shutdown(self, scope: Any, event: Any) -> None:
        try:
            if self._channels is not None:
                await self._channels.close()
            for chore in self._chores:
                chore.cancel()
            await asyncio.gather(*self._chores, return_exceptions=True)
        finally:
            await self._driver.close()

    async def _move(self, jobs: Jobs) -> None:
        while True:
            await jobs.wait(_TEND)
            try:
                moved = await jobs.tend()
            except errors.Unavailable:
                continue
            except Exception:  # the service goes on, and so does the next round
                LOG.exception("the mover failed", extra={"action": "move_failed"})
                continue
            if moved:
                LOG.info("moved %d queues", moved, extra={"action": "moved"})

    async def _sweep(self) -> None:
        sweeper = self._driver.sweeper
        while sweeper:
            await asyncio.sleep(self._sweep_interval)
            try:
                settled = await sweeper.sweep(self._sweep_interval)
            except errors.Unavailable:
                continue
            except Exception:  # e.g. a user without the right to a command: the service goes on
                LOG.exception("the sweeper failed", extra={"action": "sweep_failed"})
                continue
            if settled:
                LOG.info("swept %d", settled, extra={"action": "swept"})


async def _mark(driver: PooledDriver) -> None:
    """Let the service's own store say whose it is, as soon as both stores answer."""
    while True:
        try:
            if not await driver.adoption.mark_default():
                LOG.error(
                    "the store of this service, which was away when it started, belongs to "
                    "another installation: stop it before it makes queues there",
                    extra={"action": "store_owned"},
                )
            return
        except errors.Unavailable:
            await asyncio.sleep(_TEND)
        except Exception:  # e.g. a user without the right to write: the service goes on
            LOG.exception("cannot mark the store", extra={"action": "mark_failed"})
            return
