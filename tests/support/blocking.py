# SPDX-License-Identifier: Apache-2.0
"""A store as threads and Spark use it: verbs are run to the end, not awaited."""

from __future__ import annotations

import json
from typing import Any

from tests.support.clock import ManualClock
from tests.support.stores import CLIENT, PATIENT, TTL, PooledContractStore, new_messages
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import blocking, envelope, keys
from zaqar_redis.records import ClaimResult, IdempotencyKey, Lease, NewMessage
from zaqar_redis.storage.redis.bulk.ledger import BatchDigest, RedisLedger
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges
from zaqar_redis.storage.redis.bulk.staged_chunks import RedisStagedChunks
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.queues import RedisQueues

#: A chunk in the form that the ledger and the staged writes take.
Chunk = list[tuple[int, int, bytes]]


def chunk_of(*names: str, ttl: int = -1, delay: int = -1, encrypted: bool = False) -> Chunk:
    client = envelope.client_bytes(CLIENT)
    bodies = [NewMessage(body=json.dumps(name).encode(), encrypted=encrypted) for name in names]
    return [(ttl, delay, envelope.tail(body, client)) for body in bodies]


class ProjectStore:
    """The verbs of one project, which block; the default queue is "q"."""

    def __init__(self, uri: str, project: str, now: Clock) -> None:
        self.uri = uri
        self.project = project
        self.client = blocking.client(uri, PATIENT)
        self.queues = RedisQueues(self.client, now)
        self.messages = RedisMessages(self.client, now)
        self.claims = RedisClaims(self.client, now, self.messages.dead_letter)
        self.ranges = RedisRanges(self.client, now)
        self.ledger = RedisLedger(self.client, now)

    def close(self) -> None:
        self.client.close()

    def key(self, slot: str, queue: str = "q") -> bytes:
        key: bytes = getattr(keys.of_queue(self.project, queue), slot)
        return key

    def command(self, *parts: bytes | str | int) -> Any:
        return self.client.command(*parts)

    def create(self, queue: str = "q", **metadata: Any) -> None:
        self.queues.create(self.project, queue, metadata).run()

    def delete(self, queue: str = "q") -> None:
        self.queues.delete(self.project, queue).run()

    def claim(self, limit: int, queue: str = "q", ttl: int = 600, client: str = "") -> ClaimResult:
        made = self.claims.create(self.project, queue, Lease(ttl, 60), limit=limit, client=client)
        return made.run()

    def bodies(self, queue: str = "q") -> list[Any]:
        """Returns the decoded bodies of all messages, by rank."""
        ranks = self.command("ZRANGE", self.key("messages", queue), 0, -1)
        if not ranks:
            return []
        stored = self.command("HMGET", self.key("bodies", queue), *ranks)
        return [json.loads(_body(each)) for each in stored]

    def last_rank(self, queue: str = "q") -> int:
        """Returns the highest rank ever assigned."""
        return int(self.command("HGET", self.key("queue", queue), "rank") or 0)


class BlockingStore(ProjectStore):
    """A store as Spark's tasks use it, with a clock that only the test advances."""

    def __init__(self, uri: str, project: str, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        super().__init__(uri, project, self.clock)
        self.stages = RedisStagedChunks(self.client, self.clock)

    def post(
        self,
        *names: str,
        idempotency_key: IdempotencyKey | None = None,
        ttl: int | None = None,
        queue: str = "q",
    ) -> list[str]:
        posted = self.messages.post(
            self.project,
            queue,
            new_messages(names, ttl, None),
            client=CLIENT,
            default_ttl=TTL,
            size=0,
            idempotency_key=idempotency_key,
        ).run()
        return list(posted.ids)

    def write(
        self,
        batch: int,
        chunk: int,
        messages: Chunk,
        *,
        name: str = "writer",
        digest: BatchDigest | None = None,
        size: int = 0,
        encrypted: bool = False,
    ) -> bool:
        """Writes through the ledger; without a *digest*, nothing was written before."""
        return self.ledger.post(
            self.project,
            "q",
            messages,
            name=name,
            batch=batch,
            chunk=chunk,
            digest=(digest or BatchDigest()).add(messages),
            size=size,
            default_ttl=TTL,
            encrypted=encrypted,
        ).run()

    def end(self, batch: int, chunk: int, digest: BatchDigest) -> None:
        """Ends the batch; *digest* covers all chunks that were sent."""
        self.ledger.end(
            self.project, "q", name="writer", batch=batch, chunk=chunk, digest=str(digest)
        ).run()

    def last(self, name: str = "writer") -> tuple[int, int] | None:
        return self.ledger.last(self.project, "q", name).run()

    def remove(self, *ids: str) -> None:
        self.messages.delete(self.project, "q", ids, claims=None, force=True).run()


def _body(stored: bytes) -> bytes:
    """Returns the body in an envelope."""
    *_, flags, _, origin_length = envelope.head(stored)
    body = envelope.rest(stored, origin_length)[2]
    return envelope.with_attributes(body)[1] if envelope.has_attributes(flags) else body


def both_pools(pools: PooledContractStore) -> list[BlockingStore]:
    """Returns blocking clients of the pool of the queue "q", and of another one."""
    uris = map(pools.uri_of, pools.route())
    return [BlockingStore(uri, pools.project, pools.clock) for uri in uris]
