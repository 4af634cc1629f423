# SPDX-License-Identifier: Apache-2.0
"""Live messages and history of queues in Redis."""

from __future__ import annotations

import asyncio

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listeners import commands_of_scripts
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import PostedBatch
from zaqar_redis.storage.redis import decoding, identity
from zaqar_redis.storage.redis.feed import PubSubChannels
from zaqar_redis.storage.redis.resource import RedisResource
from zaqar_redis.storage.watched import HistoryPage, LiveListener

_HISTORY = Script("queue_history")

#: Seconds for which the epoch of a queue that does not exist stays reserved after the last
#: read; watchers read more often.
_RESERVED_EPOCH_TTL_SECONDS = 86_400


class RedisLive(RedisResource):
    def __init__(self, client: AsyncClient, now: Clock) -> None:
        super().__init__(client, now)
        self._channels = PubSubChannels[PostedBatch | None](
            client, _posted_batch, None, commands_of_scripts(client)
        )

    async def close(self) -> None:
        await self._channels.close()

    async def watch(self, project: str, queue: str, watcher: LiveListener) -> None:
        of = keys.of_queue(project, queue)
        # Posts publish to the live channel when the feed has subscribers, so it is asked second.
        confirmed = await asyncio.gather(
            self._channels.watch(of.live, watcher), self._channels.watch(of.feed, _ignore)
        )
        if not all(confirmed):
            raise errors.StoreUnavailable(self.client.name)

    def unwatch(self, project: str, queue: str, watcher: LiveListener) -> None:
        of = keys.of_queue(project, queue)
        self._channels.unwatch(of.live, watcher)
        if not self._channels.is_watched(of.live):
            self._channels.unwatch(of.feed, _ignore)

    @verb
    def history(
        self,
        project: str,
        queue: str,
        *,
        first: int,
        last: int,
        limit: int,
        reverse: bool,
        reserve_epoch: bool = True,
    ) -> Steps[HistoryPage]:
        now, epoch, *answer = yield _HISTORY(
            keys.of_queue(project, queue),
            now=self._now(),
            first=first,
            last=last,
            limit=limit,
            reverse=int(reverse),
            epoch=identity.new_epoch() if reserve_epoch else "",
            kept=_RESERVED_EPOCH_TTL_SECONDS,
        )
        rank, *flat = answer
        prefix = identity.prefix(epoch.decode())
        pairs = zip(flat[::2], flat[1::2], strict=True)
        found = [decoding.message(now, prefix, int(at), stored, None) for at, stored in pairs]
        return HistoryPage(epoch.decode(), int(rank), found)


def _posted_batch(payload: bytes) -> PostedBatch | None:
    """Decodes what shared/append.lua publishes; None for the numbers of the feed."""
    if b":" not in payload:
        return None
    epoch, found = decoding.posted(payload)
    return PostedBatch(epoch, [message for message, _ in found])


def _ignore(_: object) -> None:
    pass
