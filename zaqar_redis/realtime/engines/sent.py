# SPDX-License-Identifier: Apache-2.0
"""A history whose publications are sent over a bus once they are appended."""

from __future__ import annotations

from zaqar_redis import errors
from zaqar_redis.realtime.engine import NO_POSITION, Dedup, History, HistoryOptions, Published
from zaqar_redis.realtime.engines.events import BusEvents


class SentHistory:
    def __init__(self, history: History, events: BusEvents) -> None:
        """*history* appends publications, and sends none."""
        self._publish, self._events = history.publish, events
        self.history, self.remove_history = history.history, history.remove_history
        self.forget_key, self.rotate_epoch = history.forget_key, history.rotate_epoch

    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        key = dedup.key if dedup is not None else ""
        if history_options is None:
            if not self._events.live:  # before the idempotency key is stored
                raise errors.BusUnavailable
            if not key:
                await self._events.send(channel, payload)
                return Published(NO_POSITION, new=True)
        published = await self._publish(channel, payload, history_options, dedup)
        if published.new and history_options is not None:
            # Subscribers find what is stored, also when it cannot be sent now.
            self._events.announce(channel, payload, published.position)
        elif published.new:
            try:
                await self._events.send(channel, payload)
            except (errors.Unavailable, errors.ContentTooLarge):
                await self.forget_key(channel, key)  # else a retry would be taken for a duplicate
                raise
        return published
