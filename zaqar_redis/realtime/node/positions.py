# SPDX-License-Identifier: Apache-2.0
"""Checks of stream positions: whether subscribers missed a publication and no later one shows it.

A channel's top position is read once for all its subscribers on the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.realtime.engine import HistoryFilter, Position
from zaqar_redis.realtime.session.context import ChannelSubscription
from zaqar_redis.realtime.session.states import SubscriptionState

#: Seconds over which checks of all channels of a node are spread: subscribers that missed
#: something come back at once.
_SPREAD = 1.5
#: Channels that are checked together at least, and seconds between two such batches.
_BATCH_MIN, _PAUSE = 16, 0.05
#: Seconds for which a sent publication may still be on its way to this node.
_DELIVERY_GRACE = 1.0
#: Seconds until a channel is checked again whose engine was unavailable.
_RETRY_DELAY = 0.5


class PositionChecker:
    """Background checks of channels, each repeated until it succeeds."""

    def __init__(
        self,
        subscribers: Callable[[str], Collection[ChannelSubscription]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._subscribers = subscribers
        self._spawn = spawn
        #: a dict, as it is ordered
        self._pending_checks: dict[str, None] = {}
        #: channels whose history went back -> the epoch in which it did
        self._rolled_back: dict[str, str] = {}
        self._running = False

    def schedule_position_check(self, channels: Iterable[str]) -> None:
        """Schedules checks of channels whose subscribers may have missed something."""
        self._pending_checks.update(dict.fromkeys(channels))
        if self._pending_checks and not self._running:
            self._running = True
            self._spawn(self._run_checks())

    def rolled_back(self, channel: str, epoch: str) -> None:
        """Notes that a channel's history went back within *epoch*: later positions are invalid."""
        self._rolled_back[channel] = epoch
        self.schedule_position_check((channel,))

    async def _run_checks(self) -> None:
        try:
            while self._pending_checks:
                size = max(_BATCH_MIN, round(len(self._pending_checks) * _PAUSE / _SPREAD))
                batch = [*self._pending_checks][:size]
                for channel in batch:
                    del self._pending_checks[channel]
                await asyncio.gather(*(self._check(channel) for channel in batch))
                await asyncio.sleep(_PAUSE)
        finally:
            self._running = False

    async def _check(self, channel: str) -> None:
        """Checks a channel; again later if a subscription is pending or the engine unavailable."""
        subscribers = [each for each in self._subscribers(channel) if each.positioned]
        if not subscribers:
            self._rolled_back.pop(channel, None)
            return
        if any(each.state is SubscriptionState.SUBSCRIBING for each in subscribers):
            self._pending_checks[channel] = None
        try:
            top, is_rolled_back = await self._read_position(channel, subscribers)
        except errors.Unavailable:
            await asyncio.sleep(_RETRY_DELAY)
            self._pending_checks[channel] = None
            return
        self._rolled_back.pop(channel, None)
        behind = []
        for each in subscribers:
            if is_rolled_back or each.epoch != top.epoch:
                _end_outdated(each)
            elif not _is_at(each, top):
                behind.append(each)
        if behind:
            self._spawn(_recheck(behind, top))

    async def _read_position(
        self, channel: str, subscribers: Sequence[ChannelSubscription]
    ) -> tuple[Position, bool]:
        """Returns the channel's position, and whether its history went back.

        Then the epoch of the position is not current any more.  Raises StoreUnavailable.
        """
        # As they are now: publications may come while the position is read.
        positions = [Position(each.offset, each.epoch) for each in subscribers]
        first = subscribers[0]
        context = first.session.context
        _, top = await context.history(first.channel, HistoryFilter(limit=0), first.options)
        is_rolled_back = self._rolled_back.get(channel) == top.epoch or any(
            each.epoch == top.epoch and each.offset > top.offset for each in positions
        )
        if is_rolled_back:
            await context.rotate_epoch(first.channel, top.epoch, first.options)
        return top, is_rolled_back


async def _recheck(behind: list[ChannelSubscription], top: Position) -> None:
    await asyncio.sleep(_DELIVERY_GRACE)
    for each in behind:
        if not _is_at(each, top):
            _end_outdated(each)


def _is_at(subscription: ChannelSubscription, top: Position) -> bool:
    """Returns whether the subscription has received everything up to *top*."""
    if subscription.epoch != top.epoch or subscription.offset < top.offset:
        return False
    subscription.position_checked_at = subscription.session.context.now()
    return True


def _end_outdated(subscription: ChannelSubscription) -> None:
    # One that is subscribing starts after everything it could have missed.
    if subscription.state is SubscriptionState.SUBSCRIBED:
        subscription.session.handle_insufficient_state(subscription)
