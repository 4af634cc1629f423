# SPDX-License-Identifier: Apache-2.0
"""A store as threads and Spark use it: verbs that are run, not awaited."""

from __future__ import annotations

import json
from typing import Any

from tests.contract.stores import CLIENT, TTL, OwnedClock, drafts
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Draft, Retry, Taken
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.ledger import Digest, Ledger
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.ranges import Ranges
from zaqar_redis.storage.drivers.redis.stages import Stages

#: A chunk as the ledger and the stages take it.
Chunk = list[tuple[int, int, bytes]]


def chunk_of(*names: str, ttl: int = -1, delay: int = -1, sealed: bool = False) -> Chunk:
    client = envelope.client_bytes(CLIENT)
    bodies = [Draft(body=json.dumps(name).encode(), sealed=sealed) for name in names]
    return [(ttl, delay, envelope.tail(body, client)) for body in bodies]


class Blocking:
    """What is not said otherwise happens to the queue "q" of the test's project."""

    def __init__(self, uri: str, project: str, clock: OwnedClock | None = None) -> None:
        self.uri = uri
        self.project = project
        self.clock = clock or OwnedClock()
        self.client = BlockingClient(uri, BatchSettings())
        self.queues = Queues(self.client, self.clock)
        self.messages = Messages(self.client, self.clock)
        self.claims = Claims(self.client, self.clock, self.messages.bury)
        self.ranges = Ranges(self.client, self.clock)
        self.ledger = Ledger(self.client, self.clock)
        self.stages = Stages(self.client, self.clock)

    def key(self, slot: str, queue: str = "q") -> bytes:
        key: bytes = getattr(keys.of_queue(self.project, queue), slot)
        return key

    def command(self, *parts: bytes | str | int) -> Any:
        return self.client.command(*parts)

    def create(self, queue: str = "q", **metadata: Any) -> None:
        self.queues.create(self.project, queue, metadata).run()

    def destroy(self, queue: str = "q") -> None:
        self.queues.delete(self.project, queue).run()

    def post(
        self, *names: str, retry: Retry | None = None, ttl: int | None = None, queue: str = "q"
    ) -> list[str]:
        posted = self.messages.post(
            self.project,
            queue,
            drafts(names, ttl, None),
            client=CLIENT,
            default_ttl=TTL,
            size=0,
            retry=retry,
        ).run()
        return list(posted.ids)

    def write(
        self,
        batch: int,
        chunk: int,
        messages: Chunk,
        *,
        name: str = "writer",
        digest: Digest | None = None,
        size: int = 0,
        sealed: bool = False,
    ) -> bool:
        """By the ledger; without a *digest* of what came before, as if that were nothing."""
        return self.ledger.post(
            self.project,
            "q",
            messages,
            name=name,
            batch=batch,
            chunk=chunk,
            digest=(digest or Digest()).add(messages),
            size=size,
            default_ttl=TTL,
            sealed=sealed,
        ).run()

    def end(self, batch: int, chunk: int, digest: Digest) -> None:
        """*digest* is of all that was sent."""
        self.ledger.end(
            self.project, "q", name="writer", batch=batch, chunk=chunk, digest=str(digest)
        ).run()

    def last(self, name: str = "writer") -> tuple[int, int] | None:
        return self.ledger.last(self.project, "q", name).run()

    def remove(self, *ids: str) -> None:
        self.messages.delete(self.project, "q", ids, claims=None, force=True).run()

    def claim(self, limit: int, ttl: int = 600) -> Taken:
        return self.claims.create(self.project, "q", ttl=ttl, grace=60, limit=limit).run()

    def bodies(self, queue: str = "q") -> list[str]:
        """What the bodies of all messages say, by rank."""
        ranks = self.command("ZRANGE", self.key("messages", queue), 0, -1)
        if not ranks:
            return []
        envelopes = self.command("HMGET", self.key("bodies", queue), *ranks)
        return [envelope.partition(b'"')[2][:-1].decode() for envelope in envelopes]

    def last_rank(self, queue: str = "q") -> int:
        return int(self.command("HGET", self.key("queue", queue), "rank") or 0)

    def close(self) -> None:
        self.client.close()
