# SPDX-License-Identifier: Apache-2.0
"""A node as one project sees it."""

from __future__ import annotations

import time

from msgspec import Raw

from zaqar_redis import clock, errors
from zaqar_redis.metrics.definitions import PUBLICATIONS
from zaqar_redis.realtime.engine import NO_POSITION, Dedup, HistoryFilter, Position, Published
from zaqar_redis.realtime.node import control, packing
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.queue_channels import (
    QueueChannelOptions,
    QueueChannels,
    queue_of_channel,
)
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, Disconnected
from zaqar_redis.realtime.session.context import ChannelSubscription
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.realtime.session.session import Session


class ProjectContext:
    """The node as sessions of one project, and its operator, see it."""

    def __init__(self, node: Node, project: str) -> None:
        self._node = node
        self.project = project
        self.node = node.id
        self.engine = node.engine
        self.control_plane = node.control_plane
        self.settings = node.settings
        self.namespaces = node.namespaces
        self.verifier = node.verifier
        self.spawn = node.spawn

    def now(self) -> float:
        return time.time()

    def for_project(self, project: str) -> ProjectContext:
        return self if project == self.project else ProjectContext(self._node, project)

    async def register(self, session: Session) -> None:
        try:
            count = self._node.sessions.add_connected(session)
        except errors.QuotaExceeded:
            raise Disconnected(codes.CONNECTION_LIMIT) from None
        if not session.user:
            return
        limit = self.settings.user_connection_limit
        if limit and count > limit:
            raise Disconnected(codes.CONNECTION_LIMIT)
        if self.settings.user_personal_single_connection:
            who = control.ConnectionSelector(
                self.project, session.user, except_clients=[session.client]
            )
            await self.control_plane.send(control.ControlDisconnect(who, *codes.CONNECTION_LIMIT))

    async def listen(self, subscription: ChannelSubscription) -> None:
        await self._node.listen(self._key(subscription.channel), self.project, subscription)

    async def leave(self, subscription: ChannelSubscription) -> None:
        key, info = self._key(subscription.channel), subscription.info
        existed = self._node.unlisten(key, subscription)
        if subscription.options.presence:
            await self._node.engine.presence.remove(key, info.client, info.user)
        if existed and subscription.joined:
            await self._node.engine.events.publish_leave(key, packing.pack_client_info(info))

    async def publish(
        self,
        channel: str,
        data: Raw,
        info: wire.ClientInfo | None = None,
        *,
        tags: dict[str, str] | None = None,
        dedup: Dedup | None = None,
        keep_history: bool = True,
        delta: bool = False,
    ) -> Published:
        """Raises CommandRejected when the channel does not accept such data, and Unavailable."""
        options = self.namespaces.options(channel)
        given = wire.payload(bytes(data))
        if not options.accepts(given):
            raise CommandRejected(codes.BAD_REQUEST)
        if (queues := self._queues_of(options)) is not None:
            if not keep_history:
                raise CommandRejected(codes.NOT_AVAILABLE)
            client = info.client if info is not None else self.node
            published = await queues.publish(
                self.project, queue_of_channel(channel), data, client, dedup or Dedup(), tags or {}
            )
        else:
            payload = packing.pack_publication(given, clock.process(), info, tags, delta)
            kept = options.history_options if keep_history else None
            published = await self._node.engine.history.publish(
                self._key(channel), payload, kept, dedup
            )
        PUBLICATIONS.total += 1
        return published

    async def history(
        self, channel: str, since: HistoryFilter, options: ChannelOptions
    ) -> tuple[list[wire.Publication], Position]:
        if (queues := self._queues_of(options)) is not None:
            return await queues.history(self.project, queue_of_channel(channel), since)
        if options.history_options is None:
            return [], NO_POSITION
        found, top = await self._node.engine.history.history(
            self._key(channel), since, options.history_options
        )
        return [packing.unpack_publication(each.payload, each.offset) for each in found], top

    def _queues_of(self, options: ChannelOptions) -> QueueChannels | None:
        """Returns the queues behind channels with these options, or None."""
        return self._node.queues if isinstance(options, QueueChannelOptions) else None

    async def rotate_epoch(self, channel: str, epoch: str, options: ChannelOptions) -> None:
        if self._queues_of(options) is None:
            await self._node.engine.history.rotate_epoch(self._key(channel), epoch)

    async def remove_history(self, channel: str) -> None:
        """Raises CommandRejected for a queue, which owns its history, and Unavailable."""
        if self._queues_of(self.namespaces.options(channel)) is not None:
            raise CommandRejected(codes.NOT_AVAILABLE)
        await self._node.engine.history.remove_history(self._key(channel))

    async def presence(self, channel: str) -> dict[str, wire.ClientInfo]:
        found = await self._node.engine.presence.clients(self._key(channel))
        return {client: packing.unpack_client_info(info) for client, info in found.items()}

    async def presence_stats(self, channel: str) -> tuple[int, int]:
        return await self._node.engine.presence.stats(self._key(channel))

    async def update_presence(self, subscription: ChannelSubscription) -> None:
        info = subscription.info
        await self._node.engine.presence.add(
            self._key(subscription.channel),
            info.client,
            info.user,
            packing.pack_client_info(info),
            self.settings.presence_ttl,
        )

    def schedule_position_check(self, subscription: ChannelSubscription) -> None:
        self._node.on_missed(self._key(subscription.channel))

    async def publish_join(self, subscription: ChannelSubscription) -> None:
        await self._node.engine.events.publish_join(
            self._key(subscription.channel), packing.pack_client_info(subscription.info)
        )

    def _key(self, channel: str) -> str:
        return control.project_key(self.project, channel)
