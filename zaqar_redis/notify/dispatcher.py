# SPDX-License-Identifier: Apache-2.0
"""Gives messages to the lanes of the subscriptions that want them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from zaqar_redis import errors, rules
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.lane_context import LaneContext
from zaqar_redis.notify.roster import LaneRoster
from zaqar_redis.notify.source_context import SourceContext
from zaqar_redis.notify.states import LaneState
from zaqar_redis.records import Message, Subscription
from zaqar_redis.service.subscription_filters import LazyBody
from zaqar_redis.storage.deliveries import DeliveryEntry, PendingDelivery

LOG = logging.getLogger(__name__)

#: Seconds for which entries wait for lanes that are full: fast ones have room again before, and
#: what they would get is not stored and read once more.
_FULL_SECONDS = 1.0


class Dispatcher:
    def __init__(self, process: SourceContext, context: LaneContext, roster: LaneRoster) -> None:
        self._process = process
        self._context = context
        self._in_flight = context.in_flight
        self._roster = roster
        self._loop = asyncio.get_running_loop()
        #: entries that were read, and wait for room
        self._unread: deque[DeliveryEntry] = deque()
        self._unread_bytes = 0
        #: event loop's time; None: a lane has room
        self._full_since: float | None = None
        #: id of the entry that was dispatched last
        self.after = b"0"

    @property
    def is_behind(self) -> bool:
        """Whether entries wait for room."""
        return bool(self._unread)

    @property
    def goes_on_at(self) -> float | None:
        """Event loop's time when entries wait no longer for lanes that are full; None: they wait
        for none."""
        if not self._unread or self._full_since is None:
            return None
        return self._full_since + _FULL_SECONDS

    def take(self, entries: Iterable[DeliveryEntry]) -> None:
        """Dispatches entries as far as there is room, those that wait first."""
        self._unread.extend(entries)
        self._in_flight.give_back_bytes(self._unread_bytes)  # what is dispatched counts by itself
        while self._unread and self._may_dispatch():
            entry = self._unread.popleft()
            self.after = entry.id
            self._dispatch(entry)
        self._unread_bytes = sum(entry.size for entry in self._unread)
        self._in_flight.take_bytes(self._unread_bytes)
        if self._in_flight.is_stopped or not self._process.memory.has_room:
            self.drop()

    def drop(self) -> None:
        """Forgets what waits for room, which is read again."""
        self._unread.clear()
        self._in_flight.give_back_bytes(self._unread_bytes)
        self._unread_bytes = 0

    def offer_due(self, pending: PendingDelivery) -> None:
        """Offers a delivery that is due to its lane."""
        lane = self._roster.get(pending.subscription)
        if lane is None:  # its subscription is gone
            self._context.settlement.end_pending(pending.id)
        else:
            self._offer(lane, pending, is_asked=False)

    def offer_waiting(self, lane: Lane, pending: PendingDelivery) -> None:
        """Offers a delivery that waits for a lane."""
        self._offer(lane, pending, is_asked=True)

    def _offer(self, lane: Lane, pending: PendingDelivery, *, is_asked: bool) -> None:
        decrypted = None
        if pending.stored is not None:
            decrypted = self._decrypted(pending.stored.message)
            # Its subscriber may be another one, that has not confirmed, or have left.
            if decrypted is None or not self._is_live(lane.settings.subscription):
                self._context.settlement.end_pending(pending.id)
                return
        item = Item(pending.epoch, pending.stored, decrypted, pending=pending)
        lane.offer_pending(item, pending, is_asked=is_asked)

    def _may_dispatch(self) -> bool:
        if not self._in_flight.room():
            return False
        flowing = (lane.is_half_full for lane in self._roster if lane.state is LaneState.FLOWING)
        # None is flowing: what comes is stored anyway.
        if not next(flowing, False) or not all(flowing):
            self._full_since = None
            return True
        now = self._loop.time()
        self._full_since = self._full_since or now
        return now - self._full_since > _FULL_SECONDS

    def _dispatch(self, entry: DeliveryEntry) -> None:
        # It does not end before all lanes have got it.
        work = self._in_flight.begin_entry(entry, self._loop.time())
        messages = [
            (stored, decrypted, LazyBody(decrypted.body))
            for stored in entry.messages
            if (decrypted := self._decrypted(stored.message)) is not None
        ]
        for lane in self._roster:
            if not self._is_live(lane.settings.subscription):
                continue
            wanted = lane.settings.options.filter
            items = [
                Item(entry.epoch, stored, decrypted, entry=work)
                for stored, decrypted, body in messages
                if wanted is None or wanted.matches(decrypted.attributes, body)
            ]
            if items:
                lane.offer(items)
        self._in_flight.end_part(work)

    def _decrypted(self, message: Message) -> Message | None:
        """Returns the message as its poster wrote it; None: it cannot be read any more."""
        if not message.encrypted:
            return message
        leased = self._context.leased
        try:
            return self._process.messages.decrypted(leased.project, [message])[0]
        except errors.Problem as problem:
            LOG.error(
                "a message cannot be delivered: it cannot be decrypted",
                extra={
                    "action": "unreadable",
                    "queue": leased.queue,
                    "error": errors.reason(problem),
                },
            )
            return None

    def _is_live(self, subscription: Subscription) -> bool:
        return (
            subscription.confirmed
            or not self._process.requires_confirmation
            or rules.is_own_subscriber(subscription.subscriber)
        )
