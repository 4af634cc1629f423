# SPDX-License-Identifier: Apache-2.0
"""A store of queues in a dictionary, for one process: the smallest possible driver.

It stores what it is given, and never expires anything.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from zaqar_redis import errors, records
from zaqar_redis.rules import is_topic
from zaqar_redis.storage.contract import PostDeadLetter

QueueAddress = tuple[str, str]


@dataclass
class DictQueue:
    metadata: dict[str, Any]
    ranks: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    messages: dict[str, records.Message] = field(default_factory=dict)

    def held_by(self, claim: str) -> list[records.Message]:
        return [message for message in self.messages.values() if message.claim_id == claim]

    def hold(self, message: records.Message, claim: str | None) -> records.Message:
        held = msgspec.structs.replace(message, claim_id=claim)
        self.messages[message.id] = held
        return held


StoredQueues = dict[QueueAddress, DictQueue]


class DictQueues:
    def __init__(self, store: StoredQueues) -> None:
        self._store = store

    async def create(self, project: str, queue: str, metadata: dict[str, Any]) -> bool:
        made = (project, queue) not in self._store
        self._store.setdefault((project, queue), DictQueue(metadata))
        return made

    async def get(self, project: str, queue: str) -> records.Queue | None:
        kept = self._store.get((project, queue))
        return records.Queue(name=queue, metadata=kept.metadata) if kept else None

    async def update(self, project: str, queue: records.Queue, metadata: dict[str, Any]) -> bool:
        kept = self._store.get((project, queue.name))
        if kept is None or kept.metadata != queue.metadata:
            return False
        kept.metadata = metadata
        return True

    async def delete(self, project: str, queue: str) -> None:
        self._store.pop((project, queue), None)

    async def list(
        self,
        project: str,
        after: str,
        limit: int,
        wanted: Callable[[records.Queue], bool] | None,
        *,
        topics: bool = False,
    ) -> records.Page[records.Queue]:
        queues = [
            records.Queue(name=name, metadata=kept.metadata)
            for (owner, name), kept in sorted(self._store.items(), key=lambda item: item[0])
            if owner == project and name > after and is_topic(name) == topics
        ]
        items = [queue for queue in queues if wanted is None or wanted(queue)][:limit]
        return records.Page(items=items, marker=items[-1].name if items else "")

    async def count(self, project: str) -> int:
        return sum(owner == project and not is_topic(name) for owner, name in self._store)

    async def stats(self, project: str, queue: str) -> records.Stats:
        kept = self._store.get((project, queue))
        messages = list(kept.messages.values()) if kept else []
        if not messages:
            return records.Stats()
        claimed = sum(message.claim_id is not None for message in messages)
        return records.Stats(len(messages), claimed, messages[0], messages[-1])

    async def size(self, project: str, queue: str) -> records.QueueSize:
        kept = self._store.get((project, queue))
        bodies = [message.body for message in kept.messages.values()] if kept else []
        return records.QueueSize(len(bodies), sum(map(len, bodies)))

    async def purge(self, project: str, queue: str) -> None:
        if kept := self._store.get((project, queue)):
            kept.messages.clear()


class DictMessages:
    def __init__(self, store: StoredQueues) -> None:
        self._store = store

    async def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[records.NewMessage],
        *,
        client: str,
        default_ttl: int,
        size: int,
        idempotency_key: records.IdempotencyKey | None = None,
    ) -> records.PostResult:
        kept = self._store.setdefault((project, queue), DictQueue({}))
        now = time.time_ns() // 1_000_000
        ids = []
        for draft in drafts:
            rank = next(kept.ranks)
            ttl = draft.ttl or default_ttl
            ids.append(str(uuid.uuid4()))
            kept.messages[ids[-1]] = records.Message(
                id=ids[-1],
                rank=rank,
                age=0,
                ttl=ttl,
                body=draft.body,
                created=now,
                expires=now + ttl * 1000,
                client=client.encode(),
            )
        return records.PostResult(ids=tuple(ids))

    async def dead_letter(
        self,
        project: str,
        queue: str,
        message: records.NewMessage,
        *,
        client: bytes,
        idempotency_key: records.IdempotencyKey,
    ) -> None:
        raise AssertionError("this driver never dead-letters a message")

    async def list(
        self, project: str, queue: str, listing: records.MessageListing
    ) -> records.Page[records.Message]:
        kept = self._store.get((project, queue), DictQueue({}))
        last, reverse = kept.messages.get(listing.after or ""), listing.reverse
        hidden = listing.hide_client
        stored = [*kept.messages.values()]
        items = [
            message
            for message in (reversed(stored) if reverse else stored)
            if (last is None or (message.rank < last.rank if reverse else message.rank > last.rank))
            and (hidden is None or message.client != hidden.encode())
            and (listing.include_claimed or message.claim_id is None)
        ][: listing.limit]
        return records.Page(items=items, marker=items[-1].id if items else "")

    async def get(self, project: str, queue: str, ids: Sequence[str]) -> Sequence[records.Message]:
        messages = self._store.get((project, queue), DictQueue({})).messages
        return [messages[message_id] for message_id in ids if message_id in messages]

    async def delete(
        self,
        project: str,
        queue: str,
        ids: Sequence[str],
        *,
        claims: Sequence[str] | None,
        force: bool,
    ) -> None:
        found = await self.get(project, queue, ids)
        for message in found:
            if claims is None and message.claim_id and not force:
                raise errors.MessageClaimed
            if claims is not None and message.claim_id not in claims:
                raise errors.ClaimedByOther
        for message in found:
            del self._store[project, queue].messages[message.id]

    async def pop(self, project: str, queue: str, limit: int) -> records.ClaimResult:
        page = await self.list(project, queue, records.MessageListing(limit, include_delayed=True))
        for message in page.items:
            del self._store[project, queue].messages[message.id]
        return records.ClaimResult(messages=tuple(page.items))


class DictClaims:
    def __init__(self, store: StoredQueues) -> None:
        self._store = store

    async def create(
        self,
        project: str,
        queue: str,
        lease: records.Lease,
        *,
        limit: int,
        client: str = "",
    ) -> records.ClaimResult:
        kept = self._store.get((project, queue), DictQueue({}))
        free = [message for message in kept.messages.values() if message.claim_id is None]
        if not free:
            return records.ClaimResult(messages=())
        claim = uuid.uuid4().hex
        held = tuple(kept.hold(message, claim) for message in free[:limit])
        return records.ClaimResult(messages=held, claim_id=claim)

    async def get(self, project: str, queue: str, claim: str) -> records.Claim | None:
        held = self._store.get((project, queue), DictQueue({})).held_by(claim)
        return records.Claim(id=claim, ttl=300, age=0, messages=tuple(held)) if held else None

    async def update(
        self,
        project: str,
        queue: str,
        claim: str,
        lease: records.Lease,
        *,
        ids: Sequence[str] | None = None,
    ) -> Sequence[str] | None:
        held = self._held(project, queue, claim)
        return (
            [message.id for message in held if ids is None or message.id in ids] if held else None
        )

    async def release(
        self,
        project: str,
        queue: str,
        claim: str,
        *,
        ids: Sequence[str] | None = None,
        delay: int | None = None,
        reason: str = "",
    ) -> Sequence[str] | None:
        if reason:
            raise errors.Conflict(why='A "reason" is not available in this store.')
        held = self._held(project, queue, claim)
        released = [message for message in held if ids is None or message.id in ids]
        for message in released:
            self._store[project, queue].hold(message, None)
        return [message.id for message in released] if held else None

    async def delete(self, project: str, queue: str, claim: str) -> None:
        await self.release(project, queue, claim)

    def _held(self, project: str, queue: str, claim: str) -> list[records.Message]:
        return self._store.get((project, queue), DictQueue({})).held_by(claim)


class DictDriver:
    """The storage contract, as far as a dictionary can implement it."""

    feed = None
    live = None
    administration = None
    subscriptions = None
    deliveries = None
    subscription_deliveries = None
    sweeper = None
    transfer = None
    checker = None
    ownership = None
    figures = None

    def __init__(self) -> None:
        store: StoredQueues = {}
        self.queues = DictQueues(store)
        self.messages = DictMessages(store)
        self.claims = DictClaims(store)

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None:
        pass  # this driver never dead-letters a message

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ping(self) -> None:
        pass

    async def identity(self) -> str:
        return str(id(self))


def create(uri: str, options: Mapping[str, Any]) -> DictDriver:
    return DictDriver()
