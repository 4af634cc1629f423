# SPDX-License-Identifier: Apache-2.0
"""The connect command: who the client is, and what the server subscribes it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zaqar_redis.auth import tokens
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, Disconnected
from zaqar_redis.realtime.session import subscribe
from zaqar_redis.realtime.session.states import SessionEvent

if TYPE_CHECKING:
    from zaqar_redis.realtime.session.session import Session

#: The server version that clients receive.
VERSION = "zaqar-redis"


async def connect(session: Session, id: int, request: wire.ConnectRequest) -> None:
    """Raises CommandRejected, Disconnected, StoreUnavailable."""
    granted = await _authenticate(session, request.token)
    await session.context.register(session)
    granted = dict.fromkeys(session.personal_channels, tokens.SubscriptionGrant()) | granted
    session.granted = frozenset(granted)
    subscriptions, subs = await subscribe.server_side_at_connect(session, granted, request.subs)
    session.apply(SessionEvent.CONNECT)
    ttl = session.ttl(session.expire_at)
    is_addressable = session.mode.emulated or session.mode.unidirectional
    result = wire.ConnectResult(
        client=session.client,
        version=VERSION,
        expires=ttl is not None,
        ttl=ttl or 0,
        subs=subs,
        ping=session.context.settings.ping_interval,
        pong=not session.mode.unidirectional,
        session=session.id if is_addressable else "",
        node=session.context.node if is_addressable else "",
        time=round(session.context.now() * 1000),
    )
    session.send(wire.Reply(id=id, connect=result))
    session.start_timers()
    for subscription in subscriptions:
        await subscribe.go_live(subscription)


async def _authenticate(session: Session, token: str) -> dict[str, tokens.SubscriptionGrant]:
    """Sets the user; returns the subscriptions that the token grants.

    Raises Disconnected, CommandRejected, and StoreUnavailable when its key cannot be fetched.
    """
    settings = session.context.settings
    if not token:
        if not (settings.insecure or settings.allow_anonymous_connect_without_token):
            raise Disconnected(codes.BAD_REQUEST_DISCONNECT)
        session.anonymous, session.trusted = True, settings.insecure
        return {}
    try:
        claims = await session.context.verifier.connection(token)
    except tokens.ExpiredToken as error:
        session.apply(SessionEvent.REJECT)
        raise CommandRejected(codes.TOKEN_EXPIRED) from error
    except tokens.InvalidToken as error:
        raise Disconnected(codes.INVALID_TOKEN) from error
    session.user, session.expire_at = claims.user, claims.expire_at
    session.roles = claims.roles
    session.conn_info = wire.payload(claims.info)
    session.anonymous, session.trusted = not claims.user, settings.insecure
    if claims.project:
        session.context = session.context.for_project(claims.project)
    return dict(claims.subs)
