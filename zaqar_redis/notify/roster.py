# SPDX-License-Identifier: Apache-2.0
"""The lanes of a source: one for each of its subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from zaqar_redis import errors
from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.lane_context import LaneContext, LaneSettings
from zaqar_redis.notify.source_context import SourceContext
from zaqar_redis.notify.states import LaneState
from zaqar_redis.records import Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions, effective, parse_stored

LOG = logging.getLogger(__name__)


class LaneRoster:
    def __init__(
        self,
        process: SourceContext,
        context: LaneContext,
        read_backlog: Callable[[Lane], None],
    ) -> None:
        """*read_backlog*: as of `Lane`."""
        self._process = process
        self._context = context
        self._read_backlog = read_backlog
        self._lanes: dict[str, Lane] = {}
        self._version = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def get(self, subscription: str) -> Lane | None:
        return self._lanes.get(subscription)

    def is_old(self, version: int) -> bool:
        """Whether the subscriptions are to be read; *version*: theirs; 0: there are none."""
        return version != self._version or (version > 0 and not self._lanes)

    async def load(self, version: int) -> None:
        """Reads the subscriptions, which have changed.  Raises Unavailable, and MoveLocked."""
        leased = self._context.leased
        policy = await leased.retry_policy()
        waiting = await leased.waiting() if version and not self._version else set()
        found: dict[str, Lane] = {}
        if version:
            async for subscription in leased.subscriptions():
                settings = self._settings(subscription, policy)
                if settings is not None:
                    waits = subscription.id in waiting
                    found[subscription.id] = self._lane(settings, waits=waits)
        for id in self._lanes.keys() - found.keys():
            self._lanes[id].end()
            self._context.failures.end(self._lanes[id].settings.subscription)
        self._lanes, self._version = found, version
        self._context.in_flight.lanes = len(found)

    def close(self) -> None:
        """Ends all lanes: the source has ended, or another notifier has it."""
        for lane in self:
            lane.end()
            self._process.circuits.put_back(lane.settings.subscription, lane.circuit)

    def _settings(
        self, subscription: Subscription, policy: DeliveryRetryPolicy | None
    ) -> LaneSettings | None:
        target = self._process.target(subscription.subscriber)
        if target is None:
            return None
        try:
            options = parse_stored(subscription.options)
        except errors.BadRequest as problem:
            LOG.warning(
                "a subscription waits: its options cannot be read",
                extra={
                    "action": "options_unreadable",
                    "queue": self._context.leased.queue,
                    "subscription": subscription.id,
                    "error": errors.reason(problem),
                },
            )
            subscription = replace(subscription, paused=True)
            options = SubscriptionOptions(raw=subscription.options)
        chosen = effective(options.retry_policy, policy)
        return LaneSettings(subscription, options, chosen, target)

    def _lane(self, settings: LaneSettings, *, waits: bool) -> Lane:
        subscription = settings.subscription
        lane = self._lanes.get(subscription.id)
        if lane is not None and lane.state is not LaneState.ENDED:
            lane.adopt(settings)
            return lane
        circuit = self._process.circuits.take(subscription)
        return Lane(self._context, settings, circuit, self._read_backlog, waits=waits)
