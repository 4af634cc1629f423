# SPDX-License-Identifier: Apache-2.0
"""The contract of a store whose queues are watched: hints, and messages as they are posted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from zaqar_redis.records import Message, PostedBatch, Record

#: Called with how many messages were posted or became claimable; 0: perhaps some.
FeedListener = Callable[[int], None]


class Feed(Protocol):
    """Hints that a queue has changed.  Hints may be lost; the queue is authoritative."""

    def watch(self, project: str, queue: str, hint: FeedListener) -> Awaitable[None]:
        """Calls *hint* on changes; returns when none from now on is missed."""

    def unwatch(self, project: str, queue: str, hint: FeedListener) -> None:
        """Stops calling *hint*."""


class HistoryPage(Record, frozen=True):
    """Messages of a queue, its epoch, and the last rank that it gave."""

    #: of a queue that does not exist: the reserved one (for a day), or empty
    epoch: str
    rank: int = 0
    messages: Sequence[Message] = ()


#: Called with messages when they are posted, in order; None: some may have been missed.
LiveListener = Callable[[PostedBatch | None], None]


class Live(Protocol):
    """Messages of a queue as they are posted, and its stored messages by rank."""

    def watch(self, project: str, queue: str, watcher: LiveListener) -> Awaitable[None]:
        """Calls *watcher* with new messages; returns when none from now on is missed.

        The queue need not exist.  Raises StoreUnavailable when the store does not confirm that;
        *watcher* is called all the same as soon as the store can, until `unwatch`.
        """

    def unwatch(self, project: str, queue: str, watcher: LiveListener) -> None:
        """Stops calling *watcher*."""

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
    ) -> Awaitable[HistoryPage]:
        """Returns up to *limit* messages, about a megabyte, of the ranks *first* to *last*.

        With *reverse* from the last one down.  Claimed and delayed messages are included;
        missing ranks were deleted or have expired.  When the queue does not exist, its
        epoch is reserved and returned; without *reserve_epoch* the epoch is empty.
        """
