# SPDX-License-Identifier: Apache-2.0
"""From a wish to a live subscription: who may, what was missed, what comes from now on.

The order matters: listen, read the history, answer, and only then deliver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, deltas, filters, namespaces, recovery, wire
from zaqar_redis.realtime.codes import Closed, Refused
from zaqar_redis.realtime.engine import NOWHERE, Position, Since
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.realtime.pushes import Pushed
from zaqar_redis.realtime.world import Subscription

if TYPE_CHECKING:
    from zaqar_redis.realtime.session import Session

LOG = logging.getLogger(__name__)

#: Bit of a flag: the client would rather be refused than begin anew.
_CAN_BE_REFUSED = 2
#: The type of a subscription to publications as they come; there are no others.
_STREAM = 0
#: What a token may change.
_OVERRIDABLE = frozenset(
    ("presence", "join_leave", "force_push_join_leave", "force_recovery", "force_positioning")
)


async def by_client(session: Session, id: int, request: wire.SubscribeRequest) -> None:
    """Raises Refused, Closed, StoreUnavailable."""
    channel = request.channel
    if not channel or request.delta not in ("", *deltas.TYPES):
        raise Closed(codes.BAD_CLOSE)
    options = session.world.namespaces.options(channel)
    if channel in session.subscriptions:
        raise Refused(codes.ALREADY_SUBSCRIBED)
    if len(session.subscriptions) >= session.world.settings.channel_limit:
        raise Refused(codes.LIMIT_EXCEEDED)
    if request.type != _STREAM:
        raise Refused(codes.PERMISSION_DENIED)
    subscription, data = await _permitted(session, channel, options, request.token)
    subscription.wants = _filter(request, options)
    result = await _begin(subscription, request, data)
    session.send(wire.Reply(id=id, subscribe=result))
    await live(subscription)


async def at_connect(
    session: Session, granted: dict[str, tokens.Granted], wanted: dict[str, wire.SubscribeRequest]
) -> tuple[list[Subscription], dict[str, wire.SubscribeResult]]:
    """What the server subscribes to; it is live when `live` was called for each.

    Raises Closed, StoreUnavailable.
    """
    if len(granted) > session.world.settings.channel_limit:
        raise Closed(codes.CHANNEL_LIMIT)
    made, results = [], {}
    for channel, grant in granted.items():
        request = wanted.get(channel) or wire.SubscribeRequest()
        try:
            subscription, results[channel] = await _by_server(session, channel, grant, request)
        except Refused as refused:
            LOG.warning(
                "who connects is to be subscribed to %.300r: %s",
                channel,
                errors.reason(refused),
                extra={"action": "bad_grant"},
            )
            raise Closed(codes.BAD_CLOSE) from refused
        made.append(subscription)
    return made, results


async def by_server(
    session: Session,
    channel: str,
    grant: tokens.Granted,
    *,
    expire_at: int = 0,
    since: Position | None = None,
) -> None:
    """Subscribe somebody who is connected, and say so; nothing when it is already.

    With *since*, what came behind it is delivered, if it can be.  Raises Refused, Closed,
    StoreUnavailable.
    """
    if session.closed or not session.connected or channel in session.subscriptions:
        return
    if len(session.subscriptions) >= session.world.settings.channel_limit:
        raise Closed(codes.CHANNEL_LIMIT)
    request = wire.SubscribeRequest()
    if since is not None:
        request = wire.SubscribeRequest(recover=True, offset=since.offset, epoch=since.epoch)
    subscription, result = await _by_server(session, channel, grant, request)
    subscription.expire_at = expire_at
    told = wire.Subscribe(
        recoverable=result.recoverable,
        epoch=result.epoch,
        offset=result.offset,
        positioned=result.positioned,
        data=result.data,
    )
    session.push(wire.Push(channel=channel, subscribe=told))
    for publication in result.publications:
        session.push(wire.Push(channel=channel, pub=publication))
    await live(subscription)


async def live(subscription: Subscription) -> None:
    """What came meanwhile goes out, and what comes from now on at once."""
    session = subscription.session
    waiting, subscription.waiting = subscription.waiting or [], None
    subscription.checked = session.world.now()
    for publication, epoch in waiting:
        if session.subscriptions.get(subscription.channel) is subscription:
            pushed = Pushed(subscription.channel, publication)
            session.deliver(subscription, publication, epoch, pushed)
    if subscription.ending is not None:
        session.unsubscribe(subscription, subscription.ending)
        return
    if subscription.options.join_leave:
        await session.world.joined(subscription)
    session.plan()


def check_owner(session: Session, grant: tokens.Subscription, channel: str) -> None:
    """Raises Closed when it is somebody else's."""
    if (
        grant.channel != channel
        or grant.user != session.user
        or grant.project not in ("", session.world.project)
        or grant.client not in ("", session.client)
    ):
        raise Closed(codes.INVALID_TOKEN)


async def _by_server(
    session: Session, channel: str, grant: tokens.Granted, request: wire.SubscribeRequest
) -> tuple[Subscription, wire.SubscribeResult]:
    options = _overridden(session.world.namespaces.options(channel), grant.override)
    subscription = _subscription(session, channel, options, grant.info)
    subscription.by_server = True
    return subscription, await _begin(subscription, request, grant.data)


async def _permitted(
    session: Session, channel: str, options: Options, token: str
) -> tuple[Subscription, bytes]:
    """Raises Refused, Closed."""
    if token:
        grant = await _granted(session, channel, token)
        options = _overridden(options, grant.override)
        subscription = _subscription(session, channel, options, grant.info)
        subscription.expire_at = grant.expire_at
        return subscription, grant.data
    if not _may_without_token(session, channel, options):
        raise Refused(codes.PERMISSION_DENIED)
    return _subscription(session, channel, options, b""), b""


async def _granted(session: Session, channel: str, token: str) -> tokens.Subscription:
    try:
        grant = await session.world.verifier.subscription(token)
    except (tokens.Invalid, tokens.NotYetValid) as error:
        raise Refused(codes.PERMISSION_DENIED) from error
    except tokens.Expired as error:
        raise Refused(codes.TOKEN_EXPIRED) from error
    check_owner(session, grant, channel)
    return grant


def _filter(request: wire.SubscribeRequest, options: Options) -> filters.Filter | None:
    """Raises Refused."""
    if request.tf is None:
        return None
    if not options.allow_tags_filter:
        raise Refused(codes.BAD_REQUEST)
    try:
        return filters.compiled(request.tf)
    except ValueError as error:
        raise Refused(codes.BAD_REQUEST) from error


def _may_without_token(session: Session, channel: str, options: Options) -> bool:
    if session.trusted or channel in session.personal:
        return True
    settings = session.world.settings
    if settings.user_personal_channel and channel.startswith(f"{settings.personal_namespace}#"):
        return False  # somebody else's
    users = namespaces.users_of(channel) if options.allow_user_limited_channels else None
    if users is not None:
        return bool(session.user) and session.user in users
    return (
        not namespaces.is_private(channel)
        and options.allow_subscribe_for_client
        and (not session.anonymous or options.allow_subscribe_for_anonymous)
    )


def _subscription(
    session: Session, channel: str, options: Options, chan_info: bytes
) -> Subscription:
    info = wire.ClientInfo(
        user=session.user,
        client=session.client,
        conn_info=session.conn_info,
        chan_info=wire.payload(chan_info),
    )
    return Subscription(session=session, channel=channel, options=options, info=info)


async def _begin(
    subscription: Subscription, request: wire.SubscribeRequest, data: bytes
) -> wire.SubscribeResult:
    """Listen, and read what was missed.  Raises Refused, Closed, StoreUnavailable."""
    session, options = subscription.session, subscription.options
    if subscription.channel in session.subscriptions:  # since it was looked for
        raise Refused(codes.ALREADY_SUBSCRIBED)
    session.subscriptions[subscription.channel] = subscription
    try:
        _grant(subscription, request)
        await session.world.listen(subscription)
        if options.presence:
            await session.world.is_here(subscription)
        result = wire.SubscribeResult(
            recoverable=subscription.recoverable,
            positioned=subscription.positioned,
            data=wire.payload(data),
            delta=subscription.delta,
        )
        if options.has_history:
            await _recover(subscription, request, result)
        if session.closed:
            raise Closed(codes.NORMAL)
    except BaseException:
        if session.subscriptions.get(subscription.channel) is subscription:
            del session.subscriptions[subscription.channel]
        session.world.later(session.world.leave(subscription))
        raise
    ttl = session.ttl(subscription.expire_at)
    result.expires, result.ttl = ttl is not None, ttl or 0
    return result


def _grant(subscription: Subscription, request: wire.SubscribeRequest) -> None:
    """What it wishes, where the namespace forces or allows it, or it has the access."""
    session, options = subscription.session, subscription.options
    sees = session.allows(options, "history", subscribed=True)
    has = options.has_history
    subscription.recoverable = has and (
        options.force_recovery or (request.recoverable and (options.allow_recovery or sees))
    )
    subscription.positioned = subscription.recoverable or (
        has
        and (
            options.force_positioning
            or (request.positioned and (options.allow_positioning or sees))
        )
    )
    subscription.delta = request.delta in options.allowed_delta_types and subscription.wants is None
    subscription.join_leave = options.join_leave and (
        options.force_push_join_leave
        or (request.join_leave and session.allows(options, "presence", subscribed=True))
    )


async def _recover(
    subscription: Subscription, request: wire.SubscribeRequest, result: wire.SubscribeResult
) -> None:
    world, options = subscription.session.world, subscription.options
    cached = options.force_recovery_mode == "cache"
    asked = request.recover
    recovering = subscription.recoverable and (asked or (cached and options.auto_cache_recover))
    result.was_recovering = recovering
    if not recovering:
        _, top = await world.history(subscription.channel, Since(limit=0), options)
        _begin_at(subscription, result, top)
        return
    wanted = Position(request.offset, request.epoch) if asked else NOWHERE
    if cached:
        since = Since(limit=1, reverse=True)
    else:
        # One more than is given: whether that is all must be seen.
        since = Since(wanted, limit=world.settings.recovery_max + 1)
    found, top = await world.history(subscription.channel, since, options)
    if cached:
        result.recovered = recovery.is_in_cache(wanted, found, top)
        missed = [] if wanted == top else found
    else:
        enough = len(found) <= world.settings.recovery_max
        result.recovered = enough and recovery.is_recovered(wanted, found, top)
        missed = found
    if not result.recovered:
        if asked and request.flag & _CAN_BE_REFUSED:
            raise Refused(codes.UNRECOVERABLE)
        _begin_at(subscription, result, top)
        return
    try:
        missed, end = recovery.joined(missed, _waiting(subscription, top.epoch), top)
    except recovery.Hole as hole:
        raise Closed(codes.INSUFFICIENT_STATE) from hole
    subscription.offset, subscription.epoch = end, top.epoch
    result.publications = _shown(subscription, missed)
    # Offsets of publications move the client on; where none is left, this one does.
    result.offset = end if missed and not result.publications else wanted.offset
    result.epoch = top.epoch


def _shown(
    subscription: Subscription, missed: Sequence[wire.Publication]
) -> list[wire.Publication]:
    """What it gets of what was recovered, and how."""
    if subscription.delta and missed:
        subscription.base = missed[-1].data
        return deltas.chained(missed, subscription.session.codec.binary)
    wants = subscription.wants
    return [each for each in missed if wants is None or wants(each.tags)]


def _begin_at(subscription: Subscription, result: wire.SubscribeResult, top: Position) -> None:
    result.offset, result.epoch = top
    subscription.offset, subscription.epoch = top


def _waiting(subscription: Subscription, epoch: str) -> list[wire.Publication]:
    return [each for each, of in subscription.waiting or () if of == epoch]


def _overridden(options: Options, override: dict[str, bool]) -> Options:
    known = {name: value for name, value in override.items() if name in _OVERRIDABLE}
    return msgspec.structs.replace(options, **known) if known else options
