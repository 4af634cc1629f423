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
from urllib.parse import quote

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, packing, wire
from zaqar_redis.realtime.engine import NOWHERE, Engine, Position
from zaqar_redis.realtime.namespaces import Namespaces
from zaqar_redis.realtime.positions import Positions
from zaqar_redis.realtime.pushes import Pushed
from zaqar_redis.realtime.queues import Followed, QueueOptions, Queues
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.sessions import Sessions
from zaqar_redis.realtime.steering import Steering
from zaqar_redis.realtime.world import Settings, Subscription

LOG = logging.getLogger(__name__)

#: Seconds between looks at what is due: no time of the protocol is finer.
_TICK = 0.5
#: Seconds for which a channel is listened to behind its last subscriber: who subscribes
#: again, as after a lost connection, finds it there.
_LINGER = 1.0


class _Channel:
    """One that this node listens to, or is about to."""

    __slots__ = ("heard", "subscribers")

    def __init__(self) -> None:
        self.subscribers: set[Subscription] = set()
        #: the last publication
        self.heard = NOWHERE

    def goes_on(self, position: Position) -> bool:
        """Whether a publication that is heard comes behind the last one.

        It does, unless Redis came back with older data, and gives offsets again.
        """
        before, self.heard = self.heard, position
        return position.epoch != before.epoch or position.offset > before.offset


class Node:
    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        namespaces: Namespaces,
        verifier: tokens.Verifier,
        *,
        queues: Queues | None = None,
        serves: bool = True,
    ) -> None:
        """*queues* that are channels too; *serves*: whether clients connect to it."""
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
        self.queues = queues
        self._followed = Followed(self, queues) if queues is not None else None
        self._channels: dict[str, _Channel] = {}
        self._positions = Positions(self.subscribed, self.later)
        self._work: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        #: nobody is to come any more
        self.leaving = False
        self._closing = False

    async def start(self) -> None:
        await self.engine.start(self.id, self)
        self._ticker = asyncio.create_task(self._tick(), name="channels")

    def leave(self) -> None:
        """Everybody is sent to another node."""
        self.leaving = True
        for session in self.sessions:
            session.close(codes.SHUTDOWN)

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        self._closing = True
        self.leave()
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
                try:
                    session.tick()
                except Exception:
                    _broken(session)

    # Listening

    async def listen(self, key: str, project: str, subscription: Subscription) -> None:
        channel = self._channels.setdefault(key, _Channel())
        channel.subscribers.add(subscription)
        await self.engine.bus.subscribe(key)  # again is nothing
        if self._followed is not None and isinstance(subscription.options, QueueOptions):
            await self._followed.follow(key, project, subscription.channel)

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
            if self._followed is not None:
                self._followed.leave(key)
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
        prefix = key_of(project, "")
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
        if position.offset and not known.goes_on(position):
            self._positions.went_back(channel, position.epoch)
        self.deliver(channel, packing.unpacked(payload, position.offset), position.epoch)

    def deliver(self, channel: str, publication: wire.Publication, epoch: str) -> None:
        """To all subscribers of the channel on this node."""
        subscribers = tuple(self.subscribed(channel))
        if not subscribers:
            return
        pushed = Pushed(subscribers[0].channel, publication)
        for subscription in subscribers:
            try:
                subscription.session.deliver(subscription, publication, epoch, pushed)
            except Exception:
                _broken(subscription.session)

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


def _broken(session: Session) -> None:
    """A bug: it costs this connection, and no other."""
    LOG.exception("a connection failed", extra={"action": "connection_failed"})
    session.close(codes.SERVER_ERROR)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except errors.Unavailable:
        pass  # presence lapses, channels dissolve with the connection
    except Exception:
        LOG.exception("work of a channel failed", extra={"action": "channel_failed"})


def key_of(project: str, channel: str) -> str:
    """What a channel is called among those of all projects."""
    return f"{quote(project, safe='')}/{channel}"
