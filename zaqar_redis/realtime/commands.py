# SPDX-License-Identifier: Apache-2.0
"""What a client that is connected may ask for, one function a method.

Each answers its command, or raises: Refused, Closed, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, subscribing, wire
from zaqar_redis.realtime.codes import Closed, Refused
from zaqar_redis.realtime.engine import Position, Since
from zaqar_redis.realtime.namespaces import Options

if TYPE_CHECKING:
    from zaqar_redis.realtime.session import Session

#: What clients are told of this server.
VERSION = "zaqar-redis"


async def unsubscribe(session: Session, id: int, request: wire.UnsubscribeRequest) -> None:
    if not request.channel:
        raise Closed(codes.BAD_CLOSE)
    subscription = session.subscriptions.pop(request.channel, None)
    if subscription is not None:
        await session.world.leave(subscription)
    session.send(wire.Reply(id=id, unsubscribe=wire.Empty()))


async def publish(session: Session, id: int, request: wire.PublishRequest) -> None:
    _accessible(session, request.channel, "publish")
    subscription = session.subscriptions.get(request.channel)
    info = wire.ClientInfo(user=session.user, client=session.client, conn_info=session.conn_info)
    await session.world.publish(
        request.channel, request.data, subscription.info if subscription else info
    )
    session.send(wire.Reply(id=id, publish=wire.Empty()))


async def history(session: Session, id: int, request: wire.HistoryRequest) -> None:
    options = _accessible(session, request.channel, "history")
    since = since_of(request, session.world.settings.history_max)
    found, top = await session.world.history(request.channel, since, options)
    check_epoch(request, top)
    result = wire.HistoryResult(publications=found, epoch=top.epoch, offset=top.offset)
    session.send(wire.Reply(id=id, history=result))


async def presence(session: Session, id: int, request: wire.PresenceRequest) -> None:
    _accessible(session, request.channel, "presence")
    result = wire.PresenceResult(await session.world.presence(request.channel))
    session.send(wire.Reply(id=id, presence=result))


async def presence_stats(session: Session, id: int, request: wire.PresenceStatsRequest) -> None:
    _accessible(session, request.channel, "presence")
    result = wire.PresenceStatsResult(*await session.world.presence_stats(request.channel))
    session.send(wire.Reply(id=id, presence_stats=result))


def _accessible(session: Session, channel: str, what: str) -> Options:
    """Its options.  Raises Refused, Closed."""
    if not channel:
        raise Closed(codes.BAD_CLOSE)
    options = session.world.namespaces.options(channel)
    if not options.has(what):
        raise Refused(codes.NOT_AVAILABLE)
    if not session.allows(options, what, subscribed=channel in session.subscriptions):
        raise Refused(codes.PERMISSION_DENIED)
    return options


async def ping(session: Session, id: int, request: wire.PingRequest) -> None:
    raise Refused(codes.NOT_AVAILABLE)


async def send(session: Session, id: int, request: wire.SendRequest) -> None:
    raise Closed(codes.UNSUPPORTED)


async def rpc(session: Session, id: int, request: wire.RPCRequest) -> None:
    raise Refused(codes.NOT_AVAILABLE)


async def refresh(session: Session, id: int, request: wire.RefreshRequest) -> None:
    try:
        known = await session.world.verifier.connection(request.token)
    except tokens.Expired as error:
        raise Closed(codes.CONNECTION_EXPIRED) from error
    except tokens.Invalid as error:
        raise Closed(codes.INVALID_TOKEN) from error
    if known.user != session.user or known.project not in ("", session.world.project):
        raise Closed(codes.INVALID_TOKEN)
    if session.personal | known.subs.keys() != session.granted:
        raise Closed(codes.INSUFFICIENT_STATE)  # the next connection has what it says
    session.expire_at = known.expire_at
    session.plan()
    ttl = session.ttl(session.expire_at)
    result = wire.RefreshResult(
        client=session.client, version=VERSION, expires=ttl is not None, ttl=ttl or 0
    )
    session.send(wire.Reply(id=id, refresh=result))


async def sub_refresh(session: Session, id: int, request: wire.SubRefreshRequest) -> None:
    subscription = session.subscriptions.get(request.channel)
    if subscription is None:
        raise Refused(codes.PERMISSION_DENIED)
    if not request.token:
        raise Refused(codes.BAD_REQUEST)
    try:
        grant = await session.world.verifier.subscription(request.token)
    except tokens.Expired as error:
        raise Closed(codes.SUBSCRIPTION_EXPIRED) from error
    except tokens.Invalid as error:
        raise Closed(codes.INVALID_TOKEN) from error
    subscribing.check_owner(session, grant, request.channel)
    subscription.expire_at = grant.expire_at
    session.plan()
    ttl = session.ttl(grant.expire_at)
    result = wire.SubRefreshResult(expires=ttl is not None, ttl=ttl or 0)
    session.send(wire.Reply(id=id, sub_refresh=result))


def since_of(request: wire.HistoryRequest, most: int | None) -> Since:
    """What part of a history is asked for, at most so many.  Raises Refused."""
    limit: int | None = request.limit
    if request.limit < 0:
        limit = most
    elif most is not None:
        limit = min(request.limit, most)
    given = request.since
    if given is None:
        return Since(limit=limit, reverse=request.reverse)
    if request.reverse and given.offset == 0:
        raise Refused(codes.BAD_REQUEST)
    return Since(Position(given.offset, given.epoch), limit=limit, reverse=request.reverse)


def check_epoch(request: wire.HistoryRequest, top: Position) -> None:
    """Raises Refused when the position that is asked for was in another history."""
    if request.since is not None and request.since.epoch not in ("", top.epoch):
        raise Refused(codes.UNRECOVERABLE)


METHODS: dict[str, Callable[[Session, int, Any], Coroutine[Any, Any, None]]] = {
    "subscribe": subscribing.by_client,
    "unsubscribe": unsubscribe,
    "publish": publish,
    "presence": presence,
    "presence_stats": presence_stats,
    "history": history,
    "ping": ping,
    "send": send,
    "rpc": rpc,
    "refresh": refresh,
    "sub_refresh": sub_refresh,
}
