# SPDX-License-Identifier: Apache-2.0
"""Queues as channels: the contract between a node and the queues.

The offset of a publication is the rank of its message, the epoch that of the queue, and the
history is the queue itself: deleted and expired messages are missing in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from zaqar_redis.realtime.engine import Dedup, HistoryFilter, Position, Published
from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.session.namespaces import ChannelOptions, PublicationFormat
from zaqar_redis.records import Message, PostedBatch
from zaqar_redis.rules import TOPIC_PREFIX

if TYPE_CHECKING:
    from zaqar_redis.realtime.node.node import Node

LOG = logging.getLogger(__name__)

#: The namespaces of channels that are queues, and topics.
NAMESPACE, TOPICS = "queue", TOPIC_PREFIX.removesuffix(":")

QueueWatcher = Callable[[PostedBatch | None], None]


class QueueChannelOptions(ChannelOptions, frozen=True):
    """Options of channels that are queues or topics; the queue itself determines the history."""

    force_recovery: bool = True
    #: of a queue's name, see `rules`
    channel_regex: str = r"^[-a-zA-Z0-9_.]{1,64}$"
    allow_history_for_subscriber: bool = True
    #: messages are JSON
    publication_data_format: PublicationFormat = "json"

    @property
    def has_history(self) -> bool:
        return True


class QueueChannels(Protocol):
    """Queues, as a node sees them.

    Every method raises StoreUnavailable, and CommandRejected for an invalid queue name.
    """

    async def watch(self, project: str, queue: str, watcher: QueueWatcher) -> None:
        """Calls *watcher* with each batch posted from now on; None: some were missed."""

    def unwatch(self, project: str, queue: str, watcher: QueueWatcher) -> None: ...

    async def history(
        self, project: str, queue: str, since: HistoryFilter
    ) -> tuple[list[wire.Publication], Position]:
        """Returns a page, shorter than requested from a thousand messages or about 1 MB on."""

    async def publish(
        self,
        project: str,
        queue: str,
        data: Raw,
        client: str,
        dedup: Dedup,
        tags: Mapping[str, str],
    ) -> Published:
        """Posts a message, which gets the tags as attributes."""

    def publications(self, project: str, messages: Sequence[Message]) -> list[wire.Publication]: ...


def queue_of_channel(channel: str) -> str:
    """Returns the name of the queue, or topic, that a channel is."""
    return channel.removeprefix("$").removeprefix(f"{NAMESPACE}:")


class QueueWatches:
    """The queues that a node watches for its subscribers, by channel key."""

    def __init__(self, node: Node, queues: QueueChannels) -> None:
        self._node = node
        self._queues = queues
        self._watchers: dict[str, tuple[str, str, QueueWatcher]] = {}

    async def follow(self, key: str, project: str, channel: str) -> None:
        """Watches a queue.  Idempotent; restores a watch that was lost with a store."""
        if key not in self._watchers:
            self._watchers[key] = (project, queue_of_channel(channel), self._watcher(key, project))
        await self._queues.watch(*self._watchers[key])

    def leave(self, key: str) -> None:
        watched = self._watchers.pop(key, None)
        if watched is not None:
            self._queues.unwatch(*watched)

    def _watcher(self, key: str, project: str) -> QueueWatcher:
        def watch(batch: PostedBatch | None) -> None:
            if batch is None:
                self._node.on_missed(key)
                return
            try:
                publications = self._queues.publications(project, batch.messages)
            except Exception:  # only this queue fails: others share the connection
                LOG.exception("messages of a queue cannot be read", extra={"action": "unreadable"})
                self._node.on_missed(key)
                return
            for publication in publications:
                self._node.deliver(key, publication, batch.epoch)

        return watch
