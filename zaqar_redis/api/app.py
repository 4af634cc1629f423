# SPDX-License-Identifier: Apache-2.0
"""The application: the routes of its services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import falcon.asgi
from msgspec import structs

from zaqar_redis import errors
from zaqar_redis.api import openapi, problems, request_heads, resources, routes
from zaqar_redis.api.access_log import LoggingSockets
from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.background import BackgroundTasks
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.composition import Services
from zaqar_redis.api.console import routes as console_routes
from zaqar_redis.api.endpoints import request_ids
from zaqar_redis.api.exchange import REQUEST_ID, Receive, Send
from zaqar_redis.api.operator_routes import InstallationHandlers
from zaqar_redis.api.resources import RequestMiddleware
from zaqar_redis.api.rest.administration import AdministrationHandlers
from zaqar_redis.api.rest.claims import ClaimHandlers
from zaqar_redis.api.rest.home import HealthHandlers
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.api.rest.schedules import ScheduleHandlers
from zaqar_redis.api.rest.topics import TopicHandlers
from zaqar_redis.api.rest_routes import HandlerSet, rest_routes
from zaqar_redis.api.route_advice import RouteAdvice
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.hot_routes import HotRoutes
from zaqar_redis.api.websocket.actions import ActionHandlers
from zaqar_redis.api.websocket.connection import ConnectionContext
from zaqar_redis.api.websocket.front_end import WebSocketApi
from zaqar_redis.api.websocket.pushes import QueuePushes
from zaqar_redis.api.websocket.schedule_actions import ScheduleActions
from zaqar_redis.auth.policy import RELOAD_INTERVAL
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.metrics import sampling
from zaqar_redis.service.pools import FlavorService, PoolService, RebalanceService
from zaqar_redis.service.quotas import QuotaService


def _handlers(services: Services) -> HandlerSet:
    settings, policy, pooled = services.settings, services.access.policy, services.pooled
    subscriptions = services.notifications.subscriptions
    quotas = None
    if pooled is not None and services.quotas is not None:
        of_quotas = QuotaService(pooled.control.quotas, settings.quota)
        quotas = QuotaHandlers(of_quotas, services.quotas, settings.limits)
    queues = QueueHandlers(services.queues, subscriptions, services.signer, policy)
    messages = MessageHandlers(services.messages, settings.limits, settings.enable_checksum)
    return HandlerSet(
        messages=messages,
        claims=ClaimHandlers(services.claims),
        queues=queues,
        topics=TopicHandlers(queues, messages, services.queues, services.messages),
        administration=AdministrationHandlers(services.administration, policy),
        health=HealthHandlers(services.health),
        pools=InstallationHandlers(
            PoolHandlers(PoolService(pooled), settings.limits),
            FlavorHandlers(FlavorService(pooled), settings.limits),
            RebalanceHandlers(RebalanceService(pooled)),
        )
        if pooled
        else None,
        quotas=quotas,
        schedules=ScheduleHandlers(services.schedules, policy, settings.enable_checksum)
        if services.schedules
        else None,
    )


def _console_routes(services: Services) -> list[ApiRoute]:
    console, channels = services.parts.console, services.channels
    if console is None or services.operators is None:
        return []
    namespaces = None if channels is None else channels.namespaces
    return console_routes(
        console, services.access, services.operators, services.settings.limits, namespaces
    )


class App:
    """The ASGI application over the services of a process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.settings = settings = services.settings
        self.checks = RequestChecks(
            settings.limits,
            services.signer,
            services.access,
            services.in_flight,
            services.enforced_quotas,
        )
        self.request_ids = request_ids()
        self.audit = RequestAudit(services.parts.audit)
        self._background = BackgroundTasks(services, self._forget_admitted)
        self._measuring_ends: list[Callable[[], None]] = []

        handlers = _handlers(services)
        # Described before they are traced: the texts are those of the handlers.
        *rest, description = openapi.with_description(self._rest_routes(handlers), settings.limits)
        if (tracing := services.parts.tracing) is not None:
            rest = [tracing.trace(route) for route in rest]
        self.routes = [*rest, description]
        if services.channels is not None:
            self.routes += services.channels.routes
        self.routes += _console_routes(services)
        self.hot_routes = HotRoutes(self.routes, self.audit.covers)
        self._socket_api = self._create_socket_api(rest, handlers.schedules)
        self.routes.append(self._socket_api.route)
        self._sockets: dict[str, routes.WebSocketHandler] = {
            route.path: route.websocket for route in self.routes if route.websocket
        }
        self._sockets["/"] = self._socket_api  # where clients of stock Zaqar ask for it
        #: WebSockets, whatever their paths
        self._serve_socket: routes.WebSocketHandler = self._route_socket
        if settings.access_log:
            self._serve_socket = LoggingSockets(self._route_socket)
        self._app: falcon.asgi.App[Any, Any] = falcon.asgi.App(middleware=self._middleware())
        # Each answer says its own.
        self._app.resp_options.default_media_type = None  # type: ignore[assignment]  # it takes None
        possible = rest_routes(handlers, settings.limits, admin=True)
        self._advice = RouteAdvice(self.routes, possible)
        resources.install(self._app, self.routes, self._advice)

    def _rest_routes(self, handlers: HandlerSet) -> list[ApiRoute]:
        services, settings = self._services, self.settings
        rest = rest_routes(handlers, settings.limits, services.access.has_admins)
        rest += services.notifications.routes(services.access.policy)
        return [structs.replace(route, strict=settings.strict) for route in rest]

    def _create_socket_api(
        self, rest: Sequence[ApiRoute], schedules: ScheduleHandlers | None
    ) -> WebSocketApi:
        services, settings = self._services, self.settings
        subscriptions = services.notifications.subscriptions
        actions = ActionHandlers(
            services.queues,
            services.messages,
            services.claims,
            subscriptions,
            settings.limits,
            services.access.policy,
            checksums=settings.enable_checksum,
        )
        context = ConnectionContext(
            actions.table(rest, ScheduleActions(schedules).rows() if schedules else ()),
            self.checks,
            services.access.authenticator,
            subscriptions,
            QueuePushes(subscriptions, services.messages),
            self.audit,
            self.request_ids,
            services.enforced_quotas,
        )
        return WebSocketApi(context, settings.websocket, settings.request_timeout)

    def _middleware(self) -> list[Any]:
        channels, settings = self._services.channels, self.settings
        of_requests = RequestMiddleware(
            self.checks,
            self.request_ids,
            self.audit,
            measures=settings.metrics is not None,
            logs=settings.access_log,
        )
        return [of_requests, self, *([channels.middleware] if channels is not None else [])]

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

    async def ping_essential(self) -> None:
        """Pings the stores that every request needs.  Raises StoreUnavailable, ServiceStopping."""
        await self._services.health.ping_essential()

    def begin_shutdown(self) -> None:
        """Ends long polls and connections: the service is about to stop."""
        self._services.long_polls.close()
        if self._services.channels is not None:
            self._services.channels.node.begin_shutdown()

    async def process_startup(self, scope: Any, event: Any) -> None:
        services = self._services
        await services.driver.start()
        await services.access.authenticator.start()
        if services.enforced_quotas is not None:
            await services.enforced_quotas.start()
        if services.channels is not None:
            await services.channels.node.start()
        if services.operators is not None:
            services.operators.start()
        await services.notifications.start()
        self._background.start()
        self._measuring_ends = [*self._begin_measuring()]

    def _begin_measuring(self) -> Iterator[Callable[[], None]]:
        services = self._services
        yield sampling.add(self.hot_routes.time_next)
        yield metrics.LONG_POLLS.follow(lambda: services.long_polls.waiting)
        yield metrics.REQUESTS_IN_FLIGHT.follow(lambda: services.in_flight.count)
        yield metrics.SOCKETS.follow(lambda: self._socket_api.open, "queues")
        if services.channels is not None:
            node = services.channels.node
            yield metrics.SOCKETS.follow(lambda: len(node.sessions), "channels")
            yield metrics.SUBSCRIPTIONS.follow(lambda: sum(node.counts().values()))

    async def process_shutdown(self, scope: Any, event: Any) -> None:
        services, parts = self._services, self._services.parts
        for end in self._measuring_ends:
            end()
        try:
            await services.notifications.close()
            if services.channels is not None:
                await services.channels.node.close()
            await self._background.close()
            if services.operators is not None:
                await services.operators.close()
        finally:
            if services.enforced_quotas is not None:
                await services.enforced_quotas.close()
            await services.access.authenticator.close()
            await services.driver.close()
            if parts.audit is not None:
                parts.audit.close()
            if parts.tracing is not None:
                await parts.tracing.close()

    async def _forget_admitted(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            self.checks.forget()
