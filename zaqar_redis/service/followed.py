# SPDX-License-Identifier: Apache-2.0
"""Queues as channels, over the store that they are in."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

from msgspec import Raw

from zaqar_redis import errors, rules
from zaqar_redis.realtime import codes, wire
from zaqar_redis.realtime.codes import Refused
from zaqar_redis.realtime.engine import Once, Position, Published, Since
from zaqar_redis.realtime.queues import Watcher
from zaqar_redis.records import Draft, Message, Retry
from zaqar_redis.service.messages import Messages
from zaqar_redis.storage.driver import Driver, Live

LOG = logging.getLogger(__name__)

#: Messages of one answer, whoever asks, and pages of about a megabyte that it is made of:
#: a client, and a proxy before it, must take it in one piece.
_MOST, _PAGES = 1000, 16
#: The last rank that a sorted set can tell from the next one.
_LAST = 2**53


class FollowedQueues:
    """Keeps `zaqar_redis.realtime.queues.Queues`."""

    def __init__(self, driver: Driver, messages: Messages, limits: rules.Limits) -> None:
        self._driver = driver
        self._messages = messages
        self._limits = limits

    async def watch(self, project: str, queue: str, watcher: Watcher) -> None:
        await self._live.watch(project, queue, watcher)

    def unwatch(self, project: str, queue: str, watcher: Watcher) -> None:
        self._live.unwatch(project, queue, watcher)

    async def history(
        self, project: str, queue: str, since: Since
    ) -> tuple[list[wire.Publication], Position]:
        first, last = 1, _LAST
        if since.position is not None:
            at = since.position.offset
            first, last = (first, min(at - 1, last)) if since.reverse else (at + 1, last)
        limit = _MOST if since.limit is None else min(since.limit, _MOST)
        found: list[Message] = []
        for _ in range(_PAGES):
            past = await self._live.history(
                project,
                queue,
                first=first,
                last=last,
                limit=limit - len(found),
                reverse=since.reverse,
            )
            found += past.messages
            if not past.messages or len(found) >= limit:
                break
            if since.reverse:
                last = past.messages[-1].rank - 1
            else:
                first = past.messages[-1].rank + 1
        return self.publications(project, found), Position(past.rank, past.epoch)

    async def publish(
        self, project: str, queue: str, data: Raw, client: str, once: Once
    ) -> Published:
        if once.version:
            raise Refused(codes.NOT_AVAILABLE)
        body = bytes(data)
        if len(body) > self._limits.max_messages_post_size:
            raise Refused(codes.BAD_REQUEST)
        retry = None
        if once.key:
            # What is refused with other content under the same key is no repetition.
            digest = hashlib.blake2b(body, digest_size=16).digest()
            window = self._limits.idempotency_window * 1000
            retry = Retry(f"channel {once.key}", digest, window)
        try:
            posted = await self._messages.post(
                project,
                queue,
                [Draft(body=body)],
                client=client,
                size=len(body),
                retry=retry,
            )
        except errors.Unavailable:
            raise
        except errors.Problem as problem:
            raise Refused(codes.BAD_REQUEST) from problem
        return Published(Position(posted.rank, posted.epoch), new=not posted.replayed)

    def publications(self, project: str, messages: Sequence[Message]) -> list[wire.Publication]:
        return [self._publication(message) for message in self._messages.opened(project, messages)]

    def _publication(self, message: Message) -> wire.Publication:
        tags = {"id": message.id, "ttl": str(message.ttl)}
        if message.delay:
            tags["delay"] = str(message.delay)
        return wire.Publication(
            data=Raw(message.body),
            offset=message.rank,
            tags=tags,
            time=message.created,
        )

    @property
    def _live(self) -> Live:
        if self._driver.live is None:
            raise Refused(codes.NOT_AVAILABLE)
        return self._driver.live
