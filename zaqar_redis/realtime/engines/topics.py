# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of connections to topics of the routing service, in memory and in Redis."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.routing_keys import RoutingKeys
from zaqar_redis.keyspace.script import Script

_SUBSCRIBE = Script("topic_subscribe")
_UNSUBSCRIBE = Script("topic_unsubscribe")
_RENEW = Script("lease_renew")
_ENDED = Script("lease_ended")
_END = Script("lease_end")

#: Nodes that are looked at by one call of `expire`, and clients whose subscriptions are removed
#: together: so no step takes long.
_NODES_MAX, _CLIENTS = 16, 100


class MemoryTopics:
    """Of one process, which needs no lease: they end with it."""

    def __init__(self) -> None:
        self._clients: defaultdict[str, set[str]] = defaultdict(set)
        self._topics: defaultdict[str, set[str]] = defaultdict(set)

    async def subscribe(self, topic: str, client: str, node: str, ttl: float) -> bool:
        self._clients[topic].add(client)
        self._topics[client].add(topic)
        return True

    async def unsubscribe(self, topic: str, client: str, node: str) -> None:
        _discard(self._clients, topic, client)
        _discard(self._topics, client, topic)

    async def subscribers(self, topic: str) -> set[str]:
        return set(self._clients.get(topic, ()))

    async def topics(self, client: str) -> set[str]:
        return set(self._topics.get(client, ()))

    async def renew(self, node: str, ttl: float) -> bool:
        return True

    async def expire(self) -> None:
        pass

    async def forget(self, node: str) -> None:
        pass


def _discard(sets: defaultdict[str, set[str]], key: str, member: str) -> None:
    members = sets.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del sets[key]


class RedisTopics:
    def __init__(self, client: AsyncClient, now: Clock) -> None:
        self._client = client
        self._now = now

    async def subscribe(self, topic: str, client: str, node: str, ttl: float) -> bool:
        call = _SUBSCRIBE(
            RoutingKeys(topic, client, node),
            now=self._now(),
            name=topic,
            id=client,
            of=node,
            ttl=round(ttl * 1000),
        )
        return bool(await self._client.call(call))

    async def unsubscribe(self, topic: str, client: str, node: str) -> None:
        await self._unsubscribe(topic, client, node, ended=False)

    async def subscribers(self, topic: str) -> set[str]:
        return await self._members(RoutingKeys(topic=topic).topic)

    async def topics(self, client: str) -> set[str]:
        return await self._members(RoutingKeys(client=client).client)

    async def renew(self, node: str, ttl: float) -> bool:
        of = RoutingKeys(node=node)
        lease = _RENEW(of, now=self._now(), id=node, ttl=round(ttl * 1000))
        return bool(await self._client.call(lease))

    async def expire(self) -> None:
        of = RoutingKeys()
        ended = await self._client.call(_ENDED(of, now=self._now(), limit=_NODES_MAX))
        for node in ended:
            await self._forget(node.decode(), ended=True)

    async def forget(self, node: str) -> None:
        await self._forget(node, ended=False)

    async def _forget(self, node: str, *, ended: bool) -> None:
        """*ended*: only if its lease has ended."""
        clients = list(await self._members(RoutingKeys(node=node).node))
        for first in range(0, len(clients), _CLIENTS):
            some = clients[first : first + _CLIENTS]
            await asyncio.gather(*(self._leave(client, node, ended=ended) for client in some))
        end = _END(RoutingKeys(node=node), now=self._now(), id=node, ended=int(ended))
        await self._client.call(end)

    async def _leave(self, client: str, node: str, *, ended: bool) -> None:
        for topic in await self.topics(client):
            await self._unsubscribe(topic, client, node, ended=ended)

    async def _unsubscribe(self, topic: str, client: str, node: str, *, ended: bool) -> None:
        call = _UNSUBSCRIBE(
            RoutingKeys(topic, client, node),
            now=self._now(),
            name=topic,
            id=client,
            of=node,
            ended=int(ended),
        )
        await self._client.call(call)

    async def _members(self, key: bytes) -> set[str]:
        return {each.decode() for each in await self._client.command("SMEMBERS", key)}
