# SPDX-License-Identifier: Apache-2.0
"""The application: its services, and all its routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import falcon.asgi
from msgspec import structs

from zaqar_redis import errors
from zaqar_redis.api import openapi, problems, request_heads, resources, routes
from zaqar_redis.api.access_log import LoggingMiddleware, LoggingSockets
from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.endpoints import request_ids
from zaqar_redis.api.exchange import REQUEST_ID, Receive, Send
from zaqar_redis.api.notifications import Notifications
from zaqar_redis.api.resources import MeasuringMiddleware, RequestMiddleware
from zaqar_redis.api.rest.administration import AdministrationHandlers
from zaqar_redis.api.rest.claims import ClaimHandlers
from zaqar_redis.api.rest.home import HealthHandlers
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.api.rest.topics import TopicHandlers
from zaqar_redis.api.route_advice import RouteAdvice
from zaqar_redis.api.routes import HandlerSet
from zaqar_redis.api.server.hot_routes import HotRoutes
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.api.topic_routes import topic_routes
from zaqar_redis.api.tracing import RequestTracing
from zaqar_redis.api.websocket.actions import ActionHandlers
from zaqar_redis.api.websocket.connection import ConnectionContext
from zaqar_redis.api.websocket.front_end import WebSocketApi
from zaqar_redis.api.websocket.pushes import QueuePushes
from zaqar_redis.auth.access import Access, open_access
from zaqar_redis.auth.audit import AuditLog
from zaqar_redis.auth.policy import RELOAD_INTERVAL
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.metrics import sampling
from zaqar_redis.notify.trusts import TrustClient
from zaqar_redis.service.administration import AdministrationService
from zaqar_redis.service.claims import ClaimService
from zaqar_redis.service.encryption import BodyCipher
from zaqar_redis.service.health import HealthService
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.overview import OperatorServices
from zaqar_redis.service.pools import FlavorService, PoolService, RebalanceService
from zaqar_redis.service.queue_channels import QueueChannelService
from zaqar_redis.service.queue_metrics import QueueMetrics
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.quotas import QuotaService
from zaqar_redis.service.requests_in_flight import RequestsInFlight
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.formats import use_formats
from zaqar_redis.storage.pools.rebalance import Rebalancer

if TYPE_CHECKING:
    from zaqar_redis.api.channels import ChannelsFrontEnd

LOG = logging.getLogger(__name__)

#: Seconds between checks for pools to drain, unless a notification comes before.
_MOVER_INTERVAL = 5.0


class App:
    """The ASGI application over one store."""

    def __init__(
        self,
        driver: Driver,
        settings: ApiSettings,
        channels: Callable[[Access, QueueChannelService], ChannelsFrontEnd | None] | None = None,
        access: Access | None = None,
        audit: AuditLog | None = None,
        tracing: RequestTracing | None = None,
        *,
        trusts: TrustClient | None = None,
        for_command: bool = False,
        is_stopping: Callable[[], bool] = lambda: False,
        reads_queue_metrics: Callable[[], bool] = lambda: True,
    ) -> None:
        """*channels*: creates the front end of channels.

        *access*: None: that of everybody.  *audit*: None: there is no audit log; else it is closed
        with the application.  *tracing*: None: requests are no spans.  *trusts*: of Keystone; None:
        there are none.  *for_command*: it serves one
        command of an operator, whom no quota limits.  *is_stopping*: whether the service was asked
        to stop, and goes on for a while.  *reads_queue_metrics*: returns whether it is this process
        that reads them.
        """
        limits = settings.limits
        self.settings = settings
        self._driver = driver
        self._sweep_interval = settings.sweep_interval
        self._reads_queue_metrics = reads_queue_metrics
        self._queue_metrics = (
            QueueMetrics(driver, settings.metrics) if settings.metrics is not None else None
        )
        self._measuring_ends: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        in_flight = RequestsInFlight(settings.max_in_flight, settings.max_in_flight_project)
        self.long_polls = LongPoll(driver.feed, settings.max_waiting, in_flight)
        cipher = BodyCipher(settings.encryption_key) if settings.encryption_key else None
        signer = UrlSigner(settings.signing_key)
        pooled = driver if isinstance(driver, PooledDriver) else None
        quotas, quota_handlers = None, None
        if pooled is not None:
            quotas = QuotaEnforcer(pooled, pooled.control.quotas, settings.quota)
            quota_service = QuotaService(pooled.control.quotas, settings.quota)
            quota_handlers = QuotaHandlers(quota_service, quotas, limits)
        self._quotas = None if for_command else quotas
        queue_service = QueueService(driver, limits, cipher is not None, self._quotas)
        message_service = MessageService(driver, limits, cipher, self.long_polls, self._quotas)
        claim_service = ClaimService(driver, limits, message_service, self.long_polls)
        administration = AdministrationService(driver, limits, message_service, self._quotas)
        queue_channels = QueueChannelService(driver, message_service, limits)
        self._access = access or open_access(is_admin=settings.admin_mode)
        self._operators: OperatorServices | None = None
        self._channels = channels(self._access, queue_channels) if channels is not None else None
        if self._channels is not None:
            self._channels.node.sessions.quota = self._quotas
        self._notifications = Notifications(
            driver,
            settings,
            queue_service,
            message_service,
            signer,
            trusts,
            None if self._channels is None else self._channels.node,
            delivers=settings.notifier.in_service and not for_command,
        )
        subscriptions = self._notifications.subscriptions
        health = HealthService(
            driver,
            None if self._channels is None else self._channels.node.engine.ping,
            is_stopping,
        )

        of_messages = MessageHandlers(message_service, limits, settings.enable_checksum)
        of_queues = QueueHandlers(queue_service, subscriptions, signer, self._access.policy)
        handlers = HandlerSet(
            messages=of_messages,
            claims=ClaimHandlers(claim_service),
            queues=of_queues,
            administration=AdministrationHandlers(administration, self._access.policy),
            health=HealthHandlers(health),
            pools=PoolHandlers(PoolService(pooled), limits) if pooled else None,
            flavors=FlavorHandlers(FlavorService(pooled), limits) if pooled else None,
            rebalance=RebalanceHandlers(RebalanceService(pooled)) if pooled else None,
            quotas=quota_handlers,
        )
        topics = TopicHandlers(of_queues, of_messages, queue_service, message_service)
        rest = routes.rest_routes(handlers, limits, self._access.has_admins)
        rest += topic_routes(topics, limits)
        rest += self._notifications.routes(self._access.policy)
        rest = [structs.replace(route, strict=settings.strict) for route in rest]
        self._tracing = tracing
        if tracing is not None:
            rest = [tracing.trace(route) for route in rest]
        self.routes = openapi.with_description(rest, limits)
        self.checks = RequestChecks(limits, signer, self._access, in_flight, self._quotas)
        self.request_ids = request_ids()
        self._audit_log = audit
        self.audit = RequestAudit(audit)
        middleware: list[Any] = [
            RequestMiddleware(self.checks, self.request_ids, self.audit),
            self,
        ]
        if settings.access_log:
            middleware.append(LoggingMiddleware())
        if settings.metrics is not None:
            middleware.insert(0, MeasuringMiddleware())
        if self._channels is not None:
            self.routes += self._channels.routes
            if self._channels.has_console:
                self._operators = OperatorServices(driver, settings.history, self._channels.node)
                self.routes += self._channels.overview_routes(self._operators, limits)
            middleware.append(self._channels.middleware)
        self.hot_routes = HotRoutes(self.routes, self.audit.covers)
        actions = ActionHandlers(
            queue_service,
            message_service,
            claim_service,
            subscriptions,
            limits,
            self._access.policy,
            checksums=settings.enable_checksum,
        )
        pushes = QueuePushes(subscriptions, message_service)
        context = ConnectionContext(
            actions.table(rest),
            self.checks,
            self._access.authenticator,
            subscriptions,
            pushes,
            self.audit,
            self.request_ids,
            self._quotas,
        )
        socket_api = WebSocketApi(context, settings.websocket, settings.request_timeout)
        self._socket_api = socket_api
        self.routes.append(socket_api.route)
        self._sockets: dict[str, routes.WebSocketHandler] = {
            route.path: route.websocket for route in self.routes if route.websocket
        }
        self._sockets["/"] = socket_api  # where clients of stock Zaqar ask for it
        #: WebSockets, whatever their paths
        self._serve_socket: routes.WebSocketHandler = self._route_socket
        if settings.access_log:
            self._serve_socket = LoggingSockets(self._route_socket)
        self._app: falcon.asgi.App[Any, Any] = falcon.asgi.App(middleware=middleware)
        # Each answer says its own.
        self._app.resp_options.default_media_type = None  # type: ignore[assignment]  # it takes None
        possible = routes.rest_routes(handlers, limits, admin=True)
        self._advice = RouteAdvice(self.routes, possible)
        resources.install(self._app, self.routes, self._advice)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            other = self._serve_socket if scope["type"] == "websocket" else self._app
            await other(scope, receive, send)
            return
        first = await receive()

        async def replay_first() -> Any:
            return first  # falcon reads one event itself

        scope[resources.FIRST_EVENT] = first
        scope[resources.RECEIVE] = receive
        try:
            await self._app(scope, replay_first, send)
        finally:
            # The server's request holds the scope: without this cycle it is freed at once.
            del scope[resources.RECEIVE]

    async def _route_socket(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        try:
            request_heads.read(scope)
            if path not in self._sockets:
                raise errors.NotFound(why=self._advice.of_socket(path))
        except errors.Problem as error:
            await self._refuse_handshake(error, path, send)
            return
        await self._sockets[path](scope, receive, send)

    async def _refuse_handshake(self, error: errors.Problem, path: str, send: Send) -> None:
        request_id = next(self.request_ids)
        answer = problems.answer(error, "GET", path, None, request_id)
        headers = [(REQUEST_ID, request_id), ("content-type", answer.media_type), *answer.headers]
        await send(
            {
                "type": "websocket.http.response.start",
                "status": answer.status,
                "headers": [(name.encode(), text.encode()) for name, text in headers],
            }
        )
        await send({"type": "websocket.http.response.body", "body": answer.body})

    def begin_shutdown(self) -> None:
        """Ends long polls and connections: the service is about to stop."""
        self.long_polls.close()
        if self._channels is not None:
            self._channels.node.begin_shutdown()

    async def process_startup(self, scope: Any, event: Any) -> None:
        await self._driver.start()
        await self._access.authenticator.start()
        if self._quotas is not None:
            await self._quotas.start()
        if self._channels is not None:
            await self._channels.node.start()
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweeper"),
            asyncio.create_task(self._forget_admitted(), name="admissions"),
        ]
        if self._operators is not None:
            self._operators.start()
        await self._notifications.start()
        if isinstance(self._driver, PooledDriver):
            jobs = self._driver.jobs
            self._tasks.append(asyncio.create_task(self._move(jobs), name="mover"))

        self._tasks.append(asyncio.create_task(_mark_stores(self._driver), name="marks"))
        if self._queue_metrics is not None:
            reading = self._queue_metrics.run(self._reads_queue_metrics)
            self._tasks.append(asyncio.create_task(reading, name="queue metrics"))
        self._measuring_ends = [*self._begin_measuring()]

    def _begin_measuring(self) -> Iterator[Callable[[], None]]:
        yield sampling.add(self.hot_routes.time_next)
        yield metrics.LONG_POLLS.follow(lambda: self.long_polls.waiting)
        yield metrics.REQUESTS_IN_FLIGHT.follow(lambda: self.checks.in_flight.count)
        yield metrics.SOCKETS.follow(lambda: self._socket_api.open, "queues")
        if self._channels is not None:
            node = self._channels.node
            yield metrics.SOCKETS.follow(lambda: len(node.sessions), "channels")
            yield metrics.SUBSCRIPTIONS.follow(lambda: sum(node.counts().values()))

    async def process_shutdown(self, scope: Any, event: Any) -> None:
        for end in self._measuring_ends:
            end()
        try:
            await self._notifications.close()
            if self._channels is not None:
                await self._channels.node.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._operators is not None:
                await self._operators.close()
        finally:
            if self._quotas is not None:
                await self._quotas.close()
            await self._access.authenticator.close()
            await self._driver.close()
            if self._audit_log is not None:
                self._audit_log.close()
            if self._tracing is not None:
                await self._tracing.close()

    async def _forget_admitted(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            self.checks.forget()

    async def _move(self, jobs: Rebalancer) -> None:
        while True:
            await jobs.wait(_MOVER_INTERVAL)
            try:
                moved = await jobs.run_pending()
            except errors.Unavailable:
                continue
            except Exception:  # the service goes on, and the next round tries again
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


async def _mark_stores(driver: Driver) -> None:
    """Marks the service's own store as the installation's, and all stores with their format, as
    soon as they answer."""
    while True:
        try:
            if isinstance(driver, PooledDriver) and not await driver.adoption.mark_default():
                LOG.error(
                    "the store of this service, which was unavailable at the start, belongs to "
                    "another installation: stop the service before it creates queues there",
                    extra={"action": "store_owned"},
                )
            await use_formats(driver)
            return
        except errors.FormatTooNew as error:
            why = errors.reason(error)
            LOG.error("stop the service: %s", why, extra={"action": "format_too_new"})
            return
        except errors.Unavailable:
            await asyncio.sleep(_MOVER_INTERVAL)
        except Exception:  # e.g. a user without the right to write: the service goes on
            LOG.exception("cannot mark the store", extra={"action": "mark_failed"})
            return
