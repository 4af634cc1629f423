# SPDX-License-Identifier: Apache-2.0
"""What the operator and backends may do with channels: the methods of the server API.

Every method raises Refused, and Unavailable when the store is away.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from zaqar_redis import errors
from zaqar_redis.realtime import calls, codes, commands, control, wire
from zaqar_redis.realtime.codes import Refused
from zaqar_redis.realtime.engine import Once
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.realtime.steering import subscribers_of


class Channels:
    """Those of one project."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def publish(self, asked: calls.Publish) -> calls.PublishResult:
        return await self._publish(asked.channel, asked, _payload(asked.data, asked.b64data))

    async def broadcast(self, asked: calls.Broadcast) -> calls.BroadcastResult:
        data = _payload(asked.data, asked.b64data)
        if not asked.channels:
            raise Refused(codes.BAD_REQUEST)

        async def response(channel: str) -> calls.Response:
            try:
                return calls.Response(result=await self._publish(channel, asked, data))
            except (Refused, errors.Unavailable) as error:
                return calls.Response(error=fault(error))

        return calls.BroadcastResult(await asyncio.gather(*map(response, asked.channels)))

    async def _publish(self, channel: str, asked: calls.Publish, data: Raw) -> calls.PublishResult:
        if asked.version < 0:
            raise Refused(codes.BAD_REQUEST)
        done = await self._scope.publish(
            channel,
            data,
            tags=asked.tags,
            once=Once(asked.idempotency_key, asked.version, asked.version_epoch),
            keep=not asked.skip_history,
            delta=asked.delta,
        )
        return calls.PublishResult(done.position.offset, done.position.epoch)

    async def subscribe(self, asked: calls.Subscribe) -> calls.Done:
        self._scope.namespaces.options(asked.channel)
        since = asked.recover_since
        message = control.Subscribe(
            self._who(asked),
            asked.channel,
            info=bytes(_payload(asked.info, asked.b64info)),
            data=bytes(_payload(asked.data, asked.b64data)),
            expire_at=asked.expire_at,
            since=(since.offset, since.epoch) if since is not None else None,
            override={name: given.value for name, given in asked.override.items() if given},
        )
        return await self._tell(message)

    async def unsubscribe(self, asked: calls.Unsubscribe) -> calls.Done:
        return await self._tell(control.Unsubscribe(self._who(asked), asked.channel))

    async def disconnect(self, asked: calls.Disconnect) -> calls.Done:
        message = control.Disconnect(self._who(asked, asked.whitelist))
        given = asked.disconnect
        if given is not None and given.code:
            # The numbers that a WebSocket leaves to applications, and a frame's room.
            if not 3000 <= given.code < 5000 or len(given.reason.encode()) > 123:
                raise Refused(codes.BAD_REQUEST)
            message.code, message.reason = given.code, given.reason or message.reason
        return await self._tell(message)

    async def refresh(self, asked: calls.Refresh) -> calls.Done:
        return await self._tell(
            control.Refresh(self._who(asked), asked.expired, asked.expire_at, bytes(asked.info))
        )

    def _who(self, asked: calls.OfUser, spared: Sequence[str] = ()) -> control.Who:
        if not (asked.user or asked.client or asked.session):
            raise Refused(codes.BAD_REQUEST)
        return control.Who(
            self._scope.project, asked.user, asked.client, asked.session, list(spared)
        )

    async def _tell(self, message: control.Message) -> calls.Done:
        await self._scope.steering.tell(message)
        return calls.Done()

    async def presence(self, asked: wire.PresenceRequest) -> wire.PresenceResult:
        self._present(asked.channel)
        found = await self._scope.presence(asked.channel)
        return wire.PresenceResult({client: calls.info(each) for client, each in found.items()})

    async def presence_stats(self, asked: wire.PresenceStatsRequest) -> wire.PresenceStatsResult:
        self._present(asked.channel)
        return wire.PresenceStatsResult(*await self._scope.presence_stats(asked.channel))

    def _present(self, channel: str) -> None:
        if not self._scope.namespaces.options(channel).presence:
            raise Refused(codes.NOT_AVAILABLE)

    async def history(self, asked: wire.HistoryRequest) -> wire.HistoryResult:
        options = self._kept(asked.channel)
        since = commands.since_of(asked, None)
        found, top = await self._scope.history(asked.channel, since, options)
        commands.check_epoch(asked, top)
        return wire.HistoryResult(list(map(calls.publication, found)), top.epoch, top.offset)

    async def history_remove(self, asked: calls.HistoryRemove) -> calls.Done:
        self._kept(asked.channel)
        await self._scope.remove_history(asked.channel)
        return calls.Done()

    def _kept(self, channel: str) -> Options:
        options = self._scope.namespaces.options(channel)
        if not options.has_history:
            raise Refused(codes.NOT_AVAILABLE)
        return options

    async def channels(self, asked: calls.Channels) -> calls.ChannelsResult:
        answers = await self._scope.steering.survey(self._scope.project, "channels", asked.pattern)
        found = subscribers_of(answers)
        return calls.ChannelsResult(
            {channel: calls.ChannelInfo(found[channel]) for channel in sorted(found)}
        )

    async def info(self, asked: calls.Info) -> calls.InfoResult:
        answers = await self._scope.steering.survey(self._scope.project, "info")
        found = [answer.report for answer in answers if answer.report is not None]
        nodes = [
            calls.NodeInfo(
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
        return calls.InfoResult(nodes)

    async def rpc(self, asked: calls.RPC) -> calls.Done:
        raise Refused(codes.NOT_AVAILABLE)

    async def batch(self, asked: calls.Batch) -> calls.BatchResult:
        """All of it; *parallel* lets them overtake each other."""
        if asked.parallel:
            return calls.BatchResult(list(await asyncio.gather(*map(self._reply, asked.commands))))
        return calls.BatchResult([await self._reply(each) for each in asked.commands])

    async def _reply(self, command: dict[str, Raw]) -> dict[str, object]:
        if len(command) != 1:
            return {"error": fault(Refused(codes.BAD_REQUEST))}
        ((method, body),) = command.items()
        try:
            if method == "batch":
                raise Refused(codes.NOT_FOUND)
            return {method: await self.call(method, body)}
        except (Refused, errors.Unavailable) as error:
            return {"error": fault(error)}

    async def call(self, method: str, body: bytes | Raw) -> Any:
        """By name, with a request in JSON."""
        found = METHODS.get(method)
        if found is None:
            raise Refused(codes.NOT_FOUND)
        decoder, run = found
        try:
            asked = decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused(codes.BAD_REQUEST) from error
        return await run(self, asked)


def fault(error: Refused | errors.Unavailable) -> calls.Fault:
    known = error.error if isinstance(error, Refused) else codes.INTERNAL
    return calls.Fault(known.code, known.message)


def _payload(data: Raw, b64: str) -> Raw:
    """What was given, in the one way or the other.  Raises Refused."""
    if not b64:
        return data
    try:
        return Raw(base64.b64decode(b64, validate=True))
    except binascii.Error as error:
        raise Refused(codes.BAD_REQUEST) from error


_Run = Callable[[Channels, Any], Coroutine[Any, Any, Any]]


def _method(kind: type[msgspec.Struct], run: _Run) -> tuple[msgspec.json.Decoder[Any], _Run]:
    return msgspec.json.Decoder(kind), run


METHODS = {
    "publish": _method(calls.Publish, Channels.publish),
    "broadcast": _method(calls.Broadcast, Channels.broadcast),
    "subscribe": _method(calls.Subscribe, Channels.subscribe),
    "unsubscribe": _method(calls.Unsubscribe, Channels.unsubscribe),
    "disconnect": _method(calls.Disconnect, Channels.disconnect),
    "refresh": _method(calls.Refresh, Channels.refresh),
    "presence": _method(wire.PresenceRequest, Channels.presence),
    "presence_stats": _method(wire.PresenceStatsRequest, Channels.presence_stats),
    "history": _method(wire.HistoryRequest, Channels.history),
    "history_remove": _method(calls.HistoryRemove, Channels.history_remove),
    "channels": _method(calls.Channels, Channels.channels),
    "info": _method(calls.Info, Channels.info),
    "rpc": _method(calls.RPC, Channels.rpc),
    "batch": _method(calls.Batch, Channels.batch),
}
