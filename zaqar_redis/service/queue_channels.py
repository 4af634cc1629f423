# SPDX-License-Identifier: Apache-2.0
"""Queues as channels, over the storage driver."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from zaqar_redis import errors, rules
from zaqar_redis.realtime.engine import Dedup, HistoryFilter, Position, Published
from zaqar_redis.realtime.node.queue_channels import QueueWatcher
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.records import IdempotencyKey, Message, NewMessage
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.watched import Live

LOG = logging.getLogger(__name__)

#: Messages of one answer, and pages of about a megabyte that it is read in: a client, and
#: a proxy before it, must accept it in one piece.
_PAGE_MAX, _PAGES_MAX = 1000, 16
#: The last rank whose score in a sorted set differs from the next one's.
_LAST = 2**53


class QueueChannelService:
    """An implementation of `zaqar_redis.realtime.node.queue_channels.QueueChannels`."""

    def __init__(self, driver: Driver, messages: MessageService, limits: rules.Limits) -> None:
        self._driver = driver
        self._messages = messages
        self._limits = limits

    async def watch(self, project: str, queue: str, watcher: QueueWatcher) -> None:
        await self._live.watch(project, queue, watcher)

    def unwatch(self, project: str, queue: str, watcher: QueueWatcher) -> None:
        self._live.unwatch(project, queue, watcher)

    async def history(
        self, project: str, queue: str, since: HistoryFilter
    ) -> tuple[list[wire.Publication], Position]:
        first, last = 1, _LAST
        if since.position is not None:
            offset = since.position.offset
            first, last = (first, min(offset - 1, last)) if since.reverse else (offset + 1, last)
        limit = _PAGE_MAX if since.limit is None else min(since.limit, _PAGE_MAX)
        found: list[Message] = []
        for _ in range(_PAGES_MAX):
            page = await self._live.history(
                project,
                queue,
                first=first,
                last=last,
                limit=limit - len(found),
                reverse=since.reverse,
            )
            found += page.messages
            if not page.messages or len(found) >= limit:
                break
            if since.reverse:
                last = page.messages[-1].rank - 1
            else:
                first = page.messages[-1].rank + 1
        return self.publications(project, found), Position(page.rank, page.epoch)

    async def publish(
        self,
        project: str,
        queue: str,
        data: Raw,
        client: str,
        dedup: Dedup,
        tags: Mapping[str, str],
    ) -> Published:
        if dedup.version:
            raise CommandRejected(codes.NOT_AVAILABLE)
        body = bytes(data)
        given = body + msgspec.json.encode(tags, order="sorted") if tags else body
        if len(given) > self._limits.max_messages_post_size:
            raise CommandRejected(codes.BAD_REQUEST)
        idempotency_key = None
        if dedup.key:
            # The same key with other content is refused: it is not a repetition.
            digest = hashlib.blake2b(given, digest_size=16).digest()
            window = self._limits.idempotency_window * 1000
            idempotency_key = IdempotencyKey(f"channel {dedup.key}", digest, window)
        try:
            posted = await self._messages.post(
                project,
                queue,
                [NewMessage(body=body, attributes=tags or None)],
                client=client,
                size=len(given),
                idempotency_key=idempotency_key,
            )
        except errors.Unavailable:
            raise
        except (errors.QuotaExceeded, errors.PostRefused) as problem:
            raise CommandRejected(codes.LIMIT_EXCEEDED) from problem
        except errors.Problem as problem:
            raise CommandRejected(codes.BAD_REQUEST) from problem
        return Published(Position(posted.rank, posted.epoch), new=not posted.replayed)

    def publications(self, project: str, messages: Sequence[Message]) -> list[wire.Publication]:
        return [
            self._publication(message) for message in self._messages.decrypted(project, messages)
        ]

    def _publication(self, message: Message) -> wire.Publication:
        tags = {"id": message.id, "ttl": str(message.ttl)}
        if message.delay:
            tags["delay"] = str(message.delay)
        if message.attributes:
            tags = {name: _text(value) for name, value in message.attributes.items()} | tags
        return wire.Publication(
            data=Raw(message.body),
            offset=message.rank,
            tags=tags,
            time=message.created,
        )

    @property
    def _live(self) -> Live:
        if self._driver.live is None:
            raise CommandRejected(codes.NOT_AVAILABLE)
        return self._driver.live


def _text(value: str | int | float | bytes) -> str:
    """Returns an attribute as a tag: Centrifugo's tags are texts."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
