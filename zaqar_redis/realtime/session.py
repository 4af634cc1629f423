# SPDX-License-Identifier: Apache-2.0
"""One connection, from its first command to its end: the protocol, without any IO.

Commands come in, replies and pushes go to an outbox, and what needs the world is asked of
the `World`.  Commands of a connection are done one after the other.  Rules without another
source are those of Centrifugo's client protocol.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import uuid
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, commands, deltas, subscribing, wire
from zaqar_redis.realtime.codec import Codec, Inappropriate
from zaqar_redis.realtime.codes import Close, Closed, End, Error, Refused
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.realtime.pushes import Pushed
from zaqar_redis.realtime.world import BOTH_WAYS, Out, Subscription, Ways, World

LOG = logging.getLogger(__name__)

#: What fits into its field in Protobuf.
_ID_MAX = 2**32 - 1
#: A year: more than that no timer of a client can hold.
_TTL_MAX = 365 * 86400
#: Publications that may come while the history is read: some seconds of a busy channel.
_WAITING_MAX = 1000


class Session:
    def __init__(self, world: World, codec: Codec, out: Out, ways: Ways = BOTH_WAYS) -> None:
        self.world = world
        self.codec = codec
        #: how requests of its own, and the operator, name it; a secret of its client
        self.id = str(uuid.uuid4())
        #: how others know it
        self.client = str(uuid.uuid4())
        self.user = ""
        self.conn_info: wire.Payload = wire.NOTHING
        self.subscriptions: dict[str, Subscription] = {}
        self.connected = False
        self.closed = False
        self.anonymous = False
        #: whether it may do everything, without a token
        self.trusted = False
        #: channels that the server subscribed it to when it came
        self.granted: frozenset[str] = frozenset()
        #: when `tick` has something to do, seconds since 1970
        self.due = world.now() + world.settings.stale_after
        #: the same; 0: never
        self.expire_at = 0
        self._out = out
        self._ways = ways
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
            given = self.codec.decode(frame)
        except (msgspec.DecodeError, ValueError):
            self.close(codes.BAD_CLOSE)
            return
        for command in given:
            if self.closed:
                return
            await self.handle(command)

    async def handle(self, command: wire.Command) -> None:
        try:
            await self._handle(command)
        except Closed as closed:
            self.close(closed.close)
        except errors.Unavailable:  # it could not connect
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
        if not (0 < command.id <= _ID_MAX or method == "send"):
            raise Closed(codes.BAD_CLOSE)
        # Connect comes first, and once.
        if self._dying or self.connected == (method == "connect"):
            raise Closed(codes.BAD_CLOSE)
        try:
            if method == "connect":
                await self._connect(command.id, request)
            else:
                await self._done(method, command.id, request)
        except Refused as refused:
            if self._ways.unidirectional:
                instead = codes.INSTEAD.get(refused.error, codes.SERVER_ERROR)
                raise Closed(instead) from refused
            self.send(wire.Reply(id=command.id, error=_fault(refused.error)))

    async def _done(self, method: str, id: int, request: Any) -> None:
        try:
            await commands.METHODS[method](self, id, request)
        except errors.Unavailable as error:
            # It may try again; what else the connection does may have another store.
            raise Refused(codes.INTERNAL) from error

    def _pong(self) -> None:
        if self._pong_until == math.inf:
            raise Closed(codes.BAD_CLOSE)
        self._pong_until = math.inf

    # Out

    def send(self, reply: wire.Reply) -> None:
        if self.closed:
            return
        try:
            text = self.codec.encode(reply)
        except Inappropriate:
            LOG.warning(
                "what %s is to be told is no JSON, and it reads nothing else",
                self.client,
                extra={"action": "inappropriate"},
            )
            self.close(codes.INAPPROPRIATE)
        else:
            self._out.send(text)

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
            with contextlib.suppress(errors.Unavailable):  # presence lapses
                await self.world.leave(subscription)
        self.subscriptions.clear()

    def deliver(
        self,
        subscription: Subscription,
        publication: wire.Publication,
        epoch: str,
        pushed: Pushed,
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
            before = subscription.epoch
            if offset != subscription.offset + 1 or before not in ("", epoch):
                self.lost(subscription)
                return
            subscription.offset, subscription.epoch = offset, epoch
            subscription.checked = self.world.now()
        if subscription.wants is not None and not subscription.wants(publication.tags):
            return
        if not subscription.delta:
            text = pushed.plain(self.codec)
        else:
            is_delta = deltas.is_wanted(publication, subscription.options)
            text = pushed.delta(self.codec, subscription.base if is_delta else None)
            subscription.base = publication.data
        if text is None:
            self.close(codes.INAPPROPRIATE)
        else:
            self._out.send(text)

    def lost(self, subscription: Subscription) -> None:
        """It has missed something: the client shall subscribe again, and recover."""
        if subscription.by_server:
            self.close(codes.INSUFFICIENT_STATE)
        else:
            self.unsubscribe(subscription, codes.LOST_POSITION)

    def unsubscribe(self, subscription: Subscription, end: End) -> None:
        """By the server; one that is not live yet ends when it is."""
        if self.subscriptions.get(subscription.channel) is not subscription:
            return
        if subscription.waiting is not None:
            subscription.ending = end
            return
        del self.subscriptions[subscription.channel]
        told = wire.Unsubscribe(code=end.code, reason=end.reason)
        self.push(wire.Push(channel=subscription.channel, unsubscribe=told))
        self.world.later(self.world.leave(subscription))

    # The beginning

    async def _connect(self, id: int, request: wire.ConnectRequest) -> None:
        granted = await self._authenticated(request.token)
        settings = self.world.settings
        await self.world.arrived(self)
        granted = dict.fromkeys(self.personal, tokens.Granted()) | granted
        self.granted = frozenset(granted)
        made, subs = await subscribing.at_connect(self, granted, request.subs)
        self.connected = True
        now = self.world.now()
        ttl = self.ttl(self.expire_at)
        named = self._ways.emulated or self._ways.unidirectional
        result = wire.ConnectResult(
            client=self.client,
            version=commands.VERSION,
            expires=ttl is not None,
            ttl=ttl or 0,
            subs=subs,
            ping=settings.ping_interval,
            pong=not self._ways.unidirectional,
            session=self.id if named else "",
            node=self.world.node if named else "",
            time=round(now * 1000),
        )
        self.send(wire.Reply(id=id, connect=result))
        # The first one at any time of an interval, so that not all come at once.
        share = 0.5 + random.random() / 2
        self._next_ping = now + settings.ping_interval * share
        self._next_presence = now + settings.presence_interval * share
        self.plan()
        for subscription in made:
            await subscribing.live(subscription)

    async def _authenticated(self, token: str) -> dict[str, tokens.Granted]:
        """Who it is; the subscriptions that its token gives.  Raises Closed, Refused."""
        settings = self.world.settings
        if not token:
            if not (settings.insecure or settings.allow_anonymous):
                raise Closed(codes.BAD_CLOSE)
            self.anonymous, self.trusted = True, settings.insecure
            return {}
        try:
            known = await self.world.verifier.connection(token)
        except tokens.Expired as error:
            self._dying = True
            raise Refused(codes.TOKEN_EXPIRED) from error
        except tokens.Invalid as error:
            raise Closed(codes.INVALID_TOKEN) from error
        self.user, self.expire_at = known.user, known.expire_at
        self.conn_info = wire.payload(known.info)
        self.anonymous, self.trusted = not known.user, settings.insecure
        if known.project:
            self.world = self.world.of(known.project)
        return dict(known.subs)

    # Rights

    @property
    def personal(self) -> frozenset[str]:
        """The channel of its user alone, where users have one."""
        settings = self.world.settings
        if not (settings.user_personal_channel and self.user):
            return frozenset()
        return frozenset((f"{settings.personal_namespace}#{self.user}",))

    def allows(self, options: Options, what: str, *, subscribed: bool) -> bool:
        """Whether it may *publish*, or ask for *presence* or *history*."""
        return self.trusted or options.allows(what, self.anonymous, subscribed)

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
            if not self._ways.unidirectional:
                self._pong_until = min(self._pong_until, now + settings.pong_timeout)
            self.send(wire.Reply())
        for subscription in list(self.subscriptions.values()):
            self._tick_of(subscription, now)
        if now >= self._next_presence:
            self._next_presence = now + settings.presence_interval
        self.plan()

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
                self.world.suspect(subscription)

    async def _renew(self, subscription: Subscription) -> None:
        with contextlib.suppress(errors.Unavailable):  # the next time may be better
            if self.subscriptions.get(subscription.channel) is subscription:
                await self.world.is_here(subscription)

    def plan(self) -> None:
        """Some time has changed at which something is due."""
        grace = self.world.settings.expiry_grace
        ends = [self.expire_at, *(each.expire_at for each in self.subscriptions.values())]
        self.due = min(
            self._next_ping,
            self._next_presence,
            self._pong_until,
            *(end + grace for end in ends if end),
            math.inf,
        )

    def ttl(self, expire_at: int) -> int | None:
        """Seconds; None: it never ends."""
        if not expire_at:
            return None
        return max(0, min(_TTL_MAX, math.ceil(expire_at - self.world.now())))


def _fault(error: Error) -> wire.Fault:
    return wire.Fault(code=error.code, message=error.message, temporary=error.temporary)
