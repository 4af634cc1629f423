# SPDX-License-Identifier: Apache-2.0
"""A node as one project sees it."""

from __future__ import annotations

import time

from msgspec import Raw

from zaqar_redis.realtime import codes, control, packing, wire
from zaqar_redis.realtime.codes import Closed, Refused
from zaqar_redis.realtime.engine import NOWHERE, Once, Position, Published, Since
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.realtime.node import Node, key_of
from zaqar_redis.realtime.queues import QueueOptions, Queues, name_of
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.world import Subscription


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
        await self._node.listen(self._key(subscription.channel), self.project, subscription)

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
        delta: bool = False,
    ) -> Published:
        """Raises Refused when the channel takes no such data, and Unavailable."""
        options = self.namespaces.options(channel)
        given = wire.payload(bytes(data))
        if not options.takes(given):
            raise Refused(codes.BAD_REQUEST)
        if (queues := self._queues_of(options)) is not None:
            if tags or not keep:
                raise Refused(codes.NOT_AVAILABLE)
            client = info.client if info is not None else self.node
            return await queues.publish(
                self.project, name_of(channel), data, client, once or Once()
            )
        payload = packing.publication(given, round(time.time() * 1000), info, tags, delta)
        return await self._node.engine.history.publish(
            self._key(channel), payload, options.keep if keep else None, once
        )

    async def history(
        self, channel: str, since: Since, options: Options
    ) -> tuple[list[wire.Publication], Position]:
        if (queues := self._queues_of(options)) is not None:
            return await queues.history(self.project, name_of(channel), since)
        if options.keep is None:
            return [], NOWHERE
        found, top = await self._node.engine.history.history(
            self._key(channel), since, options.keep
        )
        return [packing.unpacked(each.payload, each.offset) for each in found], top

    def _queues_of(self, options: Options) -> Queues | None:
        """Who keeps the channels with these options, if they are queues."""
        return self._node.queues if isinstance(options, QueueOptions) else None

    async def renew(self, channel: str, epoch: str, options: Options) -> None:
        if self._queues_of(options) is None:
            await self._node.engine.history.renew(self._key(channel), epoch)

    async def remove_history(self, channel: str) -> None:
        """Raises Refused when it is not the channel's alone, and Unavailable."""
        if self._queues_of(self.namespaces.options(channel)) is not None:
            raise Refused(codes.NOT_AVAILABLE)
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
        return key_of(self.project, channel)
