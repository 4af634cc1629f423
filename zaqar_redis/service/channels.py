# SPDX-License-Identifier: Apache-2.0
"""Channels for operators and backends: the methods of the server API.

Every method raises CommandRejected, and Unavailable when the store cannot be reached.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw

from zaqar_redis import clock, errors
from zaqar_redis.figures import ChannelFigures
from zaqar_redis.realtime.engine import Dedup
from zaqar_redis.realtime.node import control, queue_channels
from zaqar_redis.realtime.node.control_plane import merge_channels
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes, server_api, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session import commands
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.service.routing import RoutedMessage, RoutingService

#: Takes a policy rule, and a channel without the namespace of queues or ''.  Raises Forbidden.
Authorize = Callable[[str, str], None]


class ChannelService:
    """The channels of one project."""

    def __init__(self, context: ProjectContext, authorize: Authorize) -> None:
        """*authorize* is asked for each call, also for those in a batch."""
        self._context = context
        self._routing = RoutingService(context.engine, context.project)
        self._authorize = authorize

    async def publish(self, request: server_api.ApiPublishRequest) -> server_api.PublishResult:
        return await self._publish(
            request.channel, request, _payload(request.data, request.b64data)
        )

    async def broadcast(self, request: server_api.BroadcastRequest) -> server_api.BroadcastResult:
        data = _payload(request.data, request.b64data)
        if not request.channels:
            raise CommandRejected(codes.BAD_REQUEST)

        async def response(channel: str) -> server_api.PublishResponse:
            try:
                return server_api.PublishResponse(
                    result=await self._publish(channel, request, data)
                )
            except (CommandRejected, errors.Unavailable) as error:
                return server_api.PublishResponse(error=api_error(error))

        return server_api.BroadcastResult(await asyncio.gather(*map(response, request.channels)))

    async def _publish(
        self, channel: str, request: server_api.ApiPublishRequest, data: Raw
    ) -> server_api.PublishResult:
        if request.version < 0:
            raise CommandRejected(codes.BAD_REQUEST)
        done = await self._context.publish(
            channel,
            data,
            tags=request.tags,
            dedup=Dedup(request.idempotency_key, request.version, request.version_epoch),
            keep_history=not request.skip_history,
            delta=request.delta,
        )
        return server_api.PublishResult(done.position.offset, done.position.epoch)

    async def subscribe(self, request: server_api.ApiSubscribeRequest) -> server_api.EmptyResult:
        self._context.namespaces.options(request.channel)
        since = request.recover_since
        message = control.ControlSubscribe(
            self._selector(request),
            request.channel,
            info=bytes(_payload(request.info, request.b64info)),
            data=bytes(_payload(request.data, request.b64data)),
            expire_at=request.expire_at,
            since=(since.offset, since.epoch) if since is not None else None,
            override={name: given.value for name, given in request.override.items() if given},
        )
        return await self._send(message)

    async def unsubscribe(
        self, request: server_api.ApiUnsubscribeRequest
    ) -> server_api.EmptyResult:
        return await self._send(
            control.ControlUnsubscribe(self._selector(request), request.channel)
        )

    async def disconnect(self, request: server_api.DisconnectRequest) -> server_api.EmptyResult:
        message = control.ControlDisconnect(self._selector(request, request.whitelist))
        given = request.disconnect
        if given is not None and given.code:
            # The codes that WebSocket leaves to applications, and the size of a close frame.
            if not 3000 <= given.code < 5000 or len(given.reason.encode()) > 123:
                raise CommandRejected(codes.BAD_REQUEST)
            message.code, message.reason = given.code, given.reason or message.reason
        return await self._send(message)

    async def refresh(self, request: server_api.ApiRefreshRequest) -> server_api.EmptyResult:
        return await self._send(
            control.ControlRefresh(
                self._selector(request), request.expired, request.expire_at, bytes(request.info)
            )
        )

    def _selector(
        self, request: server_api.ApiUserRequest, except_clients: Sequence[str] = ()
    ) -> control.ConnectionSelector:
        if not (request.user or request.client or request.session):
            raise CommandRejected(codes.BAD_REQUEST)
        return control.ConnectionSelector(
            self._context.project,
            request.user,
            request.client,
            request.session,
            list(except_clients),
        )

    async def _send(self, message: control.ControlMessage) -> server_api.EmptyResult:
        await self._context.control_plane.send(message)
        return server_api.EmptyResult()

    async def presence(self, request: wire.PresenceRequest) -> wire.PresenceResult:
        self._require_presence(request.channel)
        found = await self._context.presence(request.channel)
        return wire.PresenceResult(
            {client: server_api.json_client_info(each) for client, each in found.items()}
        )

    async def presence_stats(self, request: wire.PresenceStatsRequest) -> wire.PresenceStatsResult:
        self._require_presence(request.channel)
        return wire.PresenceStatsResult(*await self._context.presence_stats(request.channel))

    def _require_presence(self, channel: str) -> None:
        if not self._context.namespaces.options(channel).presence:
            raise CommandRejected(codes.NOT_AVAILABLE)

    async def history(self, request: wire.HistoryRequest) -> wire.HistoryResult:
        options = self._options_with_history(request.channel)
        since = commands.history_filter(request, None)
        found, position = await self._context.history(request.channel, since, options)
        commands.check_epoch(request, position)
        publications = list(map(server_api.json_publication, found))
        return wire.HistoryResult(publications, position.epoch, position.offset)

    async def history_remove(
        self, request: server_api.HistoryRemoveRequest
    ) -> server_api.EmptyResult:
        self._options_with_history(request.channel)
        await self._context.remove_history(request.channel)
        return server_api.EmptyResult()

    def _options_with_history(self, channel: str) -> ChannelOptions:
        options = self._context.namespaces.options(channel)
        if not options.has_history:
            raise CommandRejected(codes.NOT_AVAILABLE)
        return options

    async def channels(self, request: server_api.ChannelsRequest) -> server_api.ChannelsResult:
        found = await self.figures(request.pattern)
        return server_api.ChannelsResult(
            {each.name: server_api.ChannelInfo(each.subscribers) for each in found}
        )

    async def figures(self, pattern: str) -> list[ChannelFigures]:
        """Returns the channels that have subscribers, by name; *pattern*: a glob, empty: all.

        Those that the server API lists, with what Centrifugo does not tell.
        """
        answers = await self._context.control_plane.survey(
            self._context.project, "channels", pattern
        )
        return merge_channels(answers)

    async def info(self, request: server_api.InfoRequest) -> server_api.InfoResult:
        answers = await self._context.control_plane.survey(self._context.project, "info")
        found = [answer.report for answer in answers if answer.report is not None]
        nodes = [
            server_api.NodeResult(
                uid=each.node,
                name=each.name,
                version=each.version,
                num_clients=each.clients,
                num_users=each.users,
                num_channels=each.channels,
                num_subs=each.subscriptions,
                uptime=each.uptime,
            )
            for each in sorted(found, key=lambda report: report.name)
        ]
        return server_api.InfoResult(nodes)

    async def rpc(self, request: server_api.ApiRPCRequest) -> server_api.EmptyResult:
        raise CommandRejected(codes.NOT_AVAILABLE)

    async def send(self, request: server_api.ApiSendRequest) -> server_api.SendResult:
        routing = self._routing
        if not routing.live:
            raise errors.BusUnavailable
        message = RoutedMessage(request.type, request.payload, request.timestamp or clock.process())
        with _rejected():
            return server_api.SendResult(routing.route(request.route, request.target, message))

    async def topic_subscribe(self, request: server_api.TopicRequest) -> server_api.EmptyResult:
        with _rejected():
            await self._routing.subscribe(request.client, request.topic)
        return server_api.EmptyResult()

    async def topic_unsubscribe(self, request: server_api.TopicRequest) -> server_api.EmptyResult:
        with _rejected():
            await self._routing.unsubscribe(request.client, request.topic)
        return server_api.EmptyResult()

    async def topic_subscribers(
        self, request: server_api.TopicRequest
    ) -> server_api.TopicSubscribersResult:
        with _rejected():
            found = await self._routing.topic_subscribers(request.topic)
        return server_api.TopicSubscribersResult(sorted(found))

    async def batch(self, request: server_api.BatchRequest) -> server_api.BatchResponse:
        """Returns a reply for each command; with *parallel*, the commands run concurrently."""
        if request.parallel:
            return server_api.BatchResponse(
                list(await asyncio.gather(*map(self._reply, request.commands)))
            )
        return server_api.BatchResponse([await self._reply(each) for each in request.commands])

    async def _reply(self, command: dict[str, Raw]) -> dict[str, object]:
        if len(command) != 1:
            return {"error": api_error(CommandRejected(codes.BAD_REQUEST))}
        ((method, body),) = command.items()
        try:
            if method == "batch":
                raise CommandRejected(codes.NOT_FOUND)
            return {method: await self.call(method, body)}
        except errors.Forbidden:
            return {"error": api_error(CommandRejected(codes.PERMISSION_DENIED))}
        except (CommandRejected, errors.Unavailable) as error:
            return {"error": api_error(error)}

    async def call(self, method: str, body: bytes | Raw) -> Any:
        """Calls a method by name with a request in JSON.  Raises Forbidden, too."""
        found = METHODS.get(method)
        if found is None:
            raise CommandRejected(codes.NOT_FOUND)
        decoder, run = found
        try:
            request = decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CommandRejected(_refused(method, error)) from error
        for resource in _resources(request):
            self._authorize(f"channels:{method}", resource)
        return await run(self, request)


def _refused(method: str, error: Exception) -> codes.ErrorCode:
    """Returns the error of a request that cannot be read; Centrifugo says no more of its own."""
    return (
        codes.BAD_REQUEST._replace(message=str(error)) if method in _ROUTING else codes.BAD_REQUEST
    )


@contextlib.contextmanager
def _rejected() -> Iterator[None]:
    """Turns BadRequest into CommandRejected, with its text."""
    try:
        yield
    except errors.BadRequest as error:
        raise CommandRejected(codes.BAD_REQUEST._replace(message=str(error))) from error


def api_error(error: CommandRejected | errors.Unavailable) -> server_api.ApiError:
    if isinstance(error, errors.BusUnavailable):
        return server_api.ApiError(codes.INTERNAL.code, str(error))
    known = error.error if isinstance(error, CommandRejected) else codes.INTERNAL
    return server_api.ApiError(known.code, known.message)


def _resources(request: Any) -> Sequence[str]:
    """Returns what a request is about, by the names that rights of keys have patterns for."""
    if isinstance(request, server_api.BatchRequest):
        return ()  # each of its commands is about something
    if isinstance(request, server_api.BroadcastRequest):
        return [resource(channel) for channel in request.channels] or [""]
    return [resource(getattr(request, "channel", ""))]


def resource(channel: str) -> str:
    """Returns the name of a channel, or that of the queue which it is."""
    return queue_channels.queue_of_channel(channel)


def _payload(data: Raw, b64: str) -> Raw:
    """Returns *data*, or else the decoded *b64*.  Raises CommandRejected."""
    if not b64:
        return data
    try:
        return Raw(base64.b64decode(b64, validate=True))
    except binascii.Error as error:
        raise CommandRejected(codes.BAD_REQUEST) from error


_Handler = Callable[[ChannelService, Any], Coroutine[Any, Any, Any]]


def _method(name: str) -> tuple[msgspec.json.Decoder[Any], _Handler]:
    run: _Handler = getattr(ChannelService, name)
    return msgspec.json.Decoder(get_type_hints(run)["request"]), run


#: Methods that Centrifugo does not have.
_ROUTING = frozenset(("send", "topic_subscribe", "topic_unsubscribe", "topic_subscribers"))
#: By name: what decodes its request, and what answers it.
METHODS = {
    name: _method(name)
    for name in (
        *("publish", "broadcast", "subscribe", "unsubscribe", "disconnect", "refresh"),
        *("presence", "presence_stats", "history", "history_remove", "channels", "info"),
        *("send", "topic_subscribe", "topic_unsubscribe", "topic_subscribers", "rpc", "batch"),
    )
}
