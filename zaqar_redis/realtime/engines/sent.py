# SPDX-License-Identifier: Apache-2.0
"""A history whose publications are sent over a bus once they are appended."""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.realtime.engine import (
    NO_POSITION,
    Dedup,
    History,
    HistoryEntry,
    HistoryFilter,
    HistoryOptions,
    Position,
    Published,
)
from zaqar_redis.realtime.engines.events import BusEvents


class SentHistory:
    def __init__(self, history: History, events: BusEvents) -> None:
        """*history* appends publications, and sends none."""
        self._history = history
        self._events = events

    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        if history_options is None:
            if not self._events.live:  # before the idempotency key is stored
                raise errors.BusUnavailable
            if dedup is None or not dedup.key:
                await self._events.send(channel, payload)
                return Published(NO_POSITION, new=True)
        published = await self._history.publish(channel, payload, history_options, dedup)
        if published.new and history_options is not None:
            # Subscribers find what is stored, also when it cannot be sent now.
            self._events.announce(channel, payload, published.position)
        elif published.new:
            await self._send_once(channel, payload, dedup)
        return published

    async def _send_once(self, channel: str, payload: bytes, dedup: Dedup | None) -> None:
        try:
            await self._events.send(channel, payload)
        except (errors.Unavailable, errors.ContentTooLarge):
            if dedup is not None and dedup.key:  # else a retry would be taken for a duplicate
                await self._history.forget_key(channel, dedup.key)
            raise

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        return await self._history.history(channel, since, history_options)

    async def forget_key(self, channel: str, key: str) -> None:
        await self._history.forget_key(channel, key)

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        await self._history.rotate_epoch(channel, epoch)

    async def remove_history(self, channel: str) -> None:
        await self._history.remove_history(channel)
