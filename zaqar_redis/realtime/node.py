# SPDX-License-Identifier: Apache-2.0
"""A node: the sessions of one process, and what they need of the world.

The only place with tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Collection, Coroutine
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Raw

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, control, packing, wire
from zaqar_redis.realtime.codes import Closed, Refused
from zaqar_redis.realtime.engine import NOWHERE, Engine, Once, Position, Published, Since
from zaqar_redis.realtime.namespaces import Namespaces, Options
from zaqar_redis.realtime.positions import Positions
from zaqar_redis.realtime.pushes import pushed
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.sessions import Sessions
from zaqar_redis.realtime.steering import Steering
from zaqar_redis.realtime.world import Settings, Subscription

LOG = logging.getLogger(__name__)

_JSON = msgspec.json.Decoder(Raw)
#: Seconds between looks at what is due: no time of the protocol is finer.
_TICK = 0.5
#: Seconds for which a channel is listened to behind its last subscriber: who subscribes
#: again, as after a lost connection, finds it there.
_LINGER = 1.0


class _Channel:
    """One that this node listens to, or is about to."""

    __slots__ = ("subscribers",)

    def __init__(self) -> None:
        self.subscribers: set[Subscription] = set()


class Node:
    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        namespaces: Namespaces,
        verifier: tokens.Verifier,
        *,
        serves: bool = True,
    ) -> None:
        """*serves*: whether clients connect to it; a command's has none."""
        self.id = str(uuid.uuid4())
        self.name = f"{socket.gethostname()}_{os.getpid()}"
        self.version = version("zaqar-redis")
        self.started = time.time()
        self.serves = serves
        self.engine = engine
        self.settings = settings
        self.namespaces = namespaces
        self.verifier = verifier
        self.sessions = Sessions()
        self.steering = Steering(self)
        self._channels: dict[str, _Channel] = {}
        self._positions = Positions(engine, self.subscribed, self.later)
        self._work: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._closing = False

    async def start(self) -> None:
        await self.engine.start(self.id, self)
        self._ticker = asyncio.create_task(self._tick(), name="channels")

    async def close(self) -> None:
        """Everybody is sent to another node."""
        if self._ticker is not None:
            self._ticker.cancel()
        self._closing = True
        for session in self.sessions:
            session.close(codes.SHUTDOWN)
        for session in self.sessions:
            with contextlib.suppress(errors.Unavailable):
                await session.end()
        await asyncio.sleep(0)  # a task that has not begun cannot end its work
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self.engine.close()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it soon, unless the node ends: its connections end all that as well."""
        if self._closing:
            work.close()
            return
        task = asyncio.create_task(_quietly(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            now = time.time()
            for session in [each for each in self.sessions if each.due <= now]:
                session.tick()

    # Listening

    async def listen(self, key: str, subscription: Subscription) -> None:
        channel = self._channels.setdefault(key, _Channel())
        channel.subscribers.add(subscription)
        await self.engine.bus.subscribe(key)  # again is nothing

    def forget(self, key: str, subscription: Subscription) -> bool:
        """Whether it was there."""
        channel = self._channels.get(key)
        if channel is None or subscription not in channel.subscribers:
            return False
        channel.subscribers.discard(subscription)
        if not channel.subscribers:
            self.later(self._dissolve(key, channel))
        return True

    async def _dissolve(self, key: str, channel: _Channel) -> None:
        await asyncio.sleep(_LINGER)
        if not channel.subscribers and self._channels.get(key) is channel:
            del self._channels[key]
            await self.engine.bus.unsubscribe(key)

    def subscribed(self, key: str) -> Collection[Subscription]:
        channel = self._channels.get(key)
        return channel.subscribers if channel is not None else ()

    def suspect(self, key: str) -> None:
        """Somebody may have missed something in the channel."""
        self._positions.suspect((key,))

    def counts(self) -> dict[str, int]:
        """Subscribers of this node, by channel; the names say the project."""
        return {
            key: len(channel.subscribers)
            for key, channel in self._channels.items()
            if channel.subscribers
        }

    def subscribers(self, project: str) -> dict[str, int]:
        """The same of the channels of a project."""
        prefix = f"{project}/"
        return {
            key.removeprefix(prefix): count
            for key, count in self.counts().items()
            if key.startswith(prefix)
        }

    # What is heard

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None:
        known = self._channels.get(channel)
        if known is None or not known.subscribers:
            return
        publication = packing.unpacked(payload, position.offset)
        subscribers = tuple(known.subscribers)
        encoded = pushed(subscribers[0].channel, publication)
        for subscription in subscribers:
            subscription.session.deliver(subscription, publication, position.epoch, encoded)

    def on_join(self, channel: str, info: bytes) -> None:
        self._tell(channel, join=wire.Join(packing.client_info(info)))

    def on_leave(self, channel: str, info: bytes) -> None:
        self._tell(channel, leave=wire.Leave(packing.client_info(info)))

    def _tell(self, channel: str, **what: Any) -> None:
        known = self._channels.get(channel)
        for subscription in tuple(known.subscribers) if known else ():
            if subscription.join_leave and subscription.waiting is None:
                subscription.session.push(wire.Push(channel=subscription.channel, **what))

    def on_control(self, payload: bytes) -> None:
        self.steering.hear(payload)

    def on_gap(self) -> None:
        self._positions.suspect(self._channels)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except errors.Unavailable:
        pass  # presence lapses, channels dissolve with the connection
    except Exception:
        LOG.exception("work of a channel failed", extra={"action": "channel_failed"})


class Scope:
    """What sessions of one project, and its operator, see of a node."""

    def __init__(self, node: Node, project: str) -> None:
        self._node = node
        self.project = project
        self.node = node.id
        self.steering = node.steering
        self.settings = node.settings
        self.namespaces = node.namespaces
        self.verifier = node.verifier
        self.later = node.later

    def now(self) -> float:
        return time.time()

    def of(self, project: str) -> Scope:
        return self if project == self.project else Scope(self._node, project)

    async def arrived(self, session: Session) -> None:
        count = self._node.sessions.connected(session)
        if not session.user:
            return
        most = self.settings.user_connection_limit
        if most and count > most:
            raise Closed(codes.CONNECTION_LIMIT)
        if self.settings.single_connection:
            who = control.Who(self.project, session.user, except_clients=[session.client])
            await self.steering.tell(control.Disconnect(who, *codes.CONNECTION_LIMIT))

    async def listen(self, subscription: Subscription) -> None:
        await self._node.listen(self._key(subscription.channel), subscription)

    async def leave(self, subscription: Subscription) -> None:
        key, info = self._key(subscription.channel), subscription.info
        was = self._node.forget(key, subscription)
        if subscription.options.presence:
            await self._node.engine.presence.remove(key, info.client, info.user)
        if was and subscription.options.join_leave and subscription.waiting is None:
            await self._node.engine.bus.publish_leave(key, packing.info(info))

    async def publish(
        self,
        channel: str,
        data: Raw,
        info: wire.ClientInfo | None = None,
        *,
        tags: dict[str, str] | None = None,
        once: Once | None = None,
        keep: bool = True,
    ) -> Published:
        """Raises Refused when the channel takes no such data, and Unavailable."""
        options = self.namespaces.options(channel)
        if not options.is_binary:
            data = _in_one_line(data)
        payload = packing.publication(data, round(time.time() * 1000), info, tags)
        return await self._node.engine.history.publish(
            self._key(channel), payload, options.keep if keep else None, once
        )

    async def history(
        self, channel: str, since: Since, options: Options
    ) -> tuple[list[wire.Publication], Position]:
        if options.keep is None:
            return [], NOWHERE
        found, top = await self._node.engine.history.history(
            self._key(channel), since, options.keep
        )
        return [packing.unpacked(each.payload, each.offset) for each in found], top

    async def remove_history(self, channel: str) -> None:
        await self._node.engine.history.remove_history(self._key(channel))

    async def presence(self, channel: str) -> dict[str, wire.ClientInfo]:
        found = await self._node.engine.presence.present(self._key(channel))
        return {client: packing.client_info(info) for client, info in found.items()}

    async def presence_stats(self, channel: str) -> tuple[int, int]:
        return await self._node.engine.presence.stats(self._key(channel))

    async def is_here(self, subscription: Subscription) -> None:
        info = subscription.info
        await self._node.engine.presence.add(
            self._key(subscription.channel),
            info.client,
            info.user,
            packing.info(info),
            self.settings.presence_ttl,
        )

    def suspect(self, subscription: Subscription) -> None:
        self._node.suspect(self._key(subscription.channel))

    async def joined(self, subscription: Subscription) -> None:
        await self._node.engine.bus.publish_join(
            self._key(subscription.channel), packing.info(subscription.info)
        )

    def _key(self, channel: str) -> str:
        return f"{self.project}/{channel}"


def _in_one_line(data: Raw) -> Raw:
    """The same JSON: frames are cut at the ends of lines.  Raises Refused when it is none."""
    try:
        str(data, "utf-8")  # msgspec does not look
        whole = _JSON.decode(data)
        return Raw(msgspec.json.format(whole, indent=-1)) if b"\n" in bytes(whole) else whole
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(codes.BAD_REQUEST) from error
