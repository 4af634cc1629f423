# SPDX-License-Identifier: Apache-2.0
"""From a request to a live subscription: permission, recovery, delivery.

The order matters: listen, read the history, reply, and only then deliver.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime.engine import Position
from zaqar_redis.realtime.protocol import codes, filters, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, Disconnected
from zaqar_redis.realtime.session import deltas, namespaces, recovery
from zaqar_redis.realtime.session.context import ChannelSubscription
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.realtime.session.states import SubscriptionEvent, SubscriptionState

if TYPE_CHECKING:
    from zaqar_redis.realtime.session.session import Session

LOG = logging.getLogger(__name__)

#: The type of a subscription to a stream of publications, the only one supported.
_TYPE_STREAM = 0
#: Options that a token may override.
_OVERRIDABLE = frozenset(
    ("presence", "join_leave", "force_push_join_leave", "force_recovery", "force_positioning")
)


async def client_side(session: Session, id: int, request: wire.SubscribeRequest) -> None:
    """Subscribes the client at its own request.

    Raises CommandRejected, Disconnected, StoreUnavailable.
    """
    channel = request.channel
    if not channel or request.delta not in ("", *deltas.TYPES):
        raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
    options = session.context.namespaces.options(channel)
    if channel in session.subscriptions:
        raise CommandRejected(codes.ALREADY_SUBSCRIBED)
    if len(session.subscriptions) >= session.context.settings.channel_limit:
        raise CommandRejected(codes.LIMIT_EXCEEDED)
    if request.type != _TYPE_STREAM:
        raise CommandRejected(codes.PERMISSION_DENIED)
    subscription, data = await _authorize(session, channel, options, request.token)
    subscription.tag_filter = _filter(request, options)
    result = await _start(subscription, request, data)
    session.send(wire.Reply(id=id, subscribe=result))
    await go_live(subscription)


async def server_side_at_connect(
    session: Session,
    granted: dict[str, tokens.SubscriptionGrant],
    wanted: dict[str, wire.SubscribeRequest],
) -> tuple[list[ChannelSubscription], dict[str, wire.SubscribeResult]]:
    """Starts the subscriptions that the server grants; the caller calls `go_live` for each.

    Raises Disconnected, StoreUnavailable.
    """
    if len(granted) > session.context.settings.channel_limit:
        raise Disconnected(codes.CHANNEL_LIMIT)
    subscriptions, results = [], {}
    for channel, grant in granted.items():
        request = wanted.get(channel) or wire.SubscribeRequest()
        try:
            subscription, results[channel] = await _start_server_side(
                session, channel, grant, request
            )
        except CommandRejected as rejected:
            LOG.warning(
                "cannot subscribe a connecting client to %.300r, which it was granted: %s",
                channel,
                errors.reason(rejected),
                extra={"action": "bad_grant"},
            )
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT) from rejected
        subscriptions.append(subscription)
    return subscriptions, results


async def server_side(
    session: Session,
    channel: str,
    grant: tokens.SubscriptionGrant,
    *,
    expire_at: int = 0,
    since: Position | None = None,
) -> None:
    """Subscribes a connected client, and notifies it; does nothing when it is subscribed.

    With *since*, later publications are recovered, if possible.  Raises CommandRejected,
    Disconnected, StoreUnavailable.
    """
    if not session.connected or channel in session.subscriptions:
        return
    if len(session.subscriptions) >= session.context.settings.channel_limit:
        raise Disconnected(codes.CHANNEL_LIMIT)
    request = wire.SubscribeRequest()
    if since is not None:
        request = wire.SubscribeRequest(recover=True, offset=since.offset, epoch=since.epoch)
    subscription, result = await _start_server_side(session, channel, grant, request)
    if subscription.state is SubscriptionState.UNSUBSCRIBED:  # the client has left meanwhile
        await session.context.leave(subscription)
        return
    subscription.expire_at = expire_at
    notification = wire.Subscribe(
        recoverable=result.recoverable,
        epoch=result.epoch,
        offset=result.offset,
        positioned=result.positioned,
        data=result.data,
    )
    session.push(wire.Push(channel=channel, subscribe=notification))
    for publication in result.publications:
        session.push(wire.Push(channel=channel, pub=publication))
    await go_live(subscription)


async def go_live(subscription: ChannelSubscription) -> None:
    """Sends the pending publications, and from now on each one at once."""
    session = subscription.session
    subscription.apply(SubscriptionEvent.GO_LIVE)
    subscription.position_checked_at = session.context.now()
    for publication, epoch in subscription.pending:
        encoded = deltas.EncodedPublication(subscription.channel, publication)
        session.deliver(subscription, publication, epoch, encoded)
    subscription.pending.clear()
    if subscription.pending_unsubscribe is not None:
        session.unsubscribe(subscription, subscription.pending_unsubscribe)
    if subscription.state is not SubscriptionState.SUBSCRIBED:
        return
    if subscription.options.join_leave:
        subscription.joined = True
        await session.context.publish_join(subscription)
    session.schedule_tick()


def check_owner(session: Session, grant: tokens.SubscriptionClaims, channel: str) -> None:
    """Raises Disconnected when the token is for another client or channel."""
    if (
        grant.channel != channel
        or grant.user != session.user
        or grant.project not in ("", session.context.project)
        or grant.client not in ("", session.client)
    ):
        raise Disconnected(codes.INVALID_TOKEN)


async def _start_server_side(
    session: Session, channel: str, grant: tokens.SubscriptionGrant, request: wire.SubscribeRequest
) -> tuple[ChannelSubscription, wire.SubscribeResult]:
    options = _with_overrides(session.context.namespaces.options(channel), grant.override)
    subscription = _subscription(session, channel, options, grant.info)
    subscription.server_side = True
    return subscription, await _start(subscription, request, grant.data)


async def _authorize(
    session: Session, channel: str, options: ChannelOptions, token: str
) -> tuple[ChannelSubscription, bytes]:
    """Returns a permitted subscription and its data.  Raises CommandRejected, Disconnected."""
    if token:
        grant = await _verify_token(session, channel, token)
        options = _with_overrides(options, grant.override)
        subscription = _subscription(session, channel, options, grant.info)
        subscription.expire_at = grant.expire_at
        return subscription, grant.data
    if not _allowed_without_token(session, channel, options):
        raise CommandRejected(codes.PERMISSION_DENIED)
    return _subscription(session, channel, options, b""), b""


async def _verify_token(session: Session, channel: str, token: str) -> tokens.SubscriptionClaims:
    try:
        grant = await session.context.verifier.subscription(token)
    except (tokens.InvalidToken, tokens.TokenNotYetValid) as error:
        raise CommandRejected(codes.PERMISSION_DENIED) from error
    except tokens.ExpiredToken as error:
        raise CommandRejected(codes.TOKEN_EXPIRED) from error
    check_owner(session, grant, channel)
    return grant


def _filter(request: wire.SubscribeRequest, options: ChannelOptions) -> filters.TagFilter | None:
    """Raises CommandRejected."""
    if request.tf is None:
        return None
    if not options.allow_tags_filter:
        raise CommandRejected(codes.BAD_REQUEST)
    try:
        return filters.compile_filter(request.tf)
    except ValueError as error:
        raise CommandRejected(codes.BAD_REQUEST) from error


def _allowed_without_token(session: Session, channel: str, options: ChannelOptions) -> bool:
    if session.trusted or channel in session.personal_channels:
        return True
    settings = session.context.settings
    if settings.user_personal_channel and channel.startswith(settings.personal_prefix):
        return False  # the personal channel of another user
    users = namespaces.users_of(channel) if options.allow_user_limited_channels else None
    if users is not None:
        return bool(session.user) and session.user in users
    return (
        not namespaces.is_private(channel)
        and options.allow_subscribe_for_client
        and (not session.anonymous or options.allow_subscribe_for_anonymous)
    )


def _subscription(
    session: Session, channel: str, options: ChannelOptions, chan_info: bytes
) -> ChannelSubscription:
    info = wire.ClientInfo(
        user=session.user,
        client=session.client,
        conn_info=session.conn_info,
        chan_info=wire.payload(chan_info),
    )
    return ChannelSubscription(session=session, channel=channel, options=options, info=info)


async def _start(
    subscription: ChannelSubscription, request: wire.SubscribeRequest, data: bytes
) -> wire.SubscribeResult:
    """Listens, and recovers what was missed.

    Raises CommandRejected, Disconnected, StoreUnavailable.
    """
    session, options = subscription.session, subscription.options
    if subscription.channel in session.subscriptions:  # meanwhile
        raise CommandRejected(codes.ALREADY_SUBSCRIBED)
    session.subscriptions[subscription.channel] = subscription
    try:
        _negotiate(subscription, request)
        await session.context.listen(subscription)
        if options.presence:
            await session.context.update_presence(subscription)
        result = wire.SubscribeResult(
            recoverable=subscription.recoverable,
            positioned=subscription.positioned,
            data=wire.payload(data),
            delta=subscription.delta,
        )
        if options.has_history:
            await recovery.recover(subscription, request, result)
        if session.closed:
            raise Disconnected(codes.CONNECTION_CLOSED)
    except BaseException:
        subscription.apply(SubscriptionEvent.LEAVE)
        session.context.spawn(session.context.leave(subscription))
        raise
    ttl = session.ttl(subscription.expire_at)
    result.expires, result.ttl = ttl is not None, ttl or 0
    return result


def _negotiate(subscription: ChannelSubscription, request: wire.SubscribeRequest) -> None:
    """Grants what is requested, where the namespace forces or allows it, or by permission."""
    session, options = subscription.session, subscription.options
    may_read = session.allows(options, "history", subscribed=True)
    has_history = options.has_history
    subscription.recoverable = has_history and (
        options.force_recovery or (request.recoverable and (options.allow_recovery or may_read))
    )
    subscription.positioned = subscription.recoverable or (
        has_history
        and (
            options.force_positioning
            or (request.positioned and (options.allow_positioning or may_read))
        )
    )
    subscription.delta = (
        request.delta in options.allowed_delta_types and subscription.tag_filter is None
    )
    subscription.join_leave = options.join_leave and (
        options.force_push_join_leave
        or (request.join_leave and session.allows(options, "presence", subscribed=True))
    )


def _with_overrides(options: ChannelOptions, override: dict[str, bool]) -> ChannelOptions:
    permitted = {name: value for name, value in override.items() if name in _OVERRIDABLE}
    return msgspec.structs.replace(options, **permitted) if permitted else options
