# SPDX-License-Identifier: Apache-2.0
"""Commands of clients, one function per method.

Each replies to its command, or raises CommandRejected, Disconnected or StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from zaqar_redis.auth import tokens
from zaqar_redis.realtime.engine import HistoryFilter, Position
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, DisconnectCode, Disconnected
from zaqar_redis.realtime.session import connect, subscribe
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.realtime.session.states import SubscriptionEvent

if TYPE_CHECKING:
    from zaqar_redis.realtime.session.session import Session

T = TypeVar("T")


async def unsubscribe(session: Session, id: int, request: wire.UnsubscribeRequest) -> None:
    if not request.channel:
        raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
    subscription = session.subscriptions.get(request.channel)
    if subscription is not None:
        subscription.apply(SubscriptionEvent.LEAVE)
        await session.context.leave(subscription)
    session.send(wire.Reply(id=id, unsubscribe=wire.Empty()))


async def publish(session: Session, id: int, request: wire.PublishRequest) -> None:
    _authorized_options(session, request.channel, "publish")
    subscription = session.subscriptions.get(request.channel)
    info = wire.ClientInfo(user=session.user, client=session.client, conn_info=session.conn_info)
    await session.context.publish(
        request.channel, request.data, subscription.info if subscription else info
    )
    session.send(wire.Reply(id=id, publish=wire.Empty()))


async def history(session: Session, id: int, request: wire.HistoryRequest) -> None:
    options = _authorized_options(session, request.channel, "history")
    since = history_filter(request, session.context.settings.history_max)
    found, top = await session.context.history(request.channel, since, options)
    check_epoch(request, top)
    result = wire.HistoryResult(publications=found, epoch=top.epoch, offset=top.offset)
    session.send(wire.Reply(id=id, history=result))


async def presence(session: Session, id: int, request: wire.PresenceRequest) -> None:
    _authorized_options(session, request.channel, "presence")
    result = wire.PresenceResult(await session.context.presence(request.channel))
    session.send(wire.Reply(id=id, presence=result))


async def presence_stats(session: Session, id: int, request: wire.PresenceStatsRequest) -> None:
    _authorized_options(session, request.channel, "presence")
    result = wire.PresenceStatsResult(*await session.context.presence_stats(request.channel))
    session.send(wire.Reply(id=id, presence_stats=result))


def _authorized_options(session: Session, channel: str, what: str) -> ChannelOptions:
    """Returns the channel's options.  Raises CommandRejected, Disconnected."""
    if not channel:
        raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
    options = session.context.namespaces.options(channel)
    if not options.supports(what):
        raise CommandRejected(codes.NOT_AVAILABLE)
    if not session.allows(options, what, subscribed=channel in session.subscriptions):
        raise CommandRejected(codes.PERMISSION_DENIED)
    return options


async def not_available(session: Session, id: int, request: wire.Wire) -> None:
    raise CommandRejected(codes.NOT_AVAILABLE)


async def send(session: Session, id: int, request: wire.SendRequest) -> None:
    raise Disconnected(codes.NOT_AVAILABLE_DISCONNECT)


async def refresh(session: Session, id: int, request: wire.RefreshRequest) -> None:
    verifying = session.context.verifier.connection(request.token)
    claims = await _verified(verifying, codes.CONNECTION_EXPIRED)
    if claims.user != session.user or claims.project not in ("", session.context.project):
        raise Disconnected(codes.INVALID_TOKEN)
    if session.personal_channels | claims.subs.keys() != session.granted:
        raise Disconnected(codes.INSUFFICIENT_STATE)  # a reconnect gives it the new subscriptions
    session.expire_at = claims.expire_at
    session.schedule_tick()
    ttl = session.ttl(session.expire_at)
    result = wire.RefreshResult(
        client=session.client, version=connect.VERSION, expires=ttl is not None, ttl=ttl or 0
    )
    session.send(wire.Reply(id=id, refresh=result))


async def sub_refresh(session: Session, id: int, request: wire.SubRefreshRequest) -> None:
    subscription = session.subscriptions.get(request.channel)
    if subscription is None:
        raise CommandRejected(codes.PERMISSION_DENIED)
    if not request.token:
        raise CommandRejected(codes.BAD_REQUEST)
    verifying = session.context.verifier.subscription(request.token)
    grant = await _verified(verifying, codes.SUBSCRIPTION_EXPIRED)
    subscribe.check_owner(session, grant, request.channel)
    subscription.expire_at = grant.expire_at
    session.schedule_tick()
    ttl = session.ttl(grant.expire_at)
    result = wire.SubRefreshResult(expires=ttl is not None, ttl=ttl or 0)
    session.send(wire.Reply(id=id, sub_refresh=result))


async def _verified(verifying: Awaitable[T], expired: DisconnectCode) -> T:
    """Returns the claims of a token.  Raises Disconnected, StoreUnavailable."""
    try:
        return await verifying
    except tokens.ExpiredToken as error:
        raise Disconnected(expired) from error
    except tokens.InvalidToken as error:
        raise Disconnected(codes.INVALID_TOKEN) from error


def history_filter(request: wire.HistoryRequest, most: int | None) -> HistoryFilter:
    """Returns the requested part, *most* publications at most.  Raises CommandRejected."""
    limit: int | None = request.limit
    if request.limit < 0:
        limit = most
    elif most is not None:
        limit = min(request.limit, most)
    since = request.since
    if since is None:
        return HistoryFilter(limit=limit, reverse=request.reverse)
    if request.reverse and since.offset == 0:
        raise CommandRejected(codes.BAD_REQUEST)
    return HistoryFilter(Position(since.offset, since.epoch), limit=limit, reverse=request.reverse)


def check_epoch(request: wire.HistoryRequest, top: Position) -> None:
    """Raises CommandRejected when the requested position is of another epoch than *top*."""
    if request.since is not None and request.since.epoch not in ("", top.epoch):
        raise CommandRejected(codes.UNRECOVERABLE)


METHODS: dict[str, Callable[[Session, int, Any], Coroutine[Any, Any, None]]] = {
    "connect": connect.connect,
    "subscribe": subscribe.client_side,
    "unsubscribe": unsubscribe,
    "publish": publish,
    "presence": presence,
    "presence_stats": presence_stats,
    "history": history,
    "ping": not_available,
    "send": send,
    "rpc": not_available,
    "refresh": refresh,
    "sub_refresh": sub_refresh,
}
