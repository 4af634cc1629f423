# SPDX-License-Identifier: Apache-2.0
"""Queues as channels: what a node needs of whoever keeps them.

The offset of a publication is the rank of its message, the epoch that of the queue, and the
history is the queue itself: what was deleted, or has expired, is missing in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from zaqar_redis.realtime import wire
from zaqar_redis.realtime.engine import Once, Position, Published, Since
from zaqar_redis.realtime.namespaces import Options
from zaqar_redis.records import Arrived, Message

if TYPE_CHECKING:
    from zaqar_redis.realtime.node import Node

LOG = logging.getLogger(__name__)

#: The namespace whose channels are queues.
NAMESPACE = "queue"

Watcher = Callable[[Arrived | None], None]


class QueueOptions(Options, frozen=True):
    """Of channels that are queues; what history keeps is the queue's own affair."""

    force_recovery: bool = True
    #: of a queue's name, see `rules`
    channel_regex: str = r"^[-a-zA-Z0-9_.]{1,64}$"
    allow_history_for_subscriber: bool = True
    #: messages are JSON
    publication_data_format: str = "json"

    @property
    def has_history(self) -> bool:
        return True


class Queues(Protocol):
    """Every method raises StoreUnavailable, and Refused for what is no queue's name."""

    async def watch(self, project: str, queue: str, watcher: Watcher) -> None:
        """Call *watcher* with what is posted from now on; None: something was missed."""

    def unwatch(self, project: str, queue: str, watcher: Watcher) -> None: ...

    async def history(
        self, project: str, queue: str, since: Since
    ) -> tuple[list[wire.Publication], Position]:
        """A page of it, from a thousand messages or about a megabyte on shorter than asked."""

    async def publish(
        self, project: str, queue: str, data: Raw, client: str, once: Once
    ) -> Published:
        """Post a message."""

    def publications(self, project: str, messages: Sequence[Message]) -> list[wire.Publication]: ...


def name_of(channel: str) -> str:
    """Of the queue that a channel is."""
    return channel.removeprefix("$").partition(":")[2]


class Followed:
    """The queues that sessions of a node follow, by the key of their channel."""

    def __init__(self, node: Node, queues: Queues) -> None:
        self._node = node
        self._queues = queues
        self._watchers: dict[str, tuple[str, str, Watcher]] = {}

    async def follow(self, key: str, project: str, channel: str) -> None:
        """Idempotent; a watch that was lost with a store comes back."""
        if key not in self._watchers:
            self._watchers[key] = (project, name_of(channel), self._watcher(key, project))
        await self._queues.watch(*self._watchers[key])

    def leave(self, key: str) -> None:
        watched = self._watchers.pop(key, None)
        if watched is not None:
            self._queues.unwatch(*watched)

    def _watcher(self, key: str, project: str) -> Watcher:
        def watch(news: Arrived | None) -> None:
            if news is None:
                self._node.suspect(key)
                return
            try:
                publications = self._queues.publications(project, news.messages)
            except Exception:  # of this queue: others come over the same connection
                LOG.exception("messages cannot be read", extra={"action": "unreadable"})
                self._node.suspect(key)
                return
            for publication in publications:
                self._node.deliver(key, publication, news.epoch)

        return watch
