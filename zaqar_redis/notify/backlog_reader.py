# SPDX-License-Identifier: Apache-2.0
"""Reads what waits in the store for lanes that are catching up."""

from __future__ import annotations

from collections.abc import Callable

from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.lane_context import LaneContext
from zaqar_redis.notify.states import LaneState
from zaqar_redis.storage.deliveries import PendingDelivery

#: Subscriptions whose backlogs are read between two steps: the lease must not end meanwhile.
_BACKLOGS = 64
#: Pending deliveries that are read, and deleted, at once.
_PAGE, _DROPPED = 200, 200


class BacklogReader:
    def __init__(self, context: LaneContext) -> None:
        self._context = context
        #: those that read what waits for them, the next one first
        self._lanes: dict[Lane, None] = {}

    def add(self, lane: Lane) -> None:
        """Reads what waits for a lane, as long as it is catching up."""
        self._lanes[lane] = None
        self._context.settlement.wake.set()

    async def read(self, offer: Callable[[Lane, PendingDelivery], None]) -> None:
        """Offers deliveries that may be made now to lanes that want more, each in its turn.

        Raises Unavailable, and MoveLocked.
        """
        self._lanes = {lane: None for lane in self._lanes if lane.state is LaneState.CATCHING_UP}
        wanting = [lane for lane in self._lanes if lane.wants_more]
        in_flight, wake = self._context.in_flight, self._context.settlement.wake
        if len(wanting) > _BACKLOGS:
            wake.set()
        for lane in wanting[:_BACKLOGS]:
            if not in_flight.has_memory:
                break
            del self._lanes[lane]
            self._lanes[lane] = None  # the last one the next time
            backlog = lane.backlog
            page = await self._context.leased.backlog(
                lane.settings.subscription.id, backlog.position, min(_PAGE, lane.items_max())
            )
            if in_flight.is_stopped:
                return
            wake.set()
            if lane.state is not LaneState.CATCHING_UP:  # an attempt has ended meanwhile
                continue
            if not page:
                lane.end_backlog()
                continue
            first = backlog.first_unstored
            for pending in page:
                if first is not None and pending.id >= first:
                    break
                backlog.position = pending.id
                if self._is_next(lane, pending):
                    offer(lane, pending)

    def _is_next(self, lane: Lane, pending: PendingDelivery) -> bool:
        """Whether a delivery that waits may be made now, in its turn."""
        # A subscriber before this one may have left some to be tried again later: a queue that
        # gets younger ones first passes over these.
        is_due = pending.due is None or pending.due <= self._context.clock.now()
        return lane.settings.is_in_order or is_due

    async def drop(self, subscription: str) -> None:
        """Deletes what waits for a subscription that does not exist any more."""
        page = await self._context.leased.backlog(subscription, "", _DROPPED)
        settlement = self._context.settlement
        for pending in page:
            settlement.end_pending(pending.id)
        settlement.hold(subscription, self._context.clock.now() if page else None)
