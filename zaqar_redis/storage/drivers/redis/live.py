# SPDX-License-Identifier: Apache-2.0
"""Queues in Redis as they are followed live."""

from __future__ import annotations

from typing import Any

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Arrived, Past
from zaqar_redis.storage.driver import Watcher
from zaqar_redis.storage.drivers.redis import identity, reading
from zaqar_redis.storage.drivers.redis.feed import Channels

_HISTORY = Script("queue_history")

#: Seconds for which the epoch of a queue that is not there is kept behind the last look at
#: it; whoever follows it looks more often.
_KEPT = 86_400


class Live:
    def __init__(self, client: AsyncClient, now: Clock) -> None:
        self.client: Any = client
        self._now = now
        self._channels = Channels[Arrived | None](client, _arrived, None)

    async def close(self) -> None:
        await self._channels.close()

    async def watch(self, project: str, queue: str, watcher: Watcher) -> None:
        of = keys.of_queue(project, queue)
        # The feed tells a post that somebody listens, so it comes second.
        for name, listener in ((of.live, watcher), (of.feed, _ignore)):
            if not await self._channels.watch(name, listener):
                self._channels.unwatch(of.live, watcher)
                raise errors.StoreUnavailable(self.client.name)

    def unwatch(self, project: str, queue: str, watcher: Watcher) -> None:
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
        promise: bool = True,
    ) -> Steps[Past]:
        now, epoch, *answer = yield _HISTORY(
            keys.of_queue(project, queue),
            now=self._now(),
            first=first,
            last=last,
            limit=limit,
            reverse=int(reverse),
            epoch=identity.new_epoch() if promise else "",
            kept=_KEPT,
        )
        rank, *flat = answer
        prefix = identity.prefix(epoch.decode())
        pairs = zip(flat[::2], flat[1::2], strict=True)
        found = [reading.message(now, prefix, int(at), stored, None) for at, stored in pairs]
        return Past(epoch.decode(), int(rank), found)


def _arrived(said: bytes) -> Arrived | None:
    """What shared/append.lua says; of the feed, which speaks in numbers, nothing."""
    life, colon, rest = said.partition(b":")
    if not colon:
        return None
    first, _, packed = rest.partition(b":")
    epoch = life.decode()
    prefix = identity.prefix(epoch)
    found = [
        # Its age is that of the news: none.
        reading.message(envelope.head(stored)[0], prefix, rank, stored, None)
        for rank, stored in enumerate(envelope.split(packed), int(first))
    ]
    return Arrived(epoch, found)


def _ignore(_: object) -> None:
    pass
