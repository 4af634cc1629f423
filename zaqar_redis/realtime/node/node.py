# SPDX-License-Identifier: Apache-2.0
"""A node: the sessions of one process, and the tasks, engine and control plane behind them.

Only this module starts tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
import os
import socket
import time
import uuid
from collections.abc import Collection, Coroutine, Iterable, Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

from zaqar_redis import errors, runner
from zaqar_redis.auth import tokens
from zaqar_redis.figures import ChannelFigures
from zaqar_redis.metrics.definitions import DELIVERIES
from zaqar_redis.metrics.process_load import LOAD
from zaqar_redis.realtime.engine import NO_POSITION, Engine, Position
from zaqar_redis.realtime.node import control, packing
from zaqar_redis.realtime.node.control_plane import ControlPlane
from zaqar_redis.realtime.node.positions import PositionChecker
from zaqar_redis.realtime.node.publication_rates import PublicationCounter, RateWindows
from zaqar_redis.realtime.node.queue_channels import (
    QueueChannelOptions,
    QueueChannels,
    QueueWatches,
)
from zaqar_redis.realtime.node.routing import NodeRouting
from zaqar_redis.realtime.node.sessions import NodeSessions
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.session.context import ChannelSubscription, SessionSettings
from zaqar_redis.realtime.session.deltas import EncodedPublication
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.realtime.session.states import SubscriptionState

T = TypeVar("T")

LOG = logging.getLogger(__name__)

#: Seconds between checks of the sessions' timers: no time of the protocol is finer.
_TICK = 0.5
#: Seconds for which the node stays subscribed after a channel's last subscriber has left: a
#: client that resubscribes, as after a lost connection, costs no new subscription.
_UNSUBSCRIBE_DELAY = 1.0


class StoreCheck(Protocol):
    """Finds out which stores of the service do not answer."""

    async def unavailable(self, seconds: float) -> list[str]:
        """Returns the names of those that do not answer in time."""


class _LocalChannel:
    """A channel that this node is subscribed to, or is about to be."""

    __slots__ = ("last_position", "publications", "subscribers")

    def __init__(self, windows: RateWindows) -> None:
        self.subscribers: set[ChannelSubscription] = set()
        self.publications = PublicationCounter(windows)
        #: of the last publication received
        self.last_position = NO_POSITION

    def advance(self, position: Position) -> bool:
        """Returns whether a received publication comes after the last one.

        It does, unless Redis came back with older data, and reuses offsets.
        """
        before, self.last_position = self.last_position, position
        return position.epoch != before.epoch or position.offset > before.offset


class Node:
    def __init__(
        self,
        engine: Engine,
        settings: SessionSettings,
        namespaces: Namespaces,
        verifier: tokens.TokenVerifier,
        *,
        queues: QueueChannels | None = None,
        accepts_clients: bool = True,
    ) -> None:
        """*queues* serves the channels that are queues; *accepts_clients*: clients connect here."""
        self.id = str(uuid.uuid4())
        self.name = f"{socket.gethostname()}_{os.getpid()}"
        self.version = version("zaqar-redis")
        self.started = time.time()
        self.accepts_clients = accepts_clients
        self.engine = engine
        self.settings = settings
        self.namespaces = namespaces
        self.verifier = verifier
        self.sessions = NodeSessions()
        self.control_plane = ControlPlane(self)
        self.routing = NodeRouting(self)
        self.queues = queues
        self._queue_watches = QueueWatches(self, queues) if queues is not None else None
        self._channels: dict[str, _LocalChannel] = {}
        self._rate_windows = RateWindows()
        #: asks the stores of the service; None: nobody does
        self.stores: StoreCheck | None = None
        self._positions = PositionChecker(self.subscribed, self.spawn)
        self._work: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._ticker: asyncio.Task[None] | None = None
        #: new clients are refused
        self.draining = False
        self._closing = False

    async def start(self) -> None:
        await self.engine.start(self.id, self)
        if self.accepts_clients:
            self.routing.start()
        self._ticker = asyncio.create_task(self._tick(), name="channels")

    def begin_shutdown(self) -> None:
        """Disconnects all clients, so that they reconnect to another node."""
        self.draining = True
        for session in self.sessions:
            session.close(codes.SHUTDOWN)

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        self._closing = True
        self.begin_shutdown()
        # At most until the graceful timeout, when the master kills its workers.
        await asyncio.gather(*self._calls, return_exceptions=True)
        for session in self.sessions:
            with contextlib.suppress(errors.Unavailable):
                await session.end()
        await asyncio.sleep(0)  # a task cancelled before it starts never closes its coroutine
        await runner.cancel(*self._work)
        await self.routing.close()
        await self.engine.close()

    def remove(self, session: Session) -> None:
        """Forgets a session whose connection has ended.  Idempotent."""
        self.routing.leave(session)
        self.sessions.remove(session)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs *work* in a task; drops it when the node closes, as that ends all sessions."""
        if self._closing:
            work.close()
            return
        task = asyncio.create_task(_run_logged(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def finish(self, call: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Runs *call* to its end, also if its caller leaves; `close` waits for it."""
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return asyncio.shield(task)

    async def _tick(self) -> None:
        while True:
            await LOAD.sleep(_TICK)
            self._rate_windows.advance()
            now = time.time()
            for session in [each for each in self.sessions if each.next_tick_at <= now]:
                try:
                    session.tick()
                except Exception:
                    _fail_session(session)

    # Listening

    async def listen(self, key: str, project: str, subscription: ChannelSubscription) -> None:
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _LocalChannel(self._rate_windows)
        channel.subscribers.add(subscription)
        await self.engine.events.subscribe(key)  # idempotent
        if self._queue_watches is not None and isinstance(
            subscription.options, QueueChannelOptions
        ):
            await self._queue_watches.follow(key, project, subscription.channel)

    def unlisten(self, key: str, subscription: ChannelSubscription) -> bool:
        """Returns whether the subscription existed."""
        channel = self._channels.get(key)
        if channel is None or subscription not in channel.subscribers:
            return False
        channel.subscribers.discard(subscription)
        if not channel.subscribers:
            self.spawn(self._unsubscribe_idle(key, channel))
        return True

    async def _unsubscribe_idle(self, key: str, channel: _LocalChannel) -> None:
        await asyncio.sleep(_UNSUBSCRIBE_DELAY)
        if not channel.subscribers and self._channels.get(key) is channel:
            del self._channels[key]
            if self._queue_watches is not None:
                self._queue_watches.leave(key)
            await self.engine.events.unsubscribe(key)

    def subscribed(self, key: str) -> Collection[ChannelSubscription]:
        channel = self._channels.get(key)
        return channel.subscribers if channel is not None else ()

    def counts(self) -> dict[str, int]:
        """Returns the number of subscribers on this node, by channel key."""
        return {
            key: len(channel.subscribers)
            for key, channel in self._channels.items()
            if channel.subscribers
        }

    def channels(self, project: str, pattern: str) -> Iterator[ChannelFigures]:
        """Yields the channels of a project that have subscribers on this node.

        *pattern*: a glob; empty: all.
        """
        prefix = control.project_key(project, "")
        is_name = pattern and glob.escape(pattern) == pattern
        keys: Iterable[str] = (prefix + pattern,) if is_name else self._channels
        for key in keys:
            channel = self._channels.get(key)
            if channel is None or not channel.subscribers or not key.startswith(prefix):
                continue
            name = key.removeprefix(prefix)
            if is_name or not pattern or fnmatchcase(name, pattern):
                yield ChannelFigures(name, len(channel.subscribers), channel.publications.rate())

    # Events of the engine

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None:
        local = self._channels.get(channel)
        if local is None or not local.subscribers:
            return
        if position.offset and not local.advance(position):
            self._positions.rolled_back(channel, position.epoch)
        self.deliver(channel, packing.unpack_publication(payload, position.offset), position.epoch)

    def deliver(self, channel: str, publication: wire.Publication, epoch: str) -> None:
        """Delivers to all subscribers of the channel on this node."""
        local = self._channels.get(channel)
        if local is None or not local.subscribers:
            return
        local.publications.add()
        subscribers = tuple(local.subscribers)
        DELIVERIES.total += len(subscribers)
        encoded = EncodedPublication(subscribers[0].channel, publication)
        for subscription in subscribers:
            try:
                subscription.session.deliver(subscription, publication, epoch, encoded)
            except Exception:
                _fail_session(subscription.session)

    def on_join(self, channel: str, info: bytes) -> None:
        self._push_to_channel(channel, join=wire.Join(packing.unpack_client_info(info)))

    def on_leave(self, channel: str, info: bytes) -> None:
        self._push_to_channel(channel, leave=wire.Leave(packing.unpack_client_info(info)))

    def _push_to_channel(self, channel: str, **push: Any) -> None:
        local = self._channels.get(channel)
        for subscription in tuple(local.subscribers) if local else ():
            if subscription.join_leave and subscription.state is SubscriptionState.SUBSCRIBED:
                subscription.session.push(wire.Push(channel=subscription.channel, **push))

    def on_control(self, payload: bytes) -> int:
        return self.control_plane.handle(payload)

    def on_missed(self, channel: str) -> None:
        """Schedules a check whether subscribers of the channel missed a publication."""
        self._positions.schedule_position_check((channel,))

    def on_gap(self) -> None:
        self._positions.schedule_position_check(self._channels)


def _fail_session(session: Session) -> None:
    """Disconnects a session after a bug: no other connection suffers."""
    LOG.exception("a connection failed", extra={"action": "connection_failed"})
    session.close(codes.SERVER_ERROR)


async def _run_logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except errors.Unavailable:
        pass  # presence expires, subscriptions end with the connection
    except Exception:
        LOG.exception("a task of a channel failed", extra={"action": "channel_failed"})
