# SPDX-License-Identifier: Apache-2.0
"""A store with two pools, and the complete content of a queue in each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.support import servers
from tests.support.stores import OWN_KEYS
from zaqar_redis import clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import ClaimResult, Lease, NewMessage
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.pools import RedisPools
from zaqar_redis.storage.redis.queues import RedisQueues

_CHUNK = 1000
TTL = 3600


class PooledProject:
    """Queues of one project in a store and its pools "one" and "two"."""

    def __init__(self, default_pool: str, pools: dict[str, str], project: str) -> None:
        self.uri = default_pool
        self.project = project
        self.store_config = StoreConfig(default_pool, default_pool, project, 10.0)
        self.stores = StoreConnections(self.store_config)
        pools_storage = RedisPools(self.client(default_pool))
        for name, uri in pools.items():
            pools_storage.put(Pool(name=name, uri=uri, weight=100), canonical=uri).run()

    def close(self) -> None:
        self.stores.close()

    @contextlib.contextmanager
    def draining(self, name: str) -> Iterator[None]:
        """Marks a pool as draining, without a service that would drain it."""
        pools = RedisPools(self.client(self.uri))
        pool = pools.get(name).run()
        assert pool is not None
        pools.put(msgspec.structs.replace(pool, draining=True), canonical=pool.uri).run()
        try:
            yield
        finally:
            pools.put(pool, canonical=pool.uri).run()

    def client(self, uri: str) -> BlockingClient:
        return self.stores.client(uri)

    def pool(self, queue: str) -> str:
        return self.stores.location(queue).pool

    def other(self, queue: str) -> str:
        return "two" if self.pool(queue) == "one" else "one"

    def client_of(self, queue: str) -> BlockingClient:
        """Returns a client of the queue's store; routes a new queue."""
        return self.client(self.stores.location(queue, make=True).uri)

    def create(self, queue: str, **metadata: Any) -> None:
        RedisQueues(self.client_of(queue), clock.store).create(self.project, queue, metadata).run()

    def delete(self, queue: str) -> None:
        RedisQueues(self.client_of(queue), clock.store).delete(self.project, queue).run()

    def post(self, queue: str, *bodies: Any, delay: int = -1) -> None:
        ledger = RedisLedger(self.client_of(queue), clock.store)
        for first in range(0, len(bodies), _CHUNK):
            chunk = [
                (TTL, delay, envelope.tail(NewMessage(json.dumps(body).encode()), b"0" * 16))
                for body in bodies[first : first + _CHUNK]
            ]
            ledger.append(
                self.project, queue, chunk, size=0, default_ttl=TTL, encrypted=False
            ).run()

    def claim(self, queue: str, limit: int) -> ClaimResult:
        messages = RedisMessages(self.client_of(queue), clock.store)
        claims = RedisClaims(messages.client, clock.store, messages.dead_letter)
        return claims.create(self.project, queue, Lease(600, 60), limit=limit).run()

    def fill(self, queue: str, number: int = 12_000) -> None:
        """Creates a queue with messages in every state, one of them deleted."""
        self.create(queue, colour="blue", _default_message_delay=900)
        self.post(queue, *range(number), delay=0)
        self.post(queue, "later", delay=600)
        taken = self.claim(queue, 20)
        self.remove(queue, taken.messages[3].id)

    def remove(self, queue: str, *ids: str) -> None:
        messages = RedisMessages(self.client_of(queue), clock.store)
        messages.delete(self.project, queue, ids, claims=None, force=True).run()

    def content(self, queue: str, pool: str | None = None) -> dict[str, Any]:
        """Returns the content of the queue in a pool, without its move lock."""
        name = pool or self.pool(queue)
        return content(self.client(self.stores.uri_of(name)), self.project, queue)

    def bodies(self, queue: str) -> list[Any]:
        """Returns the bodies by rank."""
        found = content(self.client(self.stores.location(queue).uri), self.project, queue)
        stored = found.get("bodies", {})
        return [json.loads(stored[rank][58:]) for rank in sorted(stored, key=int)]


def content(client: BlockingClient, project: str, queue: str) -> dict[str, Any]:
    """Returns the queue's content by kind of key."""
    found: dict[str, Any] = {}
    known = keys.of_queue(project, queue)
    for slot in OWN_KEYS:
        key = getattr(known, slot)
        kind = client.command("TYPE", key)
        if kind in (b"zset", "zset"):
            found[slot] = _pairs(client.command("ZRANGE", key, 0, -1, "WITHSCORES"))
        elif kind in (b"hash", "hash"):
            found[slot] = _pairs(client.command("HGETALL", key))
            found[slot].pop(b"due", None)
    return found


def move_lock(client: BlockingClient, project: str, queue: str) -> str:
    lock = client.command("GET", keys.of_queue(project, queue).move_lock)
    return (lock or b"").decode()


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@contextlib.contextmanager
def running_servers() -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the URI of the default pool, and those of two pools by name."""
    with (
        servers.redis_server() as default_pool,
        servers.redis_server() as one,
        servers.redis_server(servers.VALKEY) as two,
    ):
        yield default_pool.uri, {"one": one.uri, "two": two.uri}
