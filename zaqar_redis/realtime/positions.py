# SPDX-License-Identifier: Apache-2.0
"""Whether subscribers missed something, where no later publication would show it.

A channel's top is read once for all its subscribers of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

from zaqar_redis import errors
from zaqar_redis.realtime.engine import Position, Since
from zaqar_redis.realtime.world import Subscription

#: Seconds over which the channels of a node are spread, when all are looked at: those who
#: missed something come back at once.
_SPREAD = 1.5
#: Channels that are looked at together at least, and seconds between two such lots.
_LOT, _PAUSE = 16, 0.05
#: Seconds for which what was sent may be on its way here.
_ON_ITS_WAY = 1.0
#: Seconds until channels are looked at again whose engine was away.
_AGAIN = 0.5


class Positions:
    """Looks at channels that are suspected, until each could be looked at."""

    def __init__(
        self,
        subscribers: Callable[[str], Collection[Subscription]],
        later: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._subscribers = subscribers
        self._later = later
        #: a dict, as it keeps the order
        self._suspected: dict[str, None] = {}
        #: channels that came back older than they were -> the epoch of that
        self._older: dict[str, str] = {}
        self._looking = False

    def suspect(self, channels: Iterable[str]) -> None:
        """Something may have been missed in them."""
        self._suspected.update(dict.fromkeys(channels))
        if self._suspected and not self._looking:
            self._looking = True
            self._later(self._look())

    def went_back(self, channel: str, epoch: str) -> None:
        """It is older than it was, in the same epoch: who knows what came since is wrong."""
        self._older[channel] = epoch
        self.suspect((channel,))

    async def _look(self) -> None:
        try:
            while self._suspected:
                lot = max(_LOT, round(len(self._suspected) * _PAUSE / _SPREAD))
                some = [*self._suspected][:lot]
                for channel in some:
                    del self._suspected[channel]
                await asyncio.gather(*(self._look_at(channel) for channel in some))
                await asyncio.sleep(_PAUSE)
        finally:
            self._looking = False

    async def _look_at(self, channel: str) -> None:
        """Again later, if somebody's place is not settled or nobody knows the top."""
        before = [(each, each.offset) for each in self._subscribers(channel) if each.positioned]
        if not before:
            self._older.pop(channel, None)
            return
        if any(each.waiting is not None for each, _ in before):
            self._suspected[channel] = None
        some, _ = before[0]
        world = some.session.world
        try:
            _, top = await world.history(some.channel, Since(limit=0), some.options)
            over = self._older.get(channel) == top.epoch or any(
                each.epoch == top.epoch and offset > top.offset for each, offset in before
            )
            if over:
                await world.renew(some.channel, top.epoch, some.options)
        except errors.Unavailable:
            await asyncio.sleep(_AGAIN)
            self._suspected[channel] = None
            return
        self._older.pop(channel, None)
        behind = []
        for each, _ in before:
            if over or each.epoch != top.epoch:
                _lost(each)
            elif not _is_at(each, top):
                behind.append(each)
        if behind:
            self._later(_settle(behind, top))


async def _settle(behind: list[Subscription], top: Position) -> None:
    await asyncio.sleep(_ON_ITS_WAY)
    for each in behind:
        if not _is_at(each, top):
            _lost(each)


def _is_at(subscription: Subscription, top: Position) -> bool:
    """Whether it has heard all up to the *top*."""
    if subscription.epoch != top.epoch or subscription.offset < top.offset:
        return False
    subscription.checked = subscription.session.world.now()
    return True


def _lost(subscription: Subscription) -> None:
    session = subscription.session
    # One whose place is not settled yet has begun behind what it could have missed.
    if session.subscriptions.get(subscription.channel) is subscription and (
        subscription.waiting is None
    ):
        session.lost(subscription)
