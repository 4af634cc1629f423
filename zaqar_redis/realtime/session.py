# SPDX-License-Identifier: Apache-2.0
"""One connection, from its first command to its end: the protocol, without any IO.

Commands come in, replies and pushes go to an outbox, and what needs the world is asked of
the `Node`.  Commands of a connection are done one after the other.  Rules without another
source are those of Centrifugo's client protocol.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, namespaces, recovery, wire
from zaqar_redis.realtime.codec import Codec
from zaqar_redis.realtime.codes import Close, Closed, End, Error, Refused
from zaqar_redis.realtime.engine import Position, Since
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.realtime.world import Out, Subscription, World

LOG = logging.getLogger(__name__)

#: What clients are told of this server.
VERSION = "zaqar-redis"
#: A year: more than that no timer of a client can hold.
_TTL_MAX = 365 * 86400
#: Publications that may come while the history is read: some seconds of a busy channel.
_WAITING_MAX = 1000
#: Bit of a flag: the client would rather be refused than begin anew.
_CAN_BE_REFUSED = 2
#: What a token may change.
_OVERRIDABLE = frozenset(
    ("presence", "join_leave", "force_push_join_leave", "force_recovery", "force_positioning")
)


class Session:
    def __init__(self, world: World, codec: Codec, out: Out) -> None:
        self.world = world
        self.codec = codec
        self.client = str(uuid.uuid4())
        self.user = ""
        self.conn_info = wire.NOTHING
        self.subscriptions: dict[str, Subscription] = {}
        self.connected = False
        self.closed = False
        #: when `tick` has something to do, seconds since 1970
        self.due = world.now() + world.settings.stale_after
        #: the same; 0: never
        self.expire_at = 0
        self._anonymous = False
        #: whether it may do everything, without a token
        self._trusted = False
        self._out = out
        self._next_ping = math.inf
        self._next_presence = math.inf
        #: until when its answer to a ping must be here; inf: none is out
        self._pong_until = math.inf
        #: its token was expired: nothing but another connection can help
        self._dying = False

    # In

    async def receive(self, frame: bytes) -> None:
        """Do all commands of a frame."""
        try:
            commands = self.codec.decode(frame)
        except (msgspec.DecodeError, ValueError):
            self.close(codes.BAD_CLOSE)
            return
        for command in commands:
            if self.closed:
                return
            await self.handle(command)

    async def handle(self, command: wire.Command) -> None:
        try:
            await self._handle(command)
        except Closed as closed:
            self.close(closed.close)
        except errors.Unavailable:
            self.close(codes.SERVER_ERROR)
        except Exception:  # of this connection; the others go on
            LOG.exception("a command failed", extra={"action": "command_failed"})
            self.close(codes.SERVER_ERROR)

    async def _handle(self, command: wire.Command) -> None:
        try:
            asked = command.method()
        except ValueError as error:
            raise Closed(codes.BAD_CLOSE) from error
        if asked is None:
            self._pong()
            return
        method, request = asked
        if command.id == 0 and method != "send":
            raise Closed(codes.BAD_CLOSE)
        # Connect comes first, and once.
        if self._dying or self.connected == (method == "connect"):
            raise Closed(codes.BAD_CLOSE)
        try:
            await _METHODS[method](self, command.id, request)
        except Refused as refused:
            self.send(wire.Reply(id=command.id, error=_fault(refused.error)))

    def _pong(self) -> None:
        if self._pong_until == math.inf:
            raise Closed(codes.BAD_CLOSE)
        self._pong_until = math.inf

    # Out

    def send(self, reply: wire.Reply) -> None:
        if not self.closed:
            self._out.send(self.codec.encode(reply))

    def push(self, push: wire.Push) -> None:
        self.send(wire.Reply(push=push))

    def close(self, close: Close) -> None:
        """Say no more.  What is left to do is `end`."""
        if not self.closed:
            self.closed = True
            self._out.close(close)

    async def end(self) -> None:
        """It is gone: leave everything."""
        self.closed = True
        for subscription in list(self.subscriptions.values()):
            await self.world.leave(subscription)
        self.subscriptions.clear()

    def deliver(
        self,
        subscription: Subscription,
        publication: wire.Publication,
        epoch: str,
        encoded: Callable[[Codec], bytes],
    ) -> None:
        """A publication of a channel, or nothing when it was delivered before."""
        if self.closed:
            return
        if subscription.waiting is not None:
            if len(subscription.waiting) >= _WAITING_MAX:
                self.lost(subscription)
            else:
                subscription.waiting.append((publication, epoch))
            return
        offset = publication.offset
        if subscription.positioned and offset:
            if offset <= subscription.offset and epoch == subscription.epoch:
                return
            if offset != subscription.offset + 1 or epoch != (subscription.epoch or epoch):
                self.lost(subscription)
                return
            subscription.offset, subscription.epoch = offset, epoch
            subscription.checked = self.world.now()
        self._out.send(encoded(self.codec))

    def lost(self, subscription: Subscription) -> None:
        """It has missed something: the client shall subscribe again, and recover."""
        if subscription.by_server:
            self.close(codes.INSUFFICIENT_STATE)
        else:
            self.unsubscribe(subscription, codes.LOST_POSITION)

    def unsubscribe(self, subscription: Subscription, end: End) -> None:
        """By the server."""
        if self.subscriptions.pop(subscription.channel, None) is None:
            return
        self.push(
            wire.Push(
                channel=subscription.channel,
                unsubscribe=wire.Unsubscribe(code=end.code, reason=end.reason),
            )
        )
        self.world.later(self.world.leave(subscription))

    # Methods

    async def _connect(self, id: int, request: wire.ConnectRequest) -> None:
        granted = self._authenticated(request.token)
        settings = self.world.settings
        now = self.world.now()
        if settings.user_personal_channel and self.user:
            granted = {f"{settings.personal_namespace}#{self.user}": tokens.Granted()} | granted
        if len(granted) > settings.channel_limit:
            raise Closed(codes.CHANNEL_LIMIT)
        subs = {}
        made = []
        self.connected = True
        for channel, grant in granted.items():
            subscription, result = await self._subscribed_by_server(
                channel, grant, request.subs.get(channel)
            )
            subs[channel] = result
            made.append(subscription)
        ttl = self._ttl(self.expire_at)
        self.send(
            wire.Reply(
                id=id,
                connect=wire.ConnectResult(
                    client=self.client,
                    version=VERSION,
                    expires=ttl is not None,
                    ttl=ttl or 0,
                    subs=subs,
                    ping=settings.ping_interval,
                    pong=True,
                    time=round(now * 1000),
                ),
            )
        )
        # The first one at any time of an interval, so that not all come at once.
        share = 0.5 + random.random() / 2
        self._next_ping = now + settings.ping_interval * share
        self._next_presence = now + settings.presence_interval * share
        self._plan()
        for subscription in made:
            await self._live(subscription)

    def _authenticated(self, token: str) -> dict[str, tokens.Granted]:
        """Who it is; the subscriptions that its token gives.  Raises Closed, Refused."""
        settings = self.world.settings
        if not token:
            if not (settings.insecure or settings.allow_anonymous):
                raise Closed(codes.BAD_CLOSE)
            self._anonymous, self._trusted = True, settings.insecure
            return {}
        try:
            known = self.world.verifier.connection(token)
        except tokens.Expired as error:
            self._dying = True
            raise Refused(codes.TOKEN_EXPIRED) from error
        except tokens.Invalid as error:
            raise Closed(codes.INVALID_TOKEN) from error
        self.user, self.expire_at = known.user, known.expire_at
        self.conn_info = wire.payload(known.info)
        self._anonymous, self._trusted = not known.user, settings.insecure
        return dict(known.subs)

    async def _subscribed_by_server(
        self, channel: str, grant: tokens.Granted, wanted: wire.SubscribeRequest | None
    ) -> tuple[Subscription, wire.SubscribeResult]:
        try:
            options = _overridden(self.world.namespaces.options(channel), grant.override)
        except Refused as refused:
            raise Closed(codes.BAD_CLOSE) from refused
        subscription = self._subscription(channel, options, grant.info)
        subscription.by_server = True
        request = wanted or wire.SubscribeRequest()
        result = await self._begin(subscription, request, grant.data)
        return subscription, result

    async def _subscribe(self, id: int, request: wire.SubscribeRequest) -> None:
        channel = request.channel
        if not channel or request.delta not in ("", "fossil"):
            raise Closed(codes.BAD_CLOSE)
        options = self.world.namespaces.options(channel)
        if channel in self.subscriptions:
            raise Refused(codes.ALREADY_SUBSCRIBED)
        if len(self.subscriptions) >= self.world.settings.channel_limit:
            raise Refused(codes.LIMIT_EXCEEDED)
        subscription, data = self._permitted(channel, options, request.token)
        result = await self._begin(subscription, request, data)
        if self.closed or channel not in self.subscriptions:
            return
        self.send(wire.Reply(id=id, subscribe=result))
        await self._live(subscription)

    def _permitted(self, channel: str, options: Options, token: str) -> tuple[Subscription, bytes]:
        """Raises Refused, Closed."""
        if token:
            grant = self._token_of(channel, token)
            options = _overridden(options, grant.override)
            subscription = self._subscription(channel, options, grant.info)
            subscription.expire_at = grant.expire_at
            return subscription, grant.data
        users = namespaces.users_of(channel) if options.allow_user_limited_channels else None
        allowed = (
            self._trusted
            or (users is not None and bool(self.user) and self.user in users)
            or (
                not namespaces.is_private(channel)
                and users is None
                and options.allow_subscribe_for_client
                and (not self._anonymous or options.allow_subscribe_for_anonymous)
            )
        )
        if not allowed:
            raise Refused(codes.PERMISSION_DENIED)
        return self._subscription(channel, options, b""), b""

    def _token_of(self, channel: str, token: str) -> tokens.Subscription:
        try:
            grant = self.world.verifier.subscription(token)
        except tokens.Expired as error:
            raise Refused(codes.TOKEN_EXPIRED) from error
        except tokens.Invalid as error:
            raise Refused(codes.PERMISSION_DENIED) from error
        self._check_owner(grant, channel)
        return grant

    def _check_owner(self, grant: tokens.Subscription, channel: str) -> None:
        """Raises Closed when it is somebody else's."""
        if (
            grant.channel != channel
            or grant.user != self.user
            or grant.client not in ("", self.client)
        ):
            raise Closed(codes.INVALID_TOKEN)

    def _subscription(self, channel: str, options: Options, chan_info: bytes) -> Subscription:
        info = wire.ClientInfo(
            user=self.user,
            client=self.client,
            conn_info=self.conn_info,
            chan_info=wire.payload(chan_info),
        )
        return Subscription(session=self, channel=channel, options=options, info=info)

    async def _begin(
        self, subscription: Subscription, request: wire.SubscribeRequest, data: bytes
    ) -> wire.SubscribeResult:
        """Listen, and read what was missed.  Raises Refused, Closed, StoreUnavailable."""
        options = subscription.options
        self.subscriptions[subscription.channel] = subscription
        try:
            self._grant(subscription, request)
            await self.world.listen(subscription)
            if options.presence:
                await self.world.is_here(subscription)
            result = wire.SubscribeResult(
                recoverable=subscription.recoverable,
                positioned=subscription.positioned,
                data=wire.payload(data),
            )
            if options.keep is not None:
                await self._recover(subscription, request, result)
        except BaseException:
            self.subscriptions.pop(subscription.channel, None)
            self.world.later(self.world.leave(subscription))
            raise
        ttl = self._ttl(subscription.expire_at)
        result.expires, result.ttl = ttl is not None, ttl or 0
        return result

    def _grant(self, subscription: Subscription, request: wire.SubscribeRequest) -> None:
        """What it wishes, where the namespace forces or allows it, or it has the access."""
        options = subscription.options
        sees = self._allows(options, "history", subscribed=True)
        has = options.keep is not None
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
        subscription.join_leave = options.join_leave and (
            options.force_push_join_leave
            or (request.join_leave and self._allows(options, "presence", subscribed=True))
        )

    async def _recover(
        self,
        subscription: Subscription,
        request: wire.SubscribeRequest,
        result: wire.SubscribeResult,
    ) -> None:
        world, options = self.world, subscription.options
        if not (request.recover and subscription.recoverable):
            _, top = await world.history(subscription.channel, Since(limit=0), options)
            result.offset, result.epoch = top
            subscription.offset, subscription.epoch = top
            return
        result.was_recovering = True
        wanted = Position(request.offset, request.epoch)
        if options.force_recovery_mode == "cache":
            since = Since(limit=1, reverse=True)
        else:
            # One more than is given: whether that is all must be seen.
            since = Since(wanted, limit=world.settings.recovery_max + 1)
        found, top = await world.history(subscription.channel, since, options)
        if options.force_recovery_mode == "cache":
            result.recovered = recovery.is_in_cache(wanted, found, top)
            missed = [] if wanted == top else found
        else:
            enough = len(found) <= world.settings.recovery_max
            result.recovered = enough and recovery.is_recovered(wanted, found, top)
            missed = found
        if not result.recovered:
            if request.flag & _CAN_BE_REFUSED:
                raise Refused(codes.UNRECOVERABLE)
            result.offset, result.epoch = top
            subscription.offset, subscription.epoch = top
            return
        try:
            missed, end = recovery.joined(missed, self._waiting(subscription, top.epoch), top)
        except recovery.Hole as hole:
            raise Closed(codes.INSUFFICIENT_STATE) from hole
        result.publications = missed
        result.offset, result.epoch = request.offset, top.epoch
        subscription.offset, subscription.epoch = end, top.epoch

    def _waiting(self, subscription: Subscription, epoch: str) -> list[wire.Publication]:
        return [each for each, of in subscription.waiting or () if of == epoch]

    async def _live(self, subscription: Subscription) -> None:
        """What came meanwhile goes out, and what comes from now on at once."""
        waiting, subscription.waiting = subscription.waiting or [], None
        subscription.checked = self.world.now()
        for publication, epoch in waiting:
            if subscription.channel in self.subscriptions:
                self.deliver(
                    subscription, publication, epoch, pushed(subscription.channel, publication)
                )
        if subscription.options.join_leave:
            await self.world.joined(subscription)
        self._plan()

    async def _unsubscribe(self, id: int, request: wire.UnsubscribeRequest) -> None:
        if not request.channel:
            raise Closed(codes.BAD_CLOSE)
        subscription = self.subscriptions.pop(request.channel, None)
        if subscription is not None:
            await self.world.leave(subscription)
        self.send(wire.Reply(id=id, unsubscribe=wire.Empty()))

    async def _publish(self, id: int, request: wire.PublishRequest) -> None:
        self._check_access(request.channel, "publish")
        if not bytes(request.data):
            raise Refused(codes.BAD_REQUEST)
        subscription = self.subscriptions.get(request.channel)
        info = wire.ClientInfo(user=self.user, client=self.client, conn_info=self.conn_info)
        try:
            await self.world.publish(
                request.channel, request.data, subscription.info if subscription else info
            )
        except errors.Unavailable as error:
            raise Refused(codes.INTERNAL) from error
        self.send(wire.Reply(id=id, publish=wire.Empty()))

    async def _history(self, id: int, request: wire.HistoryRequest) -> None:
        options = self._check_access(request.channel, "history")
        if options.keep is None:
            raise Refused(codes.NOT_AVAILABLE)
        since = since_of(request, self.world.settings.history_max)
        found, top = await self.world.history(request.channel, since, options)
        if request.since is not None and request.since.epoch not in ("", top.epoch):
            raise Refused(codes.UNRECOVERABLE)
        result = wire.HistoryResult(publications=found, epoch=top.epoch, offset=top.offset)
        self.send(wire.Reply(id=id, history=result))

    async def _presence(self, id: int, request: wire.PresenceRequest) -> None:
        if not self._check_access(request.channel, "presence").presence:
            raise Refused(codes.NOT_AVAILABLE)
        result = wire.PresenceResult(await self.world.presence(request.channel))
        self.send(wire.Reply(id=id, presence=result))

    async def _presence_stats(self, id: int, request: wire.PresenceStatsRequest) -> None:
        if not self._check_access(request.channel, "presence").presence:
            raise Refused(codes.NOT_AVAILABLE)
        result = wire.PresenceStatsResult(*await self.world.presence_stats(request.channel))
        self.send(wire.Reply(id=id, presence_stats=result))

    def _check_access(self, channel: str, what: str) -> Options:
        """Raises Refused, Closed."""
        if not channel:
            raise Closed(codes.BAD_CLOSE)
        options = self.world.namespaces.options(channel)
        if not self._allows(options, what, subscribed=channel in self.subscriptions):
            raise Refused(codes.PERMISSION_DENIED)
        return options

    def _allows(self, options: Options, what: str, *, subscribed: bool) -> bool:
        return self._trusted or options.allows(what, self._anonymous, subscribed)

    async def _ping(self, id: int, request: wire.PingRequest) -> None:
        raise Refused(codes.NOT_AVAILABLE)

    async def _send(self, id: int, request: wire.SendRequest) -> None:
        raise Closed(codes.UNSUPPORTED)

    async def _rpc(self, id: int, request: wire.RPCRequest) -> None:
        raise Refused(codes.NOT_AVAILABLE)

    async def _refresh(self, id: int, request: wire.RefreshRequest) -> None:
        try:
            known = self.world.verifier.connection(request.token)
        except tokens.Expired as error:
            raise Closed(codes.CONNECTION_EXPIRED) from error
        except tokens.Invalid as error:
            raise Closed(codes.INVALID_TOKEN) from error
        if known.user != self.user:
            raise Closed(codes.INVALID_TOKEN)
        self.expire_at = known.expire_at
        self._plan()
        ttl = self._ttl(self.expire_at)
        self.send(
            wire.Reply(
                id=id,
                refresh=wire.RefreshResult(
                    client=self.client, version=VERSION, expires=ttl is not None, ttl=ttl or 0
                ),
            )
        )

    async def _sub_refresh(self, id: int, request: wire.SubRefreshRequest) -> None:
        subscription = self.subscriptions.get(request.channel)
        if subscription is None:
            raise Refused(codes.PERMISSION_DENIED)
        if not request.token:
            raise Refused(codes.BAD_REQUEST)
        try:
            grant = self.world.verifier.subscription(request.token)
        except tokens.Expired as error:
            raise Closed(codes.SUBSCRIPTION_EXPIRED) from error
        except tokens.Invalid as error:
            raise Closed(codes.INVALID_TOKEN) from error
        self._check_owner(grant, request.channel)
        subscription.expire_at = grant.expire_at
        self._plan()
        ttl = self._ttl(grant.expire_at)
        result = wire.SubRefreshResult(expires=ttl is not None, ttl=ttl or 0)
        self.send(wire.Reply(id=id, sub_refresh=result))

    # Time

    def tick(self) -> None:
        """What is due is done."""
        now, settings = self.world.now(), self.world.settings
        if not self.connected:
            self.close(codes.STALE)
        elif now >= self._pong_until:
            self.close(codes.NO_PONG)
        elif self.expire_at and now >= self.expire_at + settings.expiry_grace:
            self.close(codes.CONNECTION_EXPIRED)
        if self.closed:
            self.due = math.inf
            return
        if now >= self._next_ping:
            self._next_ping = now + settings.ping_interval
            self._pong_until = min(self._pong_until, now + settings.pong_timeout)
            self.send(wire.Reply())
        for subscription in list(self.subscriptions.values()):
            self._tick_of(subscription, now)
        if now >= self._next_presence:
            self._next_presence = now + settings.presence_interval
        self._plan()

    def _tick_of(self, subscription: Subscription, now: float) -> None:
        settings = self.world.settings
        end = subscription.expire_at
        if end and now >= end + settings.expiry_grace:
            if subscription.by_server:
                self.close(codes.SUBSCRIPTION_EXPIRED)
            else:
                self.unsubscribe(subscription, codes.EXPIRED_SUBSCRIPTION)
        elif now >= self._next_presence:
            if subscription.options.presence:
                self.world.later(self._renew(subscription))
            if subscription.positioned and now >= subscription.checked + settings.position_check:
                self.world.later(self._check_position(subscription))

    async def _renew(self, subscription: Subscription) -> None:
        with contextlib.suppress(errors.Unavailable):  # the next time may be better
            if self.subscriptions.get(subscription.channel) is subscription:
                await self.world.is_here(subscription)

    async def _check_position(self, subscription: Subscription) -> None:
        """Whether the last publication was delivered: one that got lost is followed by none."""
        before = subscription.offset
        try:
            _, top = await self.world.history(
                subscription.channel, Since(limit=0), subscription.options
            )
        except errors.Unavailable:
            return
        known = Position(subscription.offset, subscription.epoch)
        subscription.checked = self.world.now()
        # What came while it was asked for is no loss.
        if known != top and subscription.offset == before:
            self.lost(subscription)

    def _plan(self) -> None:
        grace = self.world.settings.expiry_grace
        ends = [self.expire_at, *(each.expire_at for each in self.subscriptions.values())]
        self.due = min(
            self._next_ping,
            self._next_presence,
            self._pong_until,
            *(end + grace for end in ends if end),
            math.inf,
        )

    def _ttl(self, expire_at: int) -> int | None:
        """Seconds; None: it never ends."""
        if not expire_at:
            return None
        return max(0, min(_TTL_MAX, math.ceil(expire_at - self.world.now())))


def pushed(channel: str, publication: wire.Publication) -> Callable[[Codec], bytes]:
    """A push, encoded when it is needed, once for each codec."""

    known: dict[Codec, bytes] = {}

    def encoded(codec: Codec) -> bytes:
        found = known.get(codec)
        if found is None:
            push = wire.Push(channel=channel, pub=publication)
            found = known[codec] = codec.encode(wire.Reply(push=push))
        return found

    return encoded


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


def _overridden(options: Options, override: dict[str, bool]) -> Options:
    known = {name: value for name, value in override.items() if name in _OVERRIDABLE}
    return msgspec.structs.replace(options, **known) if known else options


def _fault(error: Error) -> wire.Fault:
    return wire.Fault(code=error.code, message=error.message, temporary=error.temporary)


_METHODS: dict[str, Callable[[Session, int, Any], Coroutine[Any, Any, None]]] = {
    "connect": Session._connect,
    "subscribe": Session._subscribe,
    "unsubscribe": Session._unsubscribe,
    "publish": Session._publish,
    "presence": Session._presence,
    "presence_stats": Session._presence_stats,
    "history": Session._history,
    "ping": Session._ping,
    "send": Session._send,
    "rpc": Session._rpc,
    "refresh": Session._refresh,
    "sub_refresh": Session._sub_refresh,
}
