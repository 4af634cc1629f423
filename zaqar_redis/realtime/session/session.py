# SPDX-License-Identifier: Apache-2.0
"""One connection, from its first command to its end: the protocol, without any IO.

Commands come in, replies and pushes go to a transport, and what needs IO is delegated to the
`SessionContext`.  Commands of a connection run one after the other.  Rules without another
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
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codec import Codec, InappropriatePayload
from zaqar_redis.realtime.protocol.codes import (
    CommandRejected,
    DisconnectCode,
    Disconnected,
    UnsubscribeCode,
)
from zaqar_redis.realtime.session import commands, deltas
from zaqar_redis.realtime.session.context import (
    BIDIRECTIONAL,
    NO_ORIGIN,
    ChannelSubscription,
    ConnectionOrigin,
    SessionContext,
    Transport,
    TransportMode,
)
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.realtime.session.states import (
    ALLOWED_METHODS,
    SESSION_TRANSITIONS,
    SessionEvent,
    SessionState,
    SubscriptionEvent,
    SubscriptionState,
)

LOG = logging.getLogger(__name__)

#: The largest id of a command that fits into its Protobuf field.
_ID_MAX = 2**32 - 1
#: Seconds, a year: timers of clients cannot hold more.
_TTL_MAX = 365 * 86400
#: Publications that may come while the history is read: some seconds of a busy channel.
_PENDING_MAX = 1000
# Each delivery compares with these: members of an enum are slow to look up.
_CLOSED, _SUBSCRIBED = SessionState.CLOSED, SubscriptionState.SUBSCRIBED


class Session:
    """The server's side of a connection.

    Its owner calls `receive` with each frame, one after the other, and `end` once the connection
    is gone; the node calls `tick` when it is due.  `states` has the states.
    """

    def __init__(
        self,
        context: SessionContext,
        codec: Codec,
        transport: Transport,
        mode: TransportMode = BIDIRECTIONAL,
        origin: ConnectionOrigin = NO_ORIGIN,
    ) -> None:
        self.context = context
        self.origin = origin
        #: seconds since 1970
        self.opened_at = context.now()
        self.codec = codec
        #: its name in requests of its client and of the operator; secret from other clients
        self.id = str(uuid.uuid4())
        #: its public id
        self.client = str(uuid.uuid4())
        self.user = ""
        self.roles: tuple[str, ...] = ()
        self.conn_info: wire.Payload = wire.NO_PAYLOAD
        self.subscriptions: dict[str, ChannelSubscription] = {}
        self.state = SessionState.CONNECTING
        self.anonymous = False
        #: whether it may do everything (insecure mode)
        self.trusted = False
        #: channels that the server subscribed it to at connect
        self.granted: frozenset[str] = frozenset()
        #: when `tick` has something to do, seconds since 1970
        self.next_tick_at = context.now() + context.settings.stale_after
        #: when the connection expires, seconds since 1970; 0: never
        self.expire_at = 0
        self._transport = transport
        self.mode = mode
        self._next_ping = math.inf
        self._next_presence = math.inf
        #: deadline for the pong; inf: no ping is pending
        self._pong_until = math.inf

    @property
    def connected(self) -> bool:
        return self.state is SessionState.CONNECTED

    @property
    def closed(self) -> bool:
        return self.state is _CLOSED

    def apply(self, event: SessionEvent) -> None:
        self.state = SESSION_TRANSITIONS[self.state][event]

    # In

    async def receive(self, frame: bytes) -> None:
        """Runs all commands of a frame."""
        try:
            given = self.codec.decode(frame)
        except (msgspec.DecodeError, ValueError):
            self.close(codes.BAD_REQUEST_DISCONNECT)
            return
        for command in given:
            if self.closed:
                return
            await self.handle(command)

    async def handle(self, command: wire.Command) -> None:
        try:
            await self._handle(command)
        except Disconnected as disconnected:
            self.close(disconnected.close)
        except errors.Unavailable:  # it could not connect
            self.close(codes.SERVER_ERROR)
        except Exception:  # only this connection fails; the others go on
            LOG.exception("a command failed", extra={"action": "command_failed"})
            self.close(codes.SERVER_ERROR)

    async def _handle(self, command: wire.Command) -> None:
        try:
            call = command.method()
        except ValueError as error:
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT) from error
        if call is None:
            self._pong()
            return
        method, request = call
        if not (0 < command.id <= _ID_MAX or method == "send"):
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
        if method not in ALLOWED_METHODS[self.state]:
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
        try:
            await self._run_command(method, command.id, request)
        except CommandRejected as rejected:
            if self.mode.unidirectional:
                instead = codes.DISCONNECT_FOR_ERROR.get(rejected.error, codes.SERVER_ERROR)
                raise Disconnected(instead) from rejected
            self.send(wire.Reply(id=command.id, error=wire.Error(*rejected.error)))

    async def _run_command(self, method: str, id: int, request: Any) -> None:
        try:
            await commands.METHODS[method](self, id, request)
        except errors.Unavailable as error:
            if method == "connect":
                raise
            # The client may retry; its other channels may have another store.
            raise CommandRejected(codes.INTERNAL) from error

    def _pong(self) -> None:
        if self._pong_until == math.inf:
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
        self._pong_until = math.inf

    # Out

    def send(self, reply: wire.Reply) -> None:
        if self.closed:
            return
        try:
            text = self.codec.encode(reply)
        except InappropriatePayload:
            LOG.warning(
                "a reply or push for client %s is not JSON, which is all it reads: "
                "it is disconnected",
                self.client,
                extra={"action": "inappropriate"},
            )
            self.close(codes.INAPPROPRIATE_PROTOCOL)
        else:
            self._transport.send(text)

    def push(self, push: wire.Push) -> None:
        self.send(wire.Reply(push=push))

    def send_encoded(self, reply: bytes) -> None:
        """Sends what `codec` has encoded, for many sessions at once."""
        if not self.closed:
            self._transport.send(reply)

    def close(self, close: DisconnectCode) -> None:
        """Closes the transport; the owner of the session has to call `end` afterwards."""
        if not self.closed:
            self.apply(SessionEvent.CLOSE)
            self._transport.close(close)

    async def end(self) -> None:
        """Leaves all channels after the connection has ended."""
        self.apply(SessionEvent.CLOSE)
        subscriptions = list(self.subscriptions.values())
        for subscription in subscriptions:
            subscription.apply(SubscriptionEvent.LEAVE)
        for subscription in subscriptions:
            with contextlib.suppress(errors.Unavailable):  # presence expires
                await self.context.leave(subscription)

    def deliver(
        self,
        subscription: ChannelSubscription,
        publication: wire.Publication,
        epoch: str,
        encoded: deltas.EncodedPublication,
    ) -> None:
        """Sends a publication to the client, unless it was delivered before."""
        if self.state is _CLOSED:
            return
        if subscription.state is not _SUBSCRIBED:
            self._add_pending(subscription, publication, epoch)
            return
        offset = publication.offset
        if subscription.positioned and offset:
            if offset <= subscription.offset and epoch == subscription.epoch:
                return
            before = subscription.epoch
            if offset != subscription.offset + 1 or (before and before != epoch):
                self.handle_insufficient_state(subscription)
                return
            subscription.offset, subscription.epoch = offset, epoch
            subscription.position_checked_at = self.context.now()
        if subscription.tag_filter is not None and not subscription.tag_filter(publication.tags):
            return
        if not subscription.delta:
            text = encoded.plain(self.codec)
        else:
            is_delta = deltas.is_delta_requested(publication, subscription.options)
            text = encoded.delta(self.codec, subscription.delta_base if is_delta else None)
            subscription.delta_base = publication.data
        if text is None:
            self.close(codes.INAPPROPRIATE_PROTOCOL)
        else:
            self._transport.send(text)

    def _add_pending(
        self, subscription: ChannelSubscription, publication: wire.Publication, epoch: str
    ) -> None:
        if subscription.state is SubscriptionState.UNSUBSCRIBED:
            return
        if len(subscription.pending) >= _PENDING_MAX:
            self.handle_insufficient_state(subscription)
        else:
            subscription.pending.append((publication, epoch))

    def handle_insufficient_state(self, subscription: ChannelSubscription) -> None:
        """Ends a subscription that missed something: the client resubscribes and recovers."""
        if subscription.server_side:
            self.close(codes.INSUFFICIENT_STATE)
        else:
            self.unsubscribe(subscription, codes.INSUFFICIENT_STATE_UNSUBSCRIBE)

    def unsubscribe(self, subscription: ChannelSubscription, end: UnsubscribeCode) -> None:
        """Ends a subscription from the server's side; one that is subscribing, once it is live."""
        is_live = subscription.state is _SUBSCRIBED
        subscription.apply(SubscriptionEvent.UNSUBSCRIBE)
        if not is_live:
            subscription.pending_unsubscribe = end
            return
        notification = wire.Unsubscribe(code=end.code, reason=end.reason)
        self.push(wire.Push(channel=subscription.channel, unsubscribe=notification))
        self.context.spawn(self.context.leave(subscription))

    # Permissions

    @property
    def personal_channels(self) -> frozenset[str]:
        """The personal channel of its user, if personal channels are enabled."""
        settings = self.context.settings
        if not (settings.user_personal_channel and self.user):
            return frozenset()
        return frozenset((f"{settings.personal_prefix}{self.user}",))

    def allows(self, options: ChannelOptions, what: str, *, subscribed: bool) -> bool:
        """Returns whether it may *publish*, or read *presence* or *history*."""
        return self.trusted or options.allows(what, self.anonymous, subscribed)

    # Timers

    def start_timers(self) -> None:
        """Begins with pings and renewals of presence, of a session that is connected now."""
        now, settings = self.context.now(), self.context.settings
        # The first interval is random, so that clients do not all act at once.
        share = 0.5 + random.random() / 2
        self._next_ping = now + settings.ping_interval * share
        self._next_presence = now + settings.presence_interval * share
        self.schedule_tick()

    def tick(self) -> None:
        """Does what the timers require: expiry, pings, presence, position checks."""
        now, settings = self.context.now(), self.context.settings
        if not self.connected:
            self.close(codes.STALE)
        elif now >= self._pong_until:
            self.close(codes.NO_PONG)
        elif self.expire_at and now >= self.expire_at + settings.expiry_grace:
            self.close(codes.CONNECTION_EXPIRED)
        if self.closed:
            self.next_tick_at = math.inf
            return
        if now >= self._next_ping:
            self._next_ping = now + settings.ping_interval
            if not self.mode.unidirectional:
                self._pong_until = min(self._pong_until, now + settings.pong_timeout)
            self.send(wire.Reply())
        for subscription in list(self.subscriptions.values()):
            self._tick_subscription(subscription, now)
        if now >= self._next_presence:
            self._next_presence = now + settings.presence_interval
        self.schedule_tick()

    def _tick_subscription(self, subscription: ChannelSubscription, now: float) -> None:
        settings = self.context.settings
        end = subscription.expire_at
        if end and now >= end + settings.expiry_grace:
            if subscription.server_side:
                self.close(codes.SUBSCRIPTION_EXPIRED)
            else:
                self.unsubscribe(subscription, codes.SUBSCRIPTION_EXPIRED_UNSUBSCRIBE)
        elif now >= self._next_presence:
            if subscription.options.presence:
                self.context.spawn(self._renew_presence(subscription))
            if (
                subscription.positioned
                and now >= subscription.position_checked_at + settings.position_check
            ):
                self.context.schedule_position_check(subscription)

    async def _renew_presence(self, subscription: ChannelSubscription) -> None:
        with contextlib.suppress(errors.Unavailable):  # the next interval retries
            if subscription.state is not SubscriptionState.UNSUBSCRIBED:
                await self.context.update_presence(subscription)

    def schedule_tick(self) -> None:
        """Sets `next_tick_at` anew after a timer has changed."""
        grace = self.context.settings.expiry_grace
        ends = [self.expire_at, *(each.expire_at for each in self.subscriptions.values())]
        self.next_tick_at = min(
            self._next_ping,
            self._next_presence,
            self._pong_until,
            *(end + grace for end in ends if end),
            math.inf,
        )

    def ttl(self, expire_at: int) -> int | None:
        """Returns the seconds until *expire_at*; None: it never expires."""
        if not expire_at:
            return None
        return max(0, min(_TTL_MAX, math.ceil(expire_at - self.context.now())))
